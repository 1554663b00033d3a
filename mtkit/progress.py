"""Progress of a long task: a live bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import os
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from mtkit import report

SECONDS_BETWEEN_LINES = 10.0
MAX_MARKS = 512
"""Number of moments that a pace remembers; of more, every other one is dropped."""


@dataclass
class Pace:
    """Estimates the time left for `total` units, with pauses after every `pause_every` of them.

    Units are expected to go on at the speed of the later half of the time so far, as the load of
    the machine changes, and pauses to last as long as those before. There is one at the end, too.
    """

    total: int
    pause_every: int | None = None
    _marks: list[tuple[float, int]] = field(default_factory=list)
    """Seconds of work, and the units done by then, every `_stride` units."""
    _stride: int = 1
    _last: tuple[float, int] | None = None
    _paused: float = 0.0
    _pauses: int = 0
    _since: float | None = None

    def note(self, count: int, now: float) -> None:
        """Record that `count` units were done at time `now`, in seconds."""
        if self._since is None:  # units of the first note were done before
            self._since = now
        self._last = (now - self._since - self._paused, count)
        if not self._marks or count >= self._marks[-1][1] + self._stride:
            self._marks.append(self._last)
        if len(self._marks) > MAX_MARKS:
            self._marks, self._stride = self._marks[::2], 2 * self._stride

    def paused(self, seconds: float) -> None:
        """Record a pause."""
        self._paused += seconds
        self._pauses += 1

    def left(self) -> float | None:
        """Return the seconds left after the last note; None if unknown."""
        if self._last is None:
            return None
        end, count = self._last
        halfway = self._marks[0][0] + (end - self._marks[0][0]) / 2
        start, before = self._marks[bisect_right(self._marks, (halfway, count)) - 1]
        if count == before:
            return None
        work = (self.total - count) * (end - start) / (count - before)
        return work + self._pauses_left(count) * self._paused / max(1, self._pauses)

    def _pauses_left(self, count: int) -> int:
        if self.pause_every is None or count >= self.total:
            return 0
        return -(-self.total // self.pause_every) - count // self.pause_every


@dataclass
class Progress:
    """The count of a long task; this class shows nothing."""

    description: str
    total: int | None
    unit: str
    pause_every: int | None = None
    count: int = 0

    def __post_init__(self) -> None:
        self.pace = None if self.total is None else Pace(self.total, self.pause_every)

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count more units, and show the count."""
        self.count += amount
        if self.pace is not None:
            self.pace.note(self.count, time.monotonic())
        self.show(note)

    @contextmanager
    def pausing(self) -> Iterator[None]:
        """Count the time of a block as a pause, which says nothing about the speed."""
        began = time.monotonic()
        yield
        if self.pace is not None:
            self.pace.paused(time.monotonic() - began)

    def show(self, note: str) -> None:
        """Show the count and a note."""

    def close(self) -> None:
        """Remove what is shown."""

    @property
    def counted(self) -> str:
        """The count, such as "3/10 steps"."""
        number = f"{self.count:,}" if self.total is None else f"{self.count:,}/{self.total:,}"
        return f"{number} {self.unit}".rstrip()

    @property
    def left(self) -> str:
        """The remaining time, such as "0:05:00 left"; empty if unknown."""
        seconds = None if self.pace is None else self.pace.left()
        return "" if seconds is None else f"{_clock(seconds)} left"


@dataclass
class _Lines(Progress):
    """Lines with some seconds between them."""

    last_shown: float = field(default_factory=lambda: time.monotonic())

    def show(self, note: str) -> None:
        now = time.monotonic()
        if now - self.last_shown < SECONDS_BETWEEN_LINES:
            return
        self.last_shown = now
        report.say(
            "  ".join(filter(None, (f"{self.description}: {self.counted}", note, self.left)))
        )


@dataclass
class _Bar(Progress):
    """A bar of rich."""

    note: str = ""

    def __post_init__(self) -> None:
        import rich.progress
        from rich.console import Console
        from rich.table import Column

        super().__post_init__()
        console = Console(stderr=True)
        last = Column(no_wrap=True, ratio=1)  # the only column that a narrow terminal cuts
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
        self.start()
        report.set_live(self)

    def start(self) -> None:
        """Draw the bar."""
        self.bar.start()

    def stop(self) -> None:
        """Remove the bar."""
        self.bar.stop()

    def write(self, line: str) -> None:
        """Write a line above the bar."""
        self.bar.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def show(self, note: str) -> None:
        self.note = note or self.note
        text = "  ".join(part for part in (self.counted, self.left, self.note) if part)
        self.bar.update(self.task, completed=self.count, text=text)

    def close(self) -> None:
        report.set_live(None)  # first: stopping may fail if the terminal is gone
        self.stop()


@contextmanager
def progress(
    description: str, total: int | None = None, unit: str = "", pause_every: int | None = None
) -> Iterator[Progress]:
    """Show the progress of a block; one that took some seconds leaves a line.

    After every `pause_every` units, and at the end, other work is expected inside `pausing`.
    """
    started = time.monotonic()
    is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    kind = Progress if not report.accepts_progress() else _Bar if is_live else _Lines
    shown = kind(description, total, unit, pause_every)
    try:
        yield shown
    finally:
        shown.close()
    if (seconds := time.monotonic() - started) >= SECONDS_BETWEEN_LINES:
        report.say(f"{description}: {shown.counted} in {_clock(seconds)}")


def _clock(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
