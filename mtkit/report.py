"""The console: the only module that prints.

stdout carries data alone. All else goes to stderr: a live bar on a terminal, else plain lines.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from unicodedata import category

from mtkit.pace import Pace

if TYPE_CHECKING:
    import rich.progress

SECONDS_BETWEEN_LINES = 10.0

_quiet = _debug = False
_bar: rich.progress.Progress | None = None


def set_quiet(quiet: bool) -> None:
    """With True, `say` and `progress` are silent; warnings and data are not."""
    global _quiet
    _quiet = quiet


def set_debug(debug: bool) -> None:
    """With True, `error` shows a traceback."""
    global _debug
    _debug = debug


@contextmanager
def quietly() -> Iterator[None]:
    """Around work of which nobody needs to hear, but for warnings."""
    before = _quiet
    set_quiet(True)
    try:
        yield
    finally:
        set_quiet(before)


def options() -> list[str]:
    """Those with which a command that this one starts says as much."""
    return ["--quiet"] * _quiet + ["--debug"] * _debug


def say(text: str) -> None:
    """A line on stderr for the person who waits."""
    if not _quiet:
        _line(text)


def warn(text: str) -> None:
    """A line on stderr that --quiet does not silence."""
    if os.environ.get("RANK", "0") == "0":  # of several ranks only the first one speaks
        _line(f"warning: {text}")


def error(text: str, cause: Exception | None) -> None:
    """The one line on stderr, if any, that says why a command ended early, below its traceback."""
    if _debug and cause is not None:
        traceback.print_exception(cause)
    if text:
        _line(" ".join(text.split()))


def data(text: str) -> None:
    """Writes exactly `text` to stdout, at once; a live bar on the same terminal makes room."""
    bar = _bar if sys.stdout.isatty() else None
    if bar is not None:
        bar.stop()
    with writing_stdout():
        sys.stdout.write(text)
        sys.stdout.flush()
    if bar is not None:
        bar.start()


def data_lines(lines: Iterable[str]) -> None:
    """Writes each of `lines` to stdout, with the line feed that ends it."""
    data("".join(f"{line}\n" for line in lines))


def show(record: Any, text: Callable[[Any], Iterable[str]], *, as_json: bool) -> None:
    """Writes a report to stdout: as JSON, or as the lines that `text` makes of it."""
    layout: Any = {"indent": 2, "ensure_ascii": False, "allow_nan": False}  # NaN is no part of JSON
    data_lines([json.dumps(record, **layout)] if as_json else text(record))


def styled(spans: Iterable[tuple[str, str]]) -> str:
    """Texts in their styles (of rich) as `data` takes them: plain where stdout shows no colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console()
    with console.capture() as captured:
        console.print(Text.assemble(*spans), soft_wrap=True, end="")
    return captured.get()


def printable(line: str) -> str:
    """`line` with escapes (`\\x1b`) of what is neither printable nor a space."""
    if line.isprintable():
        return line
    return "".join(c if c.isprintable() or category(c) == "Zs" else ascii(c)[1:-1] for c in line)


def cell_width(text: str) -> int:
    """How many cells of a terminal the text takes: two for a wide character."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def fitted(text: str, cells: int) -> str:
    """As much of a text as fits into so many cells, an ellipsis for the rest."""
    cut = text
    while cut and cell_width(cut) > cells - (cut != text):
        cut = cut[:-1]
    return cut if cut == text else f"{cut}…"


@contextmanager
def writing_stdout() -> Iterator[None]:
    """Around writes: ends the program where nobody reads on (`| head`), which is no error."""
    try:
        yield
    except BrokenPipeError:
        drop_unwritable()
        sys.exit(0)
    except OSError as error:
        raise OSError(error.errno, error.strerror, error.filename or "stdout") from None


def drop_unwritable() -> None:
    """Flushes stdout; what cannot be written is dropped, or Python would complain when it exits."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _line(text: str) -> None:
    text = "\n".join(map(printable, text.split("\n")))
    with suppress(OSError):  # nobody listens (`2>&1 | tee`, gone): no reason to stop the work
        if _bar is None:
            sys.stderr.write(f"{text}\n")
        else:
            _bar.console.print(text, markup=False, highlight=False, soft_wrap=True)


@dataclass
class Progress:
    """How far a long task is; this one counts in silence."""

    description: str
    total: int | None
    unit: str
    pause_every: int | None = None
    count: int = 0

    def __post_init__(self) -> None:
        self.pace = None if self.total is None else Pace(self.total, self.pause_every)

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.count += amount
        if self.pace is not None:
            self.pace.note(self.count, time.monotonic())
        self.show(note)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Around work of another kind, one of the pauses that `progress` was told of."""
        began = time.monotonic()
        yield
        if self.pace is not None:
            self.pace.paused(time.monotonic() - began)

    def show(self, note: str) -> None:
        """Shows the count and a note."""

    def close(self) -> None:
        """Takes away what was shown."""

    @property
    def counted(self) -> str:
        number = f"{self.count:,}" if self.total is None else f"{self.count:,}/{self.total:,}"
        return f"{number} {self.unit}".rstrip()

    @property
    def left(self) -> str:
        """The time that the rest takes, as far as it is known."""
        seconds = None if self.pace is None else self.pace.left()
        return "" if seconds is None else f"{_clock(seconds)} left"


@dataclass
class _Lines(Progress):
    """Said as lines, with seconds between them."""

    spoke: float = field(default_factory=lambda: time.monotonic())

    def show(self, note: str) -> None:
        now = time.monotonic()
        if now - self.spoke < SECONDS_BETWEEN_LINES:
            return
        self.spoke = now
        say("  ".join(filter(None, (f"{self.description}: {self.counted}", note, self.left))))


@dataclass
class _Bar(Progress):
    """A bar of rich that moves in the terminal."""

    note: str = ""

    def __post_init__(self) -> None:
        import rich.progress
        from rich.console import Console
        from rich.table import Column

        global _bar
        super().__post_init__()
        console = Console(stderr=True)
        last = Column(no_wrap=True, ratio=1)  # which alone is cut where a terminal is narrow
        columns = (
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(bar_width=max(4, min(24, console.width - 60))),
            rich.progress.TextColumn("{task.fields[text]}", markup=False, table_column=last),
        )
        self.bar = rich.progress.Progress(
            *columns,
            console=console,
            expand=True,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.task = self.bar.add_task(self.description, total=self.total, text=self.counted)
        self.bar.start()
        _bar = self.bar

    def show(self, note: str) -> None:
        self.note = note or self.note
        text = "  ".join(part for part in (self.counted, self.left, self.note) if part)
        self.bar.update(self.task, completed=self.count, text=text)

    def close(self) -> None:
        global _bar
        _bar = None  # also where its terminal is gone
        self.bar.stop()


@contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "", pause_every: int | None = None
) -> Iterator[Progress]:
    """Shows how far a long task is; work that took some seconds leaves one line behind.

    After every `pause_every` units and at the end there is other work to do, inside `pausing`.
    """
    started = time.monotonic()
    live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    kind = Progress if _quiet or _bar is not None else _Bar if live else _Lines
    shown = kind(description, total, unit, pause_every)
    try:
        yield shown
    finally:
        shown.close()
    if (seconds := time.monotonic() - started) >= SECONDS_BETWEEN_LINES:
        say(f"{description}: {shown.counted} in {_clock(seconds)}")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def table(rows: Iterable[Sequence[str]], left: int = 1) -> Iterator[str]:
    """A line for each row: the first `left` columns to the left, the others to the right."""
    rows = list(rows)
    widths = [max(map(cell_width, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        gaps = [" " * (width - cell_width(cell)) for cell, width in zip(row, widths, strict=True)]
        cells = enumerate(zip(row, gaps, strict=True))
        yield "  ".join(c + gap if at < left else gap + c for at, (c, gap) in cells).rstrip()
