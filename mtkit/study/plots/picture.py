"""Pictures: figures in one style, saved so that equal figures are equal files.

matplotlib is imported where it is used alone, and without pyplot: there is no current figure.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from mtkit.errors import UserError
from mtkit.report import warn

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Colours that colour-blind people tell apart, too (Okabe and Ito 2008)."""
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.prop_cycle": f"cycler(color={COLOURS})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.3,
}
"""What differs from matplotlib's own style (its rcParams)."""
PLAIN_FONT = "DejaVu Sans"
"""The font that comes with matplotlib; it knows Latin, Greek and Cyrillic."""
FALLBACK = "Last Resort"
"""The font that comes with matplotlib and has a box for every character."""


def check_picture(path: Path) -> None:
    """Raises UserError where no picture can be saved: to be asked before the work, not after."""
    if path.suffix.lower() not in FORMATS:
        raise UserError(f"{path}: a picture is a .png or an .svg: name one")
    if not path.parent.is_dir():
        raise UserError(f"{path}: no folder {path.parent}: make it first")
    if path.is_dir():
        raise UserError(f"{path}: a folder: name a .png or an .svg in it")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise UserError(f"{path}: cannot be written: name another")


def figure(
    *, width: int | float = 6.4, height: int | float = 4.0, rows: int = 1, columns: int = 1
) -> tuple[Figure, list[Axes]]:
    """An empty figure of `width` by `height` inches, and its axes row by row."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        drawn = Figure(figsize=(width, height), layout="constrained")
        return drawn, list(drawn.subplots(rows, columns, squeeze=False).flat)


def legend(figure: Figure, panel: Axes) -> None:
    """Above all panels, what the lines of `panel` are called."""
    handles, names = panel.get_legend_handles_labels()
    fonts = {"family": font_for("".join(names))}
    figure.legend(handles, names, loc="outside upper center", prop=fonts)


def save(figure: Figure, path: Path) -> None:
    """Writes a .png or an .svg, by the name.

    Raises UserError as `check_picture` does, OSError where it cannot be written.
    """
    from matplotlib import rc_context

    check_picture(path)
    kind, picture = path.suffix.lower().removeprefix("."), BytesIO()
    dateless = {"Date": None} if kind == "svg" else None
    # `font_for` has told of missing glyphs already.
    with rc_context({"svg.hashsalt": "mtkit"}), catch_warnings():
        filterwarnings("ignore", r"Glyph \d+")
        figure.savefig(picture, format=kind, dpi=144, metadata=dateless)
    path.write_bytes(picture.getvalue())  # drawn whole: what was there is not lost to half of it


def font_for(text: str) -> list[str]:
    """Font families that show `text` together, for `fontfamily=`; warns where none is installed."""
    from matplotlib.font_manager import findSystemFonts, fontManager

    families = [PLAIN_FONT]
    plain = fontManager.findfont(PLAIN_FONT)
    missing = set(filter(str.isprintable, text)) - _shown(text, plain)
    if missing:
        # matplotlib remembers the fonts that were there when it was first used.
        for path in set(findSystemFonts()) - {font.fname for font in fontManager.ttflist}:
            with suppress(OSError, RuntimeError):  # a font that cannot be read shows nothing
                fontManager.addfont(path)
    while missing:
        fonts = [font for font in fontManager.ttflist if not font.name.startswith(FALLBACK)]
        shown = {font.name: _shown(missing, font.fname, font.index) for font in fonts}
        best = max(shown, key=lambda name: (len(shown[name]), "Sans" in name, -len(name)))
        if not shown[best]:
            some = "".join(sorted(missing)[:10])
            warn(f"no installed font shows {some}: install one, such as Noto Sans CJK")
            break
        families.append(best)
        missing -= shown[best]
    return families


def _shown(characters: Iterable[str], path: str, index: int = 0) -> set[str]:
    """Those that a font has a glyph for: none, where it is gone since matplotlib noted it."""
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path, face_index=index)
    except (OSError, RuntimeError):
        return set()
    return {character for character in characters if font.get_char_index(ord(character))}
