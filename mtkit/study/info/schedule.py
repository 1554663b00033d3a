"""The learning rate of every update, as a curve."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.config.settings import Config
from mtkit.study.info.lengths import lengths_of
from mtkit.study.info.records import points_of, records_of
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure
from mtkit.study.plots.terminal import curve
from mtkit.training.optimizer.schedule import learning_rate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 1000
"""Updates that the curve goes through, at most, besides the end of the warmup."""


@dataclass(frozen=True)
class Rates(View):
    kind: str
    points: Sequence[tuple[int, float]]
    """(update, learning rate)."""

    @property
    def title(self) -> str:
        return f"learning rate by update ({self.kind})"

    def text(self) -> Iterator[str]:
        yield self.title
        yield from curve(self.points)

    def figure(self) -> Figure:
        drawn, (panel,) = figure()
        panel.plot(*zip(*self.points, strict=True))
        panel.set_title(self.title, fontsize="medium")
        panel.set_xlabel("update")
        panel.set_ylim(bottom=0)
        return drawn


def schedule_of(run: Path, config: Config) -> Rates:
    """As configured; `plateau` falls where the validations of the run so far let it.

    Raises UserError where epochs are to be counted, and there are no batches.
    """
    training, validations = config.training, records_of(run / "metrics.jsonl")
    losses = [(int(step), loss) for step, loss in points_of(validations, "valid", "loss")]
    total = training.steps or _updates(run, config)
    steps = {1, min(training.warmup, total), *range(1, total, -(-total // POINTS)), total}
    rates = [
        learning_rate(
            step,
            schedule=training.schedule,
            warmup=training.warmup,
            d_model=config.model.d_model,
            total_steps=total,
            losses=losses,
        )
        for step in sorted(steps)
    ]
    return Rates(training.schedule.kind, list(zip(sorted(steps), rates, strict=True)))


def _updates(run: Path, config: Config) -> int:
    """Of all epochs on one processor."""
    batches = len(lengths_of(run, config).plan)
    return (config.training.epochs or 0) * -(-batches // config.training.accumulate)
