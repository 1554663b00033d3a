"""Attention as a picture: a heat map for each layer and head."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.study.attend.weights import HeatMap
from mtkit.study.plots.picture import figure, font_for, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CELL = 0.24
"""Inches of a word, where there is room."""
NARROWEST, WIDEST = 1.8, 28.0
"""Inches of a heat map at least, and of all of them side by side at most."""
MARGIN = 1.0
"""Inches for the words along the edges."""


def draw_picture(heat_map: HeatMap, path: Path) -> None:
    """Writes a .png or an .svg, by the name: a row of maps for each layer, one for each head.

    Raises as `mtkit.study.plots.save`; warns where no font has the letters.
    """
    layers, heads = heat_map.weights.shape[:2]
    width, height = (
        min(max(CELL * len(words), NARROWEST), WIDEST / count)
        for words, count in ((heat_map.keys, heads), (heat_map.queries, layers))
    )
    drawn, axes = figure(
        width=heads * width + 2 * MARGIN,
        height=layers * height + MARGIN,
        rows=layers,
        columns=heads,
    )
    cell = min(width / len(heat_map.keys), height / len(heat_map.queries))
    fonts = font_for("".join([*heat_map.queries, *heat_map.keys]))
    size = min(9.0, 0.75 * 72 * cell)
    for index, panel in enumerate(axes):
        layer, head = divmod(index, heads)
        image = panel.imshow(
            heat_map.weights[layer, head].numpy(), cmap="Blues", vmin=0, vmax=1, aspect="auto"
        )
        panel.grid(visible=False)
        if layers * heads > 1:
            panel.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=9)
        _label(panel, heat_map, fonts, size, rows=head == 0, columns=layer == layers - 1)
    drawn.colorbar(
        image, ax=axes, label="weight", fraction=0.05, shrink=min(1, 3 / layers / height)
    )
    save(drawn, path)


def _label(
    panel: Axes, heat_map: HeatMap, fonts: list[str], size: float, *, rows: bool, columns: bool
) -> None:
    """Words along the edges of the whole picture."""
    keys, queries = (heat_map.keys if columns else []), (heat_map.queries if rows else [])
    panel.set_xticks(range(len(keys)), keys, rotation=90)
    panel.set_yticks(range(len(queries)), queries)
    for label in [*panel.get_xticklabels(), *panel.get_yticklabels()]:
        label.set(fontfamily=fonts, fontsize=size, parse_math=False)
    panel.tick_params(length=0)
