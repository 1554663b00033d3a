"""The console: the only module that prints.

stdout carries data only; messages go to stderr, above a live display if there is one.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import textwrap
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unicodedata import category

if TYPE_CHECKING:
    import rich.progress


MAX_CELLS = 80
"""Width of reports, in terminal cells."""
_COMMAND = re.compile(r"`[^`]*`|(?<=: )(\S*/)?mtkit .*")
"""A command in a message, which must not be broken."""
_PROGRAM = re.compile(r"(^|[`(]|: |\| |&& |, or )mtkit (?=[a-z])")
"""The name of this program at the beginning of a command in a message."""
WHOLE_WORDS: Any = {"break_long_words": False, "break_on_hyphens": False}
"""Options of `textwrap`: a path that is too long for a line stays whole."""
_LABEL = re.compile(r"(warning:)? *(\S+ {2,})?")
"""The start of a line, such as "  source  "; continuation lines are indented by its width."""
WARNING = "warning: "
"""How the line of a warning begins."""
_quiet = _debug = _is_follower = False
_live: rich.progress.Progress | None = None


def set_quiet(quiet: bool) -> None:
    """Silence `say` and progress, but not warnings and data."""
    global _quiet
    _quiet = quiet


def set_debug(debug: bool) -> None:
    """Let `error` print a traceback."""
    global _debug
    _debug = debug


def set_follower(is_follower: bool) -> None:
    """Silence warnings if this process does the same as the main process of its group."""
    global _is_follower
    _is_follower = is_follower


def set_live(display: rich.progress.Progress | None) -> None:
    """Write messages above a live display from now on; None: there is no display."""
    global _live
    _live = display


def accepts_progress() -> bool:
    """Return whether to show progress: not if quiet, and not while another progress is shown."""
    return not _quiet and _live is None


@contextmanager
def silently() -> Iterator[None]:
    """Silence `say`, progress and warnings in a block."""
    was_quiet = _quiet
    was_follower = _is_follower
    set_quiet(True)
    set_follower(True)
    try:
        yield
    finally:
        set_quiet(was_quiet)
        set_follower(was_follower)


def verbosity() -> tuple[bool, bool]:
    """Return the values that `set_quiet` and `set_debug` have set."""
    return _quiet, _debug


def say(text: str) -> None:
    """Write a line to stderr, unless quiet."""
    if not _quiet:
        _write_line(text)


def warn(text: str) -> None:
    """Write a warning to stderr, unless the main process of a group does so."""
    if not _is_follower:
        _write_line(f"{WARNING}{text}", "yellow")


def error(text: str, cause: Exception | None) -> None:
    """Write to stderr in one line why a command ended; if debugging, write a traceback first."""
    if _debug and cause is not None:
        traceback.print_exception(cause)
    if text:
        _write_line(" ".join(text.split()), "red")


def runnable(text: str) -> str:
    """Return a message whose commands work as they are, also if mtkit is not on PATH.

    The user may have started it by a path, such as .venv/bin/mtkit.
    """
    started = sys.argv[0]
    if os.path.basename(started) != "mtkit":  # `python -m mtkit`, or another program
        return text
    found = shutil.which("mtkit")
    if found is not None and os.path.realpath(found) == os.path.realpath(started):
        return text
    return _PROGRAM.sub(lambda match: f"{match[1]}{shlex.quote(started)} ", text)


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
    if as_json:
        lines: Iterable[str] = [json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)]
    else:
        lines = text(record)
    data_lines(lines)


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
    shown: list[str] = []
    for character in line:
        is_space = category(character) == "Zs"  # such as no-break spaces, which Python escapes
        if character.isprintable() or is_space:
            shown.append(character)
        else:
            shown.append(ascii(character).strip("'"))
    return "".join(shown)


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
    # Text may have more characters than cells, because marks have no width. But no language needs
    # four characters per cell, so the rest of a long line need not be measured.
    cut = text[: 4 * cells]
    if cut == text and cell_width(text) <= cells:
        return text
    while cut and cell_width(cut) > cells - len("…"):
        cut = cut[:-1]
    return f"{cut}…"


def wrap(text: str, label: str = "", cells: int = MAX_CELLS) -> list[str]:
    """Return the label and the text as lines, broken between words; later lines are indented.

    Commands and long words such as paths are kept whole, so that they can be copied.
    """
    # `textwrap` counts characters, so pad wide ones to two, with a character that no text has.
    padded = "".join(character + "\0" * (cell_width(character) - 1) for character in text)
    # A character that is no space keeps the words of a command together.
    padded = _COMMAND.sub(lambda command: command[0].replace(" ", "\1"), padded)
    indent = " " * cell_width(label)
    lines = textwrap.wrap(
        padded,
        cells,
        initial_indent=indent,
        subsequent_indent=indent,
        **WHOLE_WORDS,
    )
    if not lines:  # the text is blank
        lines = [indent]
    first, *later = [line.replace("\0", "").replace("\1", " ") for line in lines]
    return [(label + first[len(indent) :]).rstrip(), *later]


def table(rows: Iterable[Sequence[str]], left: int = 1) -> Iterator[str]:
    """Yield a line per row, with the first `left` columns aligned left and the others right."""
    rows = list(rows)
    columns = zip(*rows, strict=True)
    widths = [max(map(cell_width, column)) for column in columns]
    for row in rows:
        cells: list[str] = []
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            gap = " " * (width - cell_width(cell))
            cells.append(cell + gap if column < left else gap + cell)
        yield "  ".join(cells).rstrip()


def header(labels: Sequence[str], names: Sequence[str], cells: int = 20) -> list[list[str]]:
    """Return the first rows of a table: labels, and names; long paths are broken after "/"."""
    columns: list[list[str]] = []
    for name in names:
        # `textwrap` breaks at spaces.
        lines = textwrap.wrap(name.replace("/", "/ "), cells, **WHOLE_WORDS) or [name]
        columns.append([line.replace("/ ", "/") for line in lines])
    height = max(map(len, columns))
    rows: list[list[str]] = []
    for row in range(height):
        is_last = row == height - 1
        cells_of_row = list(labels) if is_last else [""] * len(labels)
        for lines in columns:
            blank_rows = height - len(lines)  # above a shorter name, so that all end in one row
            cells_of_row.append("" if row < blank_rows else lines[row - blank_rows])
        rows.append(cells_of_row)
    return rows


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
        devnull = os.open(os.devnull, os.O_WRONLY)
        os.dup2(devnull, sys.stdout.fileno())


def _write_line(text: str, style: str = "") -> None:
    """Write to stderr. On a terminal, break between words, and colour the part before ": "."""
    lines = [printable(line) for line in runnable(text).split("\n")]
    with suppress(OSError):  # continue even if nobody reads stderr, as when `2>&1 | tee` ended
        if _live is None and not sys.stderr.isatty():
            sys.stderr.write("".join(f"{line}\n" for line in lines))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True) if _live is None else _live.console
        for line in lines:
            matched = _LABEL.match(line)
            # A label of half the width would leave too little room for the text.
            label = matched[0] if matched and 2 * matched.end() < console.width else ""
            wrapped = wrap(line.removeprefix(label), label, console.width)
            shown = Text("\n".join(wrapped))
            beginning, _, _ = shown.plain.partition(": ")
            shown.stylize(style, 0, len(beginning) + len(":"))
            console.print(shown, soft_wrap=True)
