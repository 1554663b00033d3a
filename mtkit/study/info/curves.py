"""How training went: loss, learning rate, and the scores of the validations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.study.info.records import points_of, records_of
from mtkit.study.info.view import View
from mtkit.study.plots.picture import figure
from mtkit.study.plots.terminal import curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {
    "training loss": ("train", "loss"),
    "validation loss": ("valid", "loss"),
    "validation BLEU": ("valid", "bleu"),
    "validation chrF2": ("valid", "chrf"),
    "learning rate": ("train", "learning_rate"),
    "tokens per second": ("train", "tokens_per_second"),
}


@dataclass(frozen=True)
class TrainingCurves(View):
    curves: Mapping[str, Sequence[tuple[float, float]]]
    """(update, value) by name."""

    def text(self) -> Iterator[str]:
        for name, points in self.curves.items():
            yield f"{name} by update"
            yield from curve(points)
            yield ""

    def figure(self) -> Figure:
        rows = -(-len(self.curves) // 2)
        drawn, panels = figure(width=9, height=2.5 * rows, rows=rows, columns=2)
        for panel, (name, points) in zip(panels, self.curves.items(), strict=False):
            panel.plot(*zip(*points, strict=True), "." if len(points) == 1 else "-")
            panel.set_title(name, fontsize="medium")
            panel.set_xlabel("update")
        for panel in panels[len(self.curves) :]:
            panel.remove()
        return drawn


def curves_of(run: Path, config: Config) -> TrainingCurves:
    """What metrics.jsonl holds; UserError where it holds nothing yet."""
    metrics = run / "metrics.jsonl"
    records = records_of(metrics)
    curves = {name: points_of(records, *of) for name, of in CURVES.items()}
    found = {name: points for name, points in curves.items() if points}
    if not found:
        raise UserError(f"{metrics}: nothing logged there yet: train with `mtkit train`")
    return TrainingCurves(found)
