"""`mtkit attend`: sentences in, and the attention weights of their translations out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

from mtkit.decoding.output import open_output
from mtkit.errors import UserError
from mtkit.report import data, say, styled
from mtkit.study.attend.reader import Reader, named_sentences, replace_invalid
from mtkit.study.attend.views import draw_picture, draw_terminal, make_page
from mtkit.study.attend.weights import CROSS_ATTENTION, MapSelection
from mtkit.study.plots.picture import check_picture


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    view: Literal["terminal", "png", "svg", "html"] = "terminal",
    selection: MapSelection = CROSS_ATTENTION,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Show the attention weights of the translation of `text`, or of each line of stdin.

    `target` replaces the model's own translation. A terminal view goes to stdout; a blank line
    gives an empty line. A picture or page shows one sentence: it is written to `output` (default:
    attention.VIEW), and the translation to stdout.

    Raises:
        UserError: see `Reader.read`, `MapSelection.select` and `check_picture`.
    """
    path = None if view == "terminal" else output or Path(f"attention.{view}")
    if path is not None and view != "html":
        check_picture(path, f".{view}")
    reader = Reader.load(model, device, subwords=subwords)
    sentences = named_sentences(text)
    if path is not None or target is not None:
        sentences = _only(named for named in sentences if not reader.is_blank(named[1]))
    for name, sentence in sentences:
        if text is None and reader.is_blank(sentence):
            data("\n")
            continue
        reading = reader.read(sentence, target and replace_invalid(target), name=name)
        maps = reader.heat_maps(reading)
        if path is None:
            mean = replace(selection, average=True).select(maps)
            data(styled(draw_terminal(reading.translation, mean, get_terminal_size().columns)))
            continue
        if view == "html":
            with open_output(path) as (file, _):
                file.write(make_page(sentence, reading.translation, maps).encode())
        else:
            draw_picture(selection.select(maps), path)
        say(f"{path}: written")
        data(f"{reading.translation}\n")


def _only(sentences: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Return the only sentence.

    Raises:
        UserError: there is none, or another one.
    """
    first = list(islice(sentences, 2))
    if not first:
        raise UserError("blank: give a sentence")
    if len(first) > 1:
        raise UserError("stdin: more than one line: a file or target is for one sentence")
    return iter(first)
