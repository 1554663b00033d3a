"""Learning curves of runs, and curves as rows of characters: sparklines."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
from typing import Any

import numpy as np

from mtkit.report import MAX_CELLS, cell_width, table
from mtkit.training.metrics import points_of

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y), x ascending."""


@dataclass(frozen=True)
class Panel:
    """Curves by name, with one title and one x axis."""

    title: str
    axis: str
    curves: Mapping[str, Points]


LOGGED = {
    "training loss": ("train", "loss"),
    "validation loss": ("valid", "loss"),
    "validation BLEU": ("valid", "bleu"),
    "validation chrF2": ("valid", "chrf"),
    "learning rate": ("train", "learning_rate"),
    "tokens per second": ("train", "tokens_per_second"),
}
"""Kind and field of the records of metrics.jsonl that a curve shows."""
X_AXES = {"step": ("step", 1.0), "minute": ("seconds", 1 / 60)}
"""A field of the records, and its factor."""
PLOT_WIDTH = 60
"""Largest width of a curve, in cells."""
MIN_PLOT_WIDTH = 20
BLOCKS = "▁▂▃▄▅▆▇█"


def learning_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    kinds: Iterable[str] = ("train", "valid"),
    axes: Iterable[str] = ("step",),
) -> Iterator[Panel]:
    """Yield a panel for each figure and axis, with the curves of the runs that logged it.

    `runs` holds the records of metrics.jsonl by the name of the run; `kinds` are those to show.
    """
    for (title, (kind, field)), axis in product(LOGGED.items(), axes):
        x, factor = X_AXES[axis]
        points = {name: points_of(records, kind, field, x) for name, records in runs.items()}
        curves = {name: [(at * factor, y) for at, y in of] for name, of in points.items() if of}
        if curves and kind in kinds:
            yield Panel(title, axis, curves)


def draw_sparklines(panel: Panel) -> Iterator[str]:
    """Yield a title with the scale, and name, sparkline and last value of each curve."""
    curves = panel.curves
    x, y = zip(*chain.from_iterable(curves.values()), strict=True)
    until, low, high = max(x), min(y), max(y)
    scale = f"{format_number(low)} to {format_number(high)}"
    yield f"{panel.title}, {scale}, by {panel.axis}, 0 to {format_number(until)}"
    ends = {name: format_number(points[-1][1]) for name, points in curves.items()}
    others = max(map(cell_width, ends)) + max(map(len, ends.values())) + 4  # spaces between
    width = max(MIN_PLOT_WIDTH, min(PLOT_WIDTH, MAX_CELLS - others))
    rows = [
        [name, draw_sparkline(points, until, low, high, width), ends[name]]
        for name, points in curves.items()
    ]
    yield from table(rows, left=2)


def draw_sparkline(
    points: Points, until: Number, low: Number, high: Number, width: int = PLOT_WIDTH
) -> str:
    """Return a curve in one row of blocks for x from 0 to `until`."""
    x, y = np.array(points, np.float64).T
    first, last = (min(width - 1, int(width * _fraction(at, 0.0, until))) for at in (x[0], x[-1]))
    across = np.interp((np.arange(first, last + 1) + 0.5) * until / width, x, y)
    blocks = (BLOCKS[round((len(BLOCKS) - 1) * _fraction(at, low, high))] for at in across)
    return " " * first + "".join(blocks)


def format_number(value: Number) -> str:
    """Return a number with few digits."""
    is_whole = value == round(value) or abs(value) >= 1000
    return f"{value:,.0f}" if is_whole and abs(value) < 1e9 else f"{value:.4g}"


def _fraction(value: Number, low: Number, high: Number) -> float:
    """Return how far `value` is from low to high, between 0 and 1."""
    if not low < high or math.isnan(value):
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))
