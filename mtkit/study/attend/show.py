"""`mtkit attend`: sentences in, and where the model looked as it translated them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shutil import get_terminal_size
from typing import Literal

from mtkit.decoding.lines import decode_lines, open_input, open_output, read_windows
from mtkit.errors import UserError
from mtkit.report import data, say, styled
from mtkit.study.attend.page import page
from mtkit.study.attend.picture import draw_picture
from mtkit.study.attend.reader import Reader, Reading
from mtkit.study.attend.terminal import draw
from mtkit.study.attend.weights import HeatMap, Kind
from mtkit.study.attend.words import as_subwords, as_words
from mtkit.study.plots.picture import check_picture

View = Literal["terminal", "png", "svg", "html"]


def attend(
    model: str | None = None,
    text: str | None = None,
    output: Path | None = None,
    *,
    target: str | None = None,
    view: View = "terminal",
    kind: Kind | None = None,
    average: bool = False,
    subwords: bool = False,
    device: str = "auto",
) -> None:
    """Shows the attention of the translation of `text`, or of each line of standard input.

    `target` is taken for the translation instead of the model's own. The terminal's view goes to
    stdout, as many as there are lines; a picture or page is of one sentence and goes into `output`
    (default: `attention.VIEW`), and the translation to stdout. Raises UserError as `Reader.read`,
    and for options that do not go together, before any work.
    """
    path = _place(view, output, kind, average=average)
    reader = Reader.load(model, device, as_subwords if subwords else as_words)
    sentences = sentences_of(text)
    if path is not None or target is not None:
        sentences = _only(sentences)
    for name, sentence in sentences:
        reading = reader.read(sentence, target and _utf8(target), name=name)
        if path is None:
            width = get_terminal_size().columns
            data(styled(draw(reading.translation, _map(reading, kind), width)))
            continue
        if view == "html":
            with open_output(path) as file:
                file.write(page(reading).encode())
        else:
            heat_map = _map(reading, kind)
            draw_picture(heat_map.averaged() if average else heat_map, path)
        say(f"{path}: written")
        data(f"{reading.translation}\n")


def _place(view: View, output: Path | None, kind: Kind | None, *, average: bool) -> Path | None:
    """The file to write, or None for the terminal."""
    if average and view not in ("png", "svg"):
        raise UserError("--average: only with --view png or svg")
    if view == "terminal":
        if output is not None:
            raise UserError(f"--output {output}: only with --view png, svg or html")
        return None
    path = output or Path(f"attention.{view}")
    if view == "html":
        if kind is not None:
            raise UserError("--kind: not with --view html: the page has every kind")
        return path
    check_picture(path)
    if path.suffix.lower() != f".{view}":
        raise UserError(f"{path}: not a name for --view {view}: name a .{view}")
    return path


def sentences_of(text: str | None) -> Iterator[tuple[str, str]]:
    """What is to be translated, each with what an error calls it."""
    if text is not None:
        yield "TEXT", _utf8(text)
        return
    number = 0
    with open_input(None) as stream:
        for window in decode_lines(read_windows(stream)):
            for line in window:
                number += 1
                yield f"input line {number}", line
    if not number:
        raise UserError("stdin: no text: give it a sentence")


def _only(sentences: Iterator[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The same, if it is one."""
    first, *others = islice(sentences, 2)
    if others:
        raise UserError("stdin: more than one line: a file or a --target is for one sentence")
    yield first


def _utf8(argument: str) -> str:
    """What the command line gave, its bytes that are no UTF-8 replaced."""
    return os.fsencode(argument).decode(errors="replace")


def _map(reading: Reading, kind: Kind | None) -> HeatMap:
    """Of a kind of attention, encoder-decoder attention if none is named."""
    found = reading.maps.get(kind or "cross")
    if found is None:
        raise UserError(
            f"--kind {kind}: the model has no such attention, only {', '.join(reading.maps)}"
        )
    return found
