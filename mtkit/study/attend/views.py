"""Heat maps of attention to look at: as text, as a picture, or as a page for the browser.

In a terminal words stand side by side above their columns, or from top to bottom where that is too
wide; what is wider still is drawn in several parts, one below the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from mtkit.report import cell_width, fitted, printable
from mtkit.study.attend.weights import SIDES, HeatMap, Kind
from mtkit.study.plots.picture import figure, font_for, save

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
CELL_INCHES = 0.24
"""Width and height of a word's cell, where there is room."""
LEAST_INCHES, MOST_INCHES = 1.8, 28.0
"""Width and height of a heat map at least, and of all of them side by side at most."""
MARGIN_INCHES = 1.0
"""Width of the room for the words along an edge."""
TEMPLATE = Path(__file__).with_name("page.html")


def draw(translation: str, heat_map: HeatMap, width: int) -> Iterator[Span]:
    """The translation, and below it the first of the maps of an `Aspect`, `width` cells wide."""
    labels = [fitted(word, MOST_LABEL_CELLS) for word in heat_map.queries]
    indent = max(map(cell_width, labels)) + 1
    room = width - indent
    words = [[fitted(word, room - 1)] for word in heat_map.keys]
    widths = [max(LEAST_CELLS, cell_width(word) + 1) for (word,) in words]
    each = len(words)
    if sum(widths) > room:
        words, widths = [*map(_upright, heat_map.keys)], [LEAST_CELLS] * len(words)
        each = max(1, room // LEAST_CELLS)
    yield f"{printable(translation)}\n\n", "bold"
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
    looking, looked_at = SIDES[heat_map.kind]
    yield f"rows, the {looking}, look at columns, the {looked_at}\n", "dim"
    yield f"per cent, {heat_map.titles[0]}\n\n", "dim"


def _header(words: Sequence[list[str]], widths: Sequence[int], indent: int) -> Iterator[Span]:
    """Words as stacks of text, standing on the map."""
    height = max(map(len, words))
    stacks = [[""] * (height - len(word)) + word for word in words]
    for level in zip(*stacks, strict=True):
        cells = map(_centred, level, widths)
        yield f"{' ' * indent}{''.join(cells)}".rstrip() + "\n", ""


def _style(weight: float) -> str:
    """Black or white on a colour of the ramp; small weights are told apart, too."""
    steps = np.linspace(0, 1, len(RAMP))
    mix = [round(np.interp(weight**0.6, steps, channel)) for channel in zip(*RAMP, strict=True)]
    ink = "black" if sum(mix) > 380 else "grey62" if weight < FAINT else "white"
    return f"{ink} on rgb({','.join(map(str, mix))})"


def _upright(word: str) -> list[str]:
    """One character above the other; what has no width of its own stays with the one before."""
    starts = [at for at, character in enumerate(word) if not at or cell_width(character)]
    stack = [word[at:end] for at, end in pairwise([*starts, len(word)])]
    return stack if len(stack) <= MOST_LABEL_LINES else [*stack[: MOST_LABEL_LINES - 1], "…"]


def _centred(text: str, width: int) -> str:
    space = width - cell_width(text)
    return " " * (space // 2) + text + " " * (space - space // 2)


def draw_picture(heat_map: HeatMap, path: Path) -> None:
    """Writes a .png or an .svg, by the name: a row of maps for each layer, one for each head.

    Raises as `mtkit.study.plots.picture.save`; warns where no font has the letters.
    """
    layers, heads = heat_map.weights.shape[:2]
    width, height = (
        min(max(CELL_INCHES * len(words), LEAST_INCHES), MOST_INCHES / count)
        for words, count in ((heat_map.keys, heads), (heat_map.queries, layers))
    )
    whole = (heads * width + 2 * MARGIN_INCHES, layers * height + MARGIN_INCHES)
    drawn, panels = figure(width=whole[0], height=whole[1], rows=layers, columns=heads)
    cell = min(width / len(heat_map.keys), height / len(heat_map.queries))
    font: dict[str, Any] = {
        "fontfamily": font_for("".join([*heat_map.queries, *heat_map.keys])),
        "fontsize": min(9.0, 0.75 * 72 * cell),
        "parse_math": False,
    }
    weights = heat_map.weights.flatten(0, 1).numpy()  # (L·H, J, I)
    for index, (panel, title) in enumerate(zip(panels, heat_map.titles, strict=True)):
        image = panel.imshow(weights[index], cmap="Blues", vmin=0, vmax=1, aspect="auto")
        panel.grid(visible=False)
        panel.set_title(title, fontsize=9)
        # Words stand along the edges of the whole picture.
        keys = heat_map.keys if index >= len(panels) - heads else []
        queries = heat_map.queries if index % heads == 0 else []
        panel.set_xticks(range(len(keys)), keys, rotation=90, **font)
        panel.set_yticks(range(len(queries)), queries, **font)
        panel.tick_params(length=0)
    looking, looked_at = SIDES[heat_map.kind]
    drawn.supylabel(f"queries: {looking}", fontsize=9)
    drawn.supxlabel(f"keys: {looked_at}", fontsize=9)
    shrink = min(1, 3 / layers / height)
    drawn.colorbar(image, ax=panels, label="weight of a key", fraction=0.05, shrink=shrink)
    save(drawn, path)


def page(text: str, translation: str, maps: Mapping[Kind, HeatMap]) -> str:
    """HTML that needs nothing else, no network above all."""
    kinds = [
        {
            "title": "encoder-decoder" if kind == "cross" else kind,
            "queries": heat_map.queries,
            "keys": heat_map.keys,
            "weights": heat_map.weights.double().round(decimals=3).tolist(),
        }
        for kind, heat_map in maps.items()
    ]
    content = {"source": text, "translation": translation, "kinds": kinds}
    # "</script>" in a sentence would end the script that holds the data.
    encoded = json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")
    return TEMPLATE.read_text(encoding="utf-8").replace("DATA", encoded, 1)
