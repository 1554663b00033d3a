"""What a run writes down while it goes: metrics.jsonl always, TensorBoard if asked for."""

from __future__ import annotations

import math
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.config.training import Metric
from mtkit.errors import UserError
from mtkit.report import MetricsLog, say, warn
from mtkit.training.run.distributed import Ranks
from mtkit.training.run.history import Validation, rank
from mtkit.training.state import TrainState, Window
from mtkit.training.step import StepReport

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Journal(AbstractContextManager["Journal"]):
    """Sums between two logged steps live in the state, so that a resumed run logs the same.

    Records after the step where the run goes on are dropped: they will be written again.
    """

    def __init__(self, run: Path, state: TrainState, ranks: Ranks, *, tensorboard: bool) -> None:
        self.state = state
        self.log = MetricsLog(run / "metrics.jsonl") if ranks.is_first else None
        self.board: SummaryWriter | None = None
        if self.log is not None:
            self.log.truncate(state.step)
            self.board = _board(run / "tensorboard", state.step) if tensorboard else None
        self.note = ""
        self._began = time.monotonic() - state.seconds
        self._measure_from_here()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.board is not None:
            self.board.close()

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
        self._report = report
        self._tokens += report.tokens
        self.note = (
            f"loss {window.nll / window.tokens:.3f}  {self._rate():,.0f} tokens/s  "
            f"lr {report.learning_rate:.2e}"
        )

    def log_step(self) -> None:
        """Writes the means since the last call, per target token; nothing if all were skipped."""
        window, state = self.state.window, self.state
        if not window.tokens:
            return
        nll = window.nll / window.tokens
        record = {
            "loss": nll,
            "perplexity": math.exp(min(nll, 700.0)),
            "smoothed_loss": window.smoothed / window.tokens,
            "learning_rate": self._report.learning_rate,
            "gradient_norm": self._report.gradient_norm,
            "tokens": window.tokens,
            "skipped": state.skipped,
            "tokens_per_second": round(self._rate(), 1),
        }
        state.window = Window()
        self._measure_from_here()
        self._write("train", record)

    def log_validation(self, validation: Validation, metric: Metric) -> None:
        """Writes the scores and says them, with a star for a new best."""
        scores = {k: v for k, v in asdict(validation).items() if k != "step" and v is not None}
        self._write("valid", scores)
        best = rank(self.state.validations, metric)[0] is validation
        text = "  ".join(f"{name} {value:.3f}" for name, value in scores.items())
        say(f"step {validation.step:,}  valid: {text}{'  * best' if best else ''}")
        self._measure_from_here()

    def _write(self, kind: str, values: dict[str, Any]) -> None:
        state = self.state
        if self.log is not None:
            self.log.write(
                {"kind": kind, "step": state.step, "epoch": state.epoch}
                | values
                | {"seconds": round(state.seconds, 2)}
            )
        if self.board is not None:
            for name, value in values.items():
                self.board.add_scalar(f"{kind}/{name}", value, state.step)

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
