"""How a run goes: sums between two logged steps, and what is written down and said of them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mtkit.errors import UserError
from mtkit.report import say, warn
from mtkit.scoring.metrics import get_signatures
from mtkit.training.metrics import MetricsLog
from mtkit.training.setup import Job
from mtkit.training.state import StepReport, TrainState, Window, rank

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Journal:
    """Of a run from where `state` stands: the first rank drops the records after it, and writes.

    Sums between two logged steps live in the state, so that a resumed run logs the same.
    """

    def __init__(self, job: Job, state: TrainState) -> None:
        self.job, self.state = job, state
        self.note = ""
        self._metrics = MetricsLog(Path(job.config.run))
        self._board: SummaryWriter | None = None
        if job.group.is_main:
            self._metrics.truncate(state.step)
            if job.config.training.tensorboard:
                self._board = _board(Path(job.config.run) / "tensorboard", state.step)
        self._began = time.monotonic() - state.seconds
        self._measure_from_here()

    def add(self, report: StepReport) -> None:
        """Counts an update in; `note` then says how the run goes, for the progress line."""
        self.state.seconds = time.monotonic() - self._began
        if report.skipped:
            warn(
                f"step {self.state.step:,}: loss {report.nll / report.tokens:.3g}, gradient norm "
                f"{report.gradient_norm:.3g}: update skipped"
            )
            return
        window = self.state.window
        window.smoothed += report.smoothed
        window.nll += report.nll
        window.tokens += report.tokens
        window.learning_rate, window.gradient_norm = report.learning_rate, report.gradient_norm
        self._tokens += report.tokens
        self.note = (
            f"loss {window.nll / window.tokens:.3f}  {self._rate():,.0f} tokens/s  "
            f"lr {report.learning_rate:.2e}"
        )

    def log_step(self) -> None:
        """Writes the means since the last call; nothing if all were skipped."""
        window, state = self.state.window, self.state
        if not window.tokens:
            return
        nll = window.nll / window.tokens
        record = {
            "loss": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "smoothed_loss": window.smoothed / window.tokens,
            "learning_rate": window.learning_rate,
            "gradient_norm": window.gradient_norm,
            "tokens": window.tokens,
            "skipped": state.skipped,
            "tokens_per_second": round(self._rate(), 1),
        }
        state.window = Window()
        self._measure_from_here()
        self._write("train", record)

    def log_validation(self) -> None:
        """Writes the scores of the last one and says them, with a star for a new best."""
        validation = self.state.validations[-1]
        scores = {k: v for k, v in asdict(validation).items() if k != "step" and v is not None}
        of_scores = get_signatures(self.job.config.data.target_language)
        self._write("valid", scores, {k: v for k, v in of_scores.items() if k in scores})
        best = rank(self.state.validations, self.job.config.training.best_by)[0] is validation
        text = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
        say(f"step {validation.step:,}  valid: {text}{'  * best' if best else ''}")
        self._measure_from_here()

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _write(
        self, kind: str, values: dict[str, Any], signed: Mapping[str, str] = MappingProxyType({})
    ) -> None:
        if not self.job.group.is_main:
            return
        state = self.state
        where = {"kind": kind, "step": state.step, "epoch": state.position.epoch}
        told = {"signatures": dict(signed)} if signed else {}
        self._metrics.write(where | values | told | {"seconds": round(state.seconds, 2)})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, state.step)

    def _measure_from_here(self) -> None:
        self._since, self._tokens = time.monotonic(), 0

    def _rate(self) -> float:
        return self._tokens / max(1e-9, time.monotonic() - self._since)


def _board(folder: Path, step: int) -> SummaryWriter:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise UserError(
            "training.tensorboard: TensorBoard is not installed: pip install 'mtkit[tensorboard]'"
        ) from None
    return SummaryWriter(folder, purge_step=step + 1)
