"""Pictures in one style, saved so that equal figures give equal files.

matplotlib is imported only where it is used, and without pyplot: there is no current figure.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from mtkit.errors import UserError
from mtkit.report import say

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from mtkit.study.curves import Panel

PICTURE_SUFFIXES = (".png", ".svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Colours that colour-blind people can distinguish (Okabe and Ito 2008)."""
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.prop_cycle": f"cycler(color={COLOURS})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.3,
}
NUMBERS = "{x:,.6g}"
"""Numbers along an axis, with separators of thousands."""


def check_picture(path: Path) -> None:
    """Check before the work that a picture can be saved.

    Raises:
        UserError: the suffix is another one, or the file cannot be written.
    """
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise UserError(
            f"{path} is not the name of a picture; choose one that ends in "
            + " or ".join(PICTURE_SUFFIXES)
        )
    if path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written; choose another name")


def draw_curves(panels: Sequence[Panel], names: Sequence[str], path: Path) -> None:
    """Draw the panels, each with a curve for every one of `names` that it has; save the picture."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with rc_context(STYLE):
        drawn = Figure(figsize=(4 + 3 * columns, 1 + 2.5 * rows), layout="constrained")
        axes = list(drawn.subplots(rows, columns, squeeze=False).flat)
    for drawing, panel in zip(axes, panels, strict=False):
        for name in names:  # a curve without points keeps its colour
            points = panel.curves.get(name, ())
            x, y = [x for x, _ in points], [y for _, y in points]
            drawing.plot(x, y, ".-" if len(points) < 50 else "-", label=name)
        drawing.set_xlim(left=0)
        drawing.set_title(panel.title, fontsize="medium")
        drawing.set_xlabel(panel.axis)
        drawing.xaxis.set_major_formatter(NUMBERS)
        drawing.yaxis.set_major_formatter(NUMBERS)
        drawing.locator_params(axis="x", integer=panel.axis == "step")
    for drawing in axes[len(panels) :]:
        drawing.remove()
    if len(names) > 1:
        entry = 0.8 + 0.1 * max(map(len, names))  # inches of a name in the legend, about
        fitting = max(1, min(4, len(names), int(drawn.get_figwidth() / entry)))
        legend = axes[0].get_legend_handles_labels()
        drawn.legend(*legend, loc="outside upper center", ncols=fitting)
    _save(drawn, path)


def _save(figure: Figure, path: Path) -> None:
    """Write a .png or .svg file and say so; an interruption leaves the file as it was."""
    from matplotlib import rc_context

    kind, picture = path.suffix.lower().removeprefix("."), BytesIO()
    no_date = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "mtkit"}), catch_warnings():
        filterwarnings("ignore", r"Glyph \d+")  # of the name of a run, which shows as boxes
        figure.savefig(picture, format=kind, dpi=144, metadata=no_date)
    path.write_bytes(picture.getvalue())
    say(f"wrote {path}")
