"""What a run is over its updates: how training went, and the learning rate as it is configured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.study.info.lengths import lengths_of
from mtkit.study.info.records import points_of, records_of
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure, save
from mtkit.study.plots.terminal import Points, curve
from mtkit.training.optimizer.schedule import learning_rate

LOGGED = {
    "training loss": ("train", "loss"),
    "validation loss": ("valid", "loss"),
    "validation BLEU": ("valid", "bleu"),
    "validation chrF2": ("valid", "chrf"),
    "learning rate": ("train", "learning_rate"),
    "tokens per second": ("train", "tokens_per_second"),
}
"""The kind of record in metrics.jsonl and its field, by the name of the curve."""
MOST_POINTS = 1000
"""Updates that the curve of the learning rate goes through, besides the end of the warmup."""


@dataclass(frozen=True)
class Curves(View):
    """One or more curves over the updates of training, each in a panel of its own."""

    points: Mapping[str, Points]
    """Points (update, value) of each curve, by what the value is."""

    def text(self) -> Iterator[str]:
        for name, points in self.points.items():
            yield f"{name} by update"
            yield from curve(points)
            yield ""

    def draw(self, path: Path) -> None:
        columns = min(2, len(self.points))
        rows = -(-len(self.points) // columns)
        drawn, panels = figure(width=5 * columns, height=2.5 * rows, rows=rows, columns=columns)
        for panel, (name, points) in zip(panels, self.points.items(), strict=False):
            panel.plot(*zip(*points, strict=True), "." if len(points) == 1 else "-")
            panel.set_title(name, fontsize="medium")
            panel.set_xlabel("update")
        for panel in panels[len(self.points) :]:
            panel.remove()
        save(drawn, path)


def curves_of(run: Path, config: Config) -> Curves:
    """What metrics.jsonl holds; UserError where it holds nothing yet."""
    metrics = run / "metrics.jsonl"
    records = records_of(metrics)
    curves = {name: points_of(records, *of) for name, of in LOGGED.items()}
    found = {name: points for name, points in curves.items() if points}
    if not found:
        raise UserError(f"{metrics}: nothing logged there yet: train with `mtkit train`")
    return Curves(found)


def schedule_of(run: Path, config: Config) -> Curves:
    """The learning rate; that of `plateau` falls where the validations of the run so far let it.

    Raises UserError where epochs are to be counted, and there are no batches.
    """
    training, validations = config.training, records_of(run / "metrics.jsonl")
    losses = [(int(step), loss) for step, loss in points_of(validations, "valid", "loss")]
    total = training.steps or _updates(run, config)
    spaced = range(1, total, -(-total // MOST_POINTS))
    rates = [
        (
            step,
            learning_rate(
                step,
                schedule=training.schedule,
                warmup=training.warmup,
                d_model=config.model.d_model,
                total_steps=total,
                losses=losses,
            ),
        )
        for step in sorted({*spaced, min(training.warmup, total), total})
    ]
    return Curves({f"learning rate ({training.schedule.kind})": rates})


def _updates(run: Path, config: Config) -> int:
    """Updates of all epochs on one processor."""
    batches = len(lengths_of(run, config).plan)
    return (config.training.epochs or 0) * -(-batches // config.training.accumulate)
