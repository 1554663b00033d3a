"""The console: the only module that prints.

stdout carries data only; messages go to stderr, above a live display if there is one.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Any
from unicodedata import category

if TYPE_CHECKING:
    import rich.progress


MAX_CELLS = 80
"""Width of reports, in terminal cells."""
_COMMAND = re.compile(r"`[^`]*`|(?<=: )mtkit .*")
WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}
_LABEL = re.compile(r"(warning:)? *(\S+ {2,})?")
"""The start of a line, such as "  source  "; continuation lines are indented by its width."""
_quiet = _debug = False
_live: rich.progress.Progress | None = None


def set_quiet(quiet: bool) -> None:
    """Silence `say` and progress, but not warnings and data."""
    global _quiet
    _quiet = quiet


def set_debug(debug: bool) -> None:
    """Let `error` print a traceback."""
    global _debug
    _debug = debug


def set_live(display: rich.progress.Progress | None) -> None:
    """Write messages above a live display from now on; None: there is no display."""
    global _live
    _live = display


def accepts_progress() -> bool:
    """Return whether to show progress: not if quiet, and not while another progress is shown."""
    return not _quiet and _live is None


@contextmanager
def quietly() -> Iterator[None]:
    """Silence everything except warnings in a block."""
    before = _quiet
    set_quiet(True)
    try:
        yield
    finally:
        set_quiet(before)


def verbosity() -> tuple[bool, bool]:
    """Return the values that `set_quiet` and `set_debug` have set."""
    return _quiet, _debug


def say(text: str) -> None:
    """Write a line to stderr, unless quiet."""
    if not _quiet:
        _write_line(text)


def warn(text: str) -> None:
    """Write a warning to stderr, from the main process only."""
    if os.environ.get("RANK", "0") == "0":
        _write_line(f"warning: {text}", "yellow")


def error(text: str, cause: Exception | None) -> None:
    """Write to stderr in one line why a command ended; if debugging, write a traceback first."""
    if _debug and cause is not None:
        traceback.print_exception(cause)
    if text:
        _write_line(" ".join(text.split()), "red")


def data(text: str) -> None:
    """Write `text` unchanged to stdout, and flush; hide a live display on the same terminal."""
    display = _live if sys.stdout.isatty() else None
    if display is not None:
        display.stop()
    with writing_stdout():
        sys.stdout.write(text)
        sys.stdout.flush()
    if display is not None:
        display.start()


def data_lines(lines: Iterable[str]) -> None:
    """Write each line to stdout, with a line feed."""
    data("".join(f"{line}\n" for line in lines))


def show(record: Any, text: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Write a report to stdout, as JSON or as the lines that `text` returns for it."""
    layout: Any = {"indent": 2, "ensure_ascii": False, "allow_nan": False}  # JSON has no NaN
    data_lines([json.dumps(record, **layout)] if as_json else text(record))


def styled(spans: Iterable[tuple[str, str]]) -> str:
    """Join spans of (text, rich style) for `data`; without styles if stdout has no colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    with console.capture() as captured:
        console.print(Text.assemble(*spans), soft_wrap=True, end="")
    return captured.get()


def printable(line: str) -> str:
    """Return the line with escapes (`\\x1b`) for characters that are not printable."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or category(c) == "Zs" else ascii(c)[1:-1] for c in line)


def plural(count: int, noun: str) -> str:
    """Return the count and the noun: "1 line", "2,000 lines", "2 batches"."""
    ending = "es" if noun.endswith(("s", "x", "ch", "sh")) else "s"
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def cell_width(text: str) -> int:
    """Return the width of a text in terminal cells: wide characters take two."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fitted(text: str, cells: int = MAX_CELLS) -> str:
    """Return the text, cut to this many cells with an ellipsis if it is wider."""
    cut = text if len(text) <= cells else text[: 4 * cells]  # to save time on long lines
    while cut and cell_width(cut) > cells - (cut != text):
        cut = cut[:-1]
    return cut if cut == text else f"{cut}…"


def wrap(text: str, label: str = "", cells: int = MAX_CELLS) -> list[str]:
    """Return the label and the text as lines, broken between words; later lines are indented.

    Commands and long words such as paths are kept whole, so that they can be copied.
    """
    # `textwrap` counts characters, so pad wide ones to two, with a character that no text has.
    filled = "".join(c + "\0" * (cell_width(c) - 1) for c in text)
    filled = _COMMAND.sub(lambda command: command[0].replace(" ", "\1"), filled)
    indent = " " * cell_width(label)
    lines = textwrap.wrap(
        filled, cells, initial_indent=indent, subsequent_indent=indent, **WHOLE_WORDS
    )
    first, *rest = (line.replace("\0", "").replace("\1", " ") for line in lines or [indent])
    return [(label + first[len(indent) :]).rstrip(), *rest]


def table(rows: Iterable[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield a line per row, with the first `left` columns aligned left and the others right."""
    rows = list(rows)
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        gaps = [" " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = enumerate(zip(row, gaps, strict=True))
        yield "  ".join(c + gap if at < left else gap + c for at, (c, gap) in cells).rstrip()


def header(labels: Sequence[str], names: Sequence[str], cells: int = 20) -> list[list[str]]:
    """Return the first rows of a table: labels, and names; long paths are broken after "/"."""
    columns = [textwrap.wrap(it.replace("/", "/ "), cells, **WHOLE_WORDS) or [it] for it in names]
    rows = zip_longest(*map(reversed, columns), fillvalue="")  # from the last row to the first
    *above, last = reversed([[cell.replace("/ ", "/") for cell in row] for row in rows])
    return [[*("" for _ in labels), *row] for row in above] + [[*labels, *last]]


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Exit quietly if the reader of stdout is gone (`| head`); name stdout in other errors."""
    try:
        yield
    except BrokenPipeError:
        drop_unwritable()
        sys.exit(0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or "stdout") from None


def drop_unwritable() -> None:
    """Flush stdout, and drop what cannot be written, so that Python reports no error at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_line(text: str, style: str = "") -> None:
    """Write to stderr. On a terminal, break between words, and colour the part before ": "."""
    lines = [printable(line) for line in text.split("\n")]
    with suppress(OSError):  # continue even if nobody reads stderr, as when `2>&1 | tee` ended
        if _live is None and not sys.stderr.isatty():
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True) if _live is None else _live.console
        for line in lines:
            matched = _LABEL.match(line)
            label = matched[0] if matched and 2 * matched.end() < console.width else ""
            shown = Text("\n".join(wrap(line.removeprefix(label), label, console.width)))
            shown.stylize(style, 0, len(shown.plain.partition(": ")[0]) + 1)
            console.print(shown, soft_wrap=True)
