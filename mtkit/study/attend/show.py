"""`mtkit attend`: sentences in, and where the model looked as it translated them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

from mtkit.decoding.lines import input_lines
from mtkit.decoding.output import open_output
from mtkit.errors import UserError
from mtkit.report import data, say, styled
from mtkit.study.attend.reader import Reader
from mtkit.study.attend.views import draw, draw_picture, page
from mtkit.study.attend.weights import Aspect, as_subwords, as_words
from mtkit.study.plots.picture import check_picture

View = Literal["terminal", "png", "svg", "html"]
Named = tuple[str, str]
"""What an error calls a sentence, and the sentence."""


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    view: View = "terminal",
    aspect: Aspect | None = None,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Shows the attention of the translation of `text`, or of each line of standard input.

    `target` is taken for the translation instead of the model's own. The terminal's view goes to
    stdout, as many as there are lines, and an empty line for a blank one; a picture or page is of
    one sentence and goes into `output` (default: `attention.VIEW`), and the translation to stdout.
    Raises UserError as `Reader.read`, and for options that do not go together, before any work.
    """
    aspect = aspect or Aspect()
    path = _place(view, output, aspect)
    reader = Reader.load(model, device, as_subwords if subwords else as_words)
    sentences: Iterable[Named] = sentences_of(text)
    if path is not None or target is not None:
        sentences = _only(named for named in sentences if not reader.is_blank(named[1]))
    for name, sentence in sentences:
        if text is None and reader.is_blank(sentence):
            data("\n")
            continue
        reading = reader.read(sentence, target and _utf8(target), name=name)
        maps = reader.maps(reading)
        if path is None:
            width = get_terminal_size().columns
            data(styled(draw(reading.translation, aspect.of(maps), width)))
            continue
        if view == "html":
            with open_output(path) as (file, _):
                file.write(page(sentence, reading.translation, maps).encode())
        else:
            draw_picture(aspect.of(maps), path)
        say(f"{path}: written")
        data(f"{reading.translation}\n")


def _place(view: View, output: Path | None, aspect: Aspect) -> Path | None:
    """The file to write, or None for the terminal."""
    if aspect.average and view not in ("png", "svg"):
        raise UserError("--average: only with --view png or svg")
    if view == "terminal":
        if output is not None:
            raise UserError(f"--output {output}: only with --view png, svg or html")
        return None
    path = output or Path(f"attention.{view}")
    if view == "html":
        if aspect != Aspect():
            raise UserError("--kind, --layer, --head: not with --view html: the page has every one")
        return path
    check_picture(path)
    if path.suffix.lower() != f".{view}":
        raise UserError(f"{path}: not a name for --view {view}: name a .{view}")
    return path


def sentences_of(text: str | None) -> Iterator[Named]:
    """What is to be translated: `text`, or the lines of standard input; UserError for no line."""
    if text is not None:
        yield "TEXT", _utf8(text)
        return
    number = 0
    for number, line in enumerate(input_lines(None), start=1):
        yield f"input line {number}", line
    if not number:
        raise UserError("stdin: no text: give it a sentence")


def _only(sentences: Iterable[Named]) -> list[Named]:
    """The same, if it is one."""
    found = list(islice(sentences, 2))
    if not found:
        raise UserError("blank: give it a sentence")
    if len(found) > 1:
        raise UserError("stdin: more than one line: a file or a --target is for one sentence")
    return found


def _utf8(argument: str) -> str:
    """What the command line gave, its bytes that are no UTF-8 replaced."""
    return os.fsencode(argument).decode(errors="replace")
