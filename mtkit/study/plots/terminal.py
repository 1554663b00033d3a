"""Drawings out of characters: curves in Braille dots, small multiples, bars and maps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from shutil import get_terminal_size

import numpy as np

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y), x ascending."""

WIDTH, HEIGHT = 60, 12
"""Size of a drawing without its labels, in characters; a narrow terminal has less `room`."""
BLOCKS = "▁▂▃▄▅▆▇█"
SHADES = " ░▒▓█"
BRAILLE = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of the 4 × 2 dots of a Braille character."""


def room(beside: int = 0) -> int:
    """How many characters wide a drawing is that has so many beside it."""
    return max(HEIGHT, min(WIDTH, get_terminal_size().columns - beside))


def curve(points: Points) -> Iterator[str]:
    """A line through points, its bounds beside it."""
    x, y = np.array(points, np.float64).T
    low, high = y.min(), y.max()
    labels = [number(high), *[""] * (HEIGHT - 2), number(low)]
    beside = max(map(len, labels))
    width = room(beside + 2)
    across = np.interp(np.linspace(x[0], x[-1], 2 * width), x, y)
    rows = np.rint([(4 * HEIGHT - 1) * (1 - _share(height, low, high)) for height in across])
    before, dot = np.append(rows[0], rows[:-1]), np.arange(4 * HEIGHT)[:, None]
    # Steep parts are joined up.
    drawn = (np.minimum(before, rows) <= dot) & (dot <= np.maximum(before, rows))
    # A cell (h, w) is 4 dots high (d) and 2 wide (c), and sums their bits.
    cells = BRAILLE + np.einsum("hdwc,dc->hw", drawn.reshape(HEIGHT, 4, width, 2), DOTS)
    for label, line in zip(labels, cells.tolist(), strict=True):
        yield f"{label:>{beside}} ┤{''.join(map(chr, line)).rstrip(chr(BRAILLE))}"
    first = number(x[0])
    yield f"{'':>{beside}}  {first}{number(x[-1]):>{width - len(first)}}"


def sparkline(points: Points, until: Number, low: Number, high: Number) -> str:
    """A curve in one row of blocks, WIDTH of them for x from 0 to `until`; blank before it begins.

    Rows of one scale compare.
    """
    x, y = np.array(points, np.float64).T
    first, last = (min(WIDTH - 1, int(WIDTH * _share(at, 0.0, until))) for at in (x[0], x[-1]))
    across = np.interp((np.arange(first, last + 1) + 0.5) * until / WIDTH, x, y)
    return " " * first + shades(across, low, high, BLOCKS)


def bars(names: Sequence[str], values: Sequence[Number]) -> Iterator[str]:
    """A bar for each value, beside its name; the longest fills the room there is."""
    beside, most = max(map(len, names)), max(values)
    width = room(beside + 3 + max(len(number(value)) for value in values))
    for name, value in zip(names, values, strict=True):
        bar = BLOCKS[-1] * round(width * _share(value, 0.0, most))
        yield f"{name:>{beside}} ┤{bar} {number(value)}"


def shades(values: Iterable[Number], low: Number, high: Number, characters: str = SHADES) -> str:
    """A character for each value, the later in `characters` the nearer it is to `high`."""
    last = len(characters) - 1
    return "".join(characters[round(last * _share(value, low, high))] for value in values)


def number(value: Number) -> str:
    """As few digits as tell it from its neighbours."""
    return f"{value:,.0f}" if value == round(value) and abs(value) < 1e9 else f"{value:.4g}"


def _share(value: Number, low: Number, high: Number) -> float:
    """How far `value` is on the way from low to high, from 0 to 1; of no way, 0."""
    if not low < high or math.isnan(value):
        return 0.0
    return min(1.0, max(0.0, (value - low) / (high - low)))
