"""How a run goes: sums between two logged steps, and what is written down and said of them."""

from __future__ import annotations

import math
import time
from dataclasses import asdict
from typing import Any

from mtkit.config.settings import Metric
from mtkit.report import say, warn
from mtkit.training.run.history import Validation, rank
from mtkit.training.run.writer import Writer
from mtkit.training.state import TrainState, Window
from mtkit.training.step import StepReport


class Journal:
    """Sums between two logged steps live in the state, so that a resumed run logs the same."""

    def __init__(self, state: TrainState, writer: Writer) -> None:
        self.state, self.writer = state, writer
        self.note = ""
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
        """Writes the means since the last call, per target token; nothing if all were skipped."""
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
        where = {"kind": kind, "step": state.step, "epoch": state.position.epoch}
        self.writer.log(where | values | {"seconds": round(state.seconds, 2)})

    def _measure_from_here(self) -> None:
        self._since, self._tokens = time.monotonic(), 0

    def _rate(self) -> float:
        return self._tokens / max(1e-9, time.monotonic() - self._since)
