"""Attention as a picture: a heat map for each layer and head."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mtkit.study.attend.weights import SIDES, HeatMap
from mtkit.study.plots.picture import figure, font_for, save

CELL_INCHES = 0.24
"""Width and height of a word's cell, where there is room."""
LEAST_INCHES, MOST_INCHES = 1.8, 28.0
"""Width and height of a heat map at least, and of all of them side by side at most."""
MARGIN_INCHES = 1.0
"""Width of the room for the words along an edge."""


def draw_picture(heat_map: HeatMap, path: Path) -> None:
    """Writes a .png or an .svg, by the name: a row of maps for each layer, one for each head.

    Raises as `mtkit.study.plots.picture.save`; warns where no font has the letters.
    """
    layers, heads = heat_map.weights.shape[:2]
    width, height = (
        min(max(CELL_INCHES * len(words), LEAST_INCHES), MOST_INCHES / count)
        for words, count in ((heat_map.keys, heads), (heat_map.queries, layers))
    )
    drawn, panels = figure(
        width=heads * width + 2 * MARGIN_INCHES,
        height=layers * height + MARGIN_INCHES,
        rows=layers,
        columns=heads,
    )
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
