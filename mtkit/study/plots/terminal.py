"""Plots of characters: curves in Braille dots, sparklines and bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from shutil import get_terminal_size

import numpy as np

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y), x ascending."""

PLOT_WIDTH, PLOT_HEIGHT = 60, 12
"""Size in characters; a narrow terminal has less."""
BLOCKS = "▁▂▃▄▅▆▇█"
BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the 4 × 2 dots of a Braille character."""


def _plot_width(beside: int) -> int:
    """Return the width of a plot with so many characters beside it."""
    return max(PLOT_HEIGHT, min(PLOT_WIDTH, get_terminal_size().columns - beside))


def draw_curve(points: Points) -> Iterator[str]:
    """Yield a line through the points, with its bounds beside it."""
    x, y = np.array(points, np.float64).T
    low, high = y.min(), y.max()
    labels = [format_number(high), *[""] * (PLOT_HEIGHT - 2), format_number(low)]
    beside = max(map(len, labels))
    width = _plot_width(beside + 2)
    across = np.interp(np.linspace(x[0], x[-1], 2 * width), x, y)
    rows = np.rint([(4 * PLOT_HEIGHT - 1) * (1 - _fraction(y, low, high)) for y in across])
    before, dot = np.append(rows[0], rows[:-1]), np.arange(4 * PLOT_HEIGHT)[:, None]
    # Steep parts are joined up.
    drawn = (np.minimum(before, rows) <= dot) & (dot <= np.maximum(before, rows))
    # A cell (h, w) is 4 dots high (d) and 2 wide (c), and sums their bits.
    dots = drawn.reshape(PLOT_HEIGHT, 4, width, 2)
    cells = BRAILLE + np.einsum("hdwc,dc->hw", dots, DOTS)
    for label, line in zip(labels, cells.tolist(), strict=True):
        yield f"{label:>{beside}} ┤{''.join(map(chr, line)).rstrip(chr(BRAILLE))}"
    first = format_number(x[0])
    yield f"{'':>{beside}}  {first}{format_number(x[-1]):>{width - len(first)}}"


def draw_sparkline(points: Points, until: Number, low: Number, high: Number) -> str:
    """Return a curve in one row of blocks for x from 0 to `until`; rows of one scale compare."""
    x, y = np.array(points, np.float64).T
    last = PLOT_WIDTH - 1
    first, last = (min(last, int(PLOT_WIDTH * _fraction(at, 0.0, until))) for at in (x[0], x[-1]))
    across = np.interp((np.arange(first, last + 1) + 0.5) * until / PLOT_WIDTH, x, y)
    blocks = (BLOCKS[round((len(BLOCKS) - 1) * _fraction(at, low, high))] for at in across)
    return " " * first + "".join(blocks)


def draw_bars(names: Sequence[str], values: Sequence[Number]) -> Iterator[str]:
    """Yield a bar for each value, next to its name; the longest takes the whole width."""
    beside, largest = max(map(len, names)), max(values)
    width = _plot_width(beside + 3 + max(len(format_number(value)) for value in values))
    for name, value in zip(names, values, strict=True):
        bar = BLOCKS[-1] * round(width * _fraction(value, 0.0, largest))
        yield f"{name:>{beside}} ┤{bar} {format_number(value)}"


def format_number(value: Number) -> str:
    """Return a number with few digits."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _fraction(value: Number, low: Number, high: Number) -> float:
    """Return how far `value` is from low to high, between 0 and 1."""
    if not low < high or math.isnan(value):
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))
