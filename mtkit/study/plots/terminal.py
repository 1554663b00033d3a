"""Curves as rows of characters: sparklines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from mtkit.report import MAX_CELLS, cell_width, table

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y), x ascending."""

PLOT_WIDTH = 60
"""Largest width of a curve, in cells."""
MIN_PLOT_WIDTH = 20
BLOCKS = "▁▂▃▄▅▆▇█"


def draw_sparklines(title: str, axis: str, curves: Mapping[str, Points]) -> Iterator[str]:
    """Yield a title with the scale, and name, sparkline and last value of each curve."""
    x, y = zip(*chain.from_iterable(curves.values()), strict=True)
    until, low, high = max(x), min(y), max(y)
    scale = f"{format_number(low)} to {format_number(high)}"
    yield f"{title}, {scale}, by {axis}, 0 to {format_number(until)}"
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
