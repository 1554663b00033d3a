"""A heat map as text: per cent in shaded cells, words that line up whatever their script.

Words stand side by side above their columns, or from top to bottom where that is too wide; what is
wider still is drawn in several parts, one below the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mtkit.report import cell_width, printable
from mtkit.study.attend.weights import SIDES, HeatMap

Span = tuple[str, str]
"""Text, and the style that it is shown in where there are colours."""

LEAST_CELLS = 3
"""Width of a column, in cells of the terminal: "100"."""
MOST_LABEL_CELLS, MOST_LABEL_LINES = 18, 12
"""Width of a row's word, and height of a column's that stands upright."""
RAMP = ((24, 24, 44), (70, 36, 112), (176, 52, 110), (242, 122, 66), (252, 226, 150))
"""Dark to bright, for weights from 0 to 1: the more light, the more attention."""
FAINT = 0.005
"""Weight below which a cell holds a dot, because it would be 0 per cent."""


def draw(translation: str, heat_map: HeatMap, width: int) -> Iterator[Span]:
    """The translation, and below it the mean of the map's layers and heads, `width` cells wide."""
    mean = heat_map.averaged()
    looking, looked_at = SIDES[mean.kind]
    yield f"{printable(translation)}\n\n", "bold"
    yield from _parts(mean, width)
    yield f"rows, the {looking}, look at columns, the {looked_at}\n", "dim"
    yield f"per cent, {mean.titles[0]}\n\n", "dim"


def _parts(heat_map: HeatMap, width: int) -> Iterator[Span]:
    labels = [_cut(word, MOST_LABEL_CELLS) for word in heat_map.queries]
    indent = max(map(cell_width, labels)) + 1
    room = width - indent
    words = [[_cut(word, room - 1)] for word in heat_map.keys]
    widths = [max(LEAST_CELLS, cell_width(word) + 1) for (word,) in words]
    each = len(words)
    if sum(widths) > room:
        words, widths = [*map(_upright, heat_map.keys)], [LEAST_CELLS] * len(words)
        each = max(1, room // LEAST_CELLS)
    weights = heat_map.weights[0, 0].tolist()
    for first in range(0, len(words), each):
        part = slice(first, first + each)
        yield from _header(words[part], widths[part], indent)
        for label, row in zip(labels, weights, strict=True):
            yield " " * (indent - 1 - cell_width(label)) + f"{label} ", ""
            for weight, cells in zip(row[part], widths[part], strict=True):
                text = "·" if weight < FAINT else f"{100 * weight:.0f}"
                yield _centred(text, cells), _style(weight)
            yield "\n", ""
        yield "\n", ""


def _header(words: Sequence[list[str]], widths: Sequence[int], indent: int) -> Iterator[Span]:
    """Words as stacks of text, standing on the map."""
    height = max(map(len, words))
    stacks = [[""] * (height - len(word)) + word for word in words]
    for level in zip(*stacks, strict=True):
        cells = map(_centred, level, widths)
        yield f"{' ' * indent}{''.join(cells)}".rstrip() + "\n", ""


def _style(weight: float) -> str:
    """Black or white on a colour of the ramp; small weights are told apart, too."""
    place = weight**0.6 * (len(RAMP) - 1)
    low = min(int(place), len(RAMP) - 2)
    mix = [round(a + (b - a) * (place - low)) for a, b in zip(*RAMP[low : low + 2], strict=True)]
    ink = "black" if sum(mix) > 380 else "grey62" if weight < FAINT else "white"
    return f"{ink} on rgb({','.join(map(str, mix))})"


def _cut(word: str, width: int) -> str:
    """The word, its end left out where it is wider than `width` cells."""
    if cell_width(word) <= width:
        return word
    while cell_width(word) > width - 1:
        word = word[:-1]
    return f"{word}…"


def _upright(word: str) -> list[str]:
    """One character above the other; what has no width of its own stays with the one before."""
    stack: list[str] = []
    for character in word:
        if stack and not cell_width(character):
            stack[-1] += character
        else:
            stack.append(character)
    return stack if len(stack) <= MOST_LABEL_LINES else [*stack[: MOST_LABEL_LINES - 1], "…"]


def _centred(text: str, width: int) -> str:
    space = width - cell_width(text)
    return " " * (space // 2) + text + " " * (space - space // 2)
