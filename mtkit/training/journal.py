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
        self.config = config
        self.state = state
        self.signatures = signatures
        self.note = ""
        """Loss, speed and learning rate, for the progress line."""
        self._metrics = MetricsLog(Path(config.run)) if is_main else None
        self._board: SummaryWriter | None = None
        if self._metrics is not None:
            self._metrics.truncate(state.progress.step)
            if config.training.tensorboard:
                self._open_board()
        self._reported_skipped = state.progress.skipped
        """Number of skipped steps of which `log_step` has warned, or an earlier process."""
        self._noted_at = -math.inf
        """When `note` was written; by the clock of `time.monotonic`, as the next two."""
        self._began_at = time.monotonic() - state.seconds
        """When the run would have begun if it had not been interrupted."""
        self._rate_since = 0.0
        self._rate_tokens = 0
        """Tokens since `_rate_since`, from which the speed is computed."""
        self._restart_rate()

    def add(self, tokens: int) -> None:
        """Add the tokens of a step."""
        self.state.seconds = time.monotonic() - self._began_at
        self._rate_tokens += tokens

    def is_note_due(self) -> bool:
        """Return whether `note` is a second old."""
        return time.monotonic() - self._noted_at >= 1

    def write_note(self) -> None:
        """Update `note` from `state.progress`; call `state.read_figures` before."""
        self._noted_at = time.monotonic()
        window = self.state.progress.window
        if window.tokens:
            self.note = (
                f"loss {window.nll / window.tokens:.3f}  "
                f"{self._rate():,.0f} tokens/s  lr {window.learning_rate:.2e}"
            )

    def log_step(self) -> None:
        """Log the means since the last logged step, unless all steps were skipped.

        Warn if steps were skipped. Then start new sums. Call `state.read_figures` before.
        """
        progress = self.state.progress
        window = progress.window
        skipped = progress.skipped - self._reported_skipped
        if skipped:
            self._reported_skipped = progress.skipped
            warn(
                f"step {progress.step:,}: {plural(skipped, 'step')} skipped, because the loss or "
                "the gradient was not finite"
            )
        if not window.tokens:
            return
        nll = window.nll / window.tokens
        record = {
            "loss": nll,
            "perplexity": math.exp(min(nll, 700.0)),  # exp(710) is beyond the largest float
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
        """Open the log for TensorBoard; raise UserError if TensorBoard is not installed."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise UserError(
                "training.tensorboard: TensorBoard is not installed; run "
                "`pip install 'mtkit[tensorboard]'`"
            ) from None
        folder = Path(self.config.run) / "tensorboard"
        # TensorBoard hides what an interrupted run has logged from this step on.
        self._board = SummaryWriter(folder, purge_step=self.state.progress.step + 1)

    def close(self) -> None:
        """Close the log for TensorBoard, if any."""
        if self._board is not None:
            self._board.close()

    def _write(self, kind: str, values: dict[str, Any]) -> None:
        """Write a record of this kind, in the main process: "train" or "valid"."""
        if self._metrics is None:
            return
        progress = self.state.progress
        record = {"kind": kind, "step": progress.step, "epoch": progress.position.epoch} | values
        signatures: dict[str, str] = {}
        for name, signature in self.signatures.items():
            if name in values:
                signatures[name] = signature
        if signatures:
            record["signatures"] = signatures
        record["seconds"] = round(self.state.seconds, 2)
        self._metrics.write(record)
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(f"{kind}/{name}", value, progress.step)

    def _restart_rate(self) -> None:
        """Measure the speed from now on, so that validations do not count."""
        self._rate_since = time.monotonic()
        self._rate_tokens = 0

    def _rate(self) -> float:
        """Return the target tokens per second."""
        seconds = time.monotonic() - self._rate_since
        return self._rate_tokens / max(1e-9, seconds)  # a coarse clock may show 0
