"""What a run logs: means over the steps since the last log, validations, and lines for people."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import plural, say, warn
from mtkit.training.metrics_log import SHOWN_SCORES, MetricsLog
from mtkit.training.state import LogWindow, TrainState, rank

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter


class Journal:
    """The log of a run from `state` on; only the main process writes it.

    The sums since the last logged step are part of the state, so that a resumed run logs the same.
    `signatures`: the signatures of BLEU and chrF in validations.
    """

    def __init__(
        self, config: Config, state: TrainState, is_main: bool, signatures: Mapping[str, str]
    ) -> None:
        self.config, self.state, self.signatures = config, state, signatures
        self.note = ""
        """Loss, speed and learning rate, for the progress line."""
        self._metrics = MetricsLog(Path(config.run)) if is_main else None
        self._board: SummaryWriter | None = None
        if self._metrics is not None:
            self._metrics.truncate(state.progress.step)
            if config.training.tensorboard:
                self._open_board()
        self._skipped, self._noted = state.progress.skipped, -math.inf
        self._began = time.monotonic() - state.seconds
        self._restart_rate()

    def add(self, tokens: int) -> None:
        """Add the tokens of a step."""
        self.state.seconds = time.monotonic() - self._began
        self._tokens += tokens

    def is_note_due(self) -> bool:
        """Return whether `note` is a second old."""
        return time.monotonic() - self._noted >= 1

    def write_note(self) -> None:
        """Update `note` from the figures that have just been read."""
        self._noted = time.monotonic()
        window = self.state.progress.window
        if window.tokens:
            self.note = (
                f"loss {window.nll / window.tokens:.3f}  "
                f"{self._rate():,.0f} tokens/s  lr {window.learning_rate:.2e}"
            )

    def log_step(self) -> None:
        """Log the means since the last logged step, unless all steps were skipped."""
        progress = self.state.progress
        window = progress.window
        if skipped := progress.skipped - self._skipped:
            self._skipped = progress.skipped
            warn(
                f"step {progress.step:,}: {plural(skipped, 'step')} skipped, because the loss or "
                "the gradient was not finite"
            )
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
            "skipped": progress.skipped,
            "tokens_per_second": round(self._rate(), 1),
        }
        progress.window = LogWindow()
        self.state.write_figures()
        self._restart_rate()
        self._write("train", record)

    def log_validation(self) -> None:
        """Log the scores of the last validation, with a star for a new best."""
        validations = self.state.progress.validations
        validation = validations[-1]
        scores: dict[str, float] = {}
        shown: list[str] = []
        for key, value in asdict(validation).items():
            if key == "step" or value is None:
                continue
            name, digits = SHOWN_SCORES[key]
            scores[key] = value
            shown.append(f"{name} {value:{digits}}")
        self._write("valid", scores)
        best_by = self.config.training.best_by
        # By "step" the last weights always rank first, but need not be better.
        is_best = best_by != "step" and rank(validations, best_by)[0] is validation
        star = "  * best" if is_best else ""
        say(f"step {validation.step:,}  valid: {'  '.join(shown)}{star}")
        self._restart_rate()

    def _open_board(self) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "training.tensorboard: TensorBoard is not installed; run "
                "`pip install 'mtkit[tensorboard]'`"
            ) from None
        folder, step = Path(self.config.run) / "tensorboard", self.state.progress.step
        self._board = SummaryWriter(folder, purge_step=step + 1)

    def close(self) -> None:
        if self._board is not None:
            self._board.close()

    def _write(self, kind: str, values: dict[str, Any]) -> None:
        if self._metrics is None:
            return
        progress = self.state.progress
        record = {"kind": kind, "step": progress.step, "epoch": progress.position.epoch} | values
        if scored := {name: it for name, it in self.signatures.items() if name in values}:
            record["signatures"] = scored
        self._metrics.write(record | {"seconds": round(self.state.seconds, 2)})
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, progress.step)

    def _restart_rate(self) -> None:
        self._since, self._tokens = time.monotonic(), 0

    def _rate(self) -> float:
        return self._tokens / max(1e-9, time.monotonic() - self._since)
