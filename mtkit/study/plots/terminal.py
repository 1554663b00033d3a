"""Curves as rows of characters: sparklines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np

from mtkit.report import table

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y), x ascending."""

PLOT_WIDTH = 60
BLOCKS = "▁▂▃▄▅▆▇█"


def draw_sparklines(title: str, axis: str, curves: Mapping[str, Points]) -> Iterator[str]:
    """Yield a title with the scale, and name, sparkline and last value of each curve."""
    x, y = zip(*chain.from_iterable(curves.values()), strict=True)
    until, low, high = max(x), min(y), max(y)
    scale = f"{format_number(low)} to {format_number(high)}"
    yield f"{title}, {scale}, by {axis}, 0 to {format_number(until)}"
    rows = []
    for name, points in curves.items():
        line = draw_sparkline(points, until, low, high)
        rows.append([name, line, format_number(points[-1][1])])
    yield from table(rows, left=2)


def draw_sparkline(points: Points, until: Number, low: Number, high: Number) -> str:
    """Return a curve in one row of blocks for x from 0 to `until`."""
    x, y = np.array(points, np.float64).T
    last = PLOT_WIDTH - 1
    first, last = (min(last, int(PLOT_WIDTH * _fraction(at, 0.0, until))) for at in (x[0], x[-1]))
    across = np.interp((np.arange(first, last + 1) + 0.5) * until / PLOT_WIDTH, x, y)
    blocks = (BLOCKS[round((len(BLOCKS) - 1) * _fraction(at, low, high))] for at in across)
    return " " * first + "".join(blocks)


def format_number(value: Number) -> str:
    """Return a number with few digits."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _fraction(value: Number, low: Number, high: Number) -> float:
    """Return how far `value` is from low to high, between 0 and 1."""
    if not low < high or math.isnan(value):
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))
