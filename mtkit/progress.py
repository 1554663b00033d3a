"""Progress of a long task: a live bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from mtkit import report

SECONDS_BETWEEN_LINES = 10.0
"""Time from one line of progress to the next; a shorter task shows no line."""
MIN_BAR_WIDTH = 4
MAX_BAR_WIDTH = 24
"""Width of the bar, in cells of the terminal."""
TEXT_WIDTH = 72
"""Width of description and text beside the bar in a wide terminal, in cells."""


@dataclass
class Progress:
    """The progress of a long task; this base class shows nothing."""

    description: str
    total: int | None
    unit: str
    count: int = 0
    _started: tuple[float, int] | None = None
    """Time of the first call of `advance`, and the count after it."""

    def advance(self, amount: int = 1, note: str = "") -> None:
        """Count more units, and show the count."""
        self.count += amount
        if self._started is None:
            # The first unit often takes longer than others, so it is left out of the speed.
            self._started = time.monotonic(), self.count
        self.show(note)

    def show(self, note: str) -> None:
        """Show the count and a note."""

    def close(self) -> None:
        """Remove the display."""

    @property
    def counted(self) -> str:
        """The count, such as "3/10 steps"."""
        number = f"{self.count:,}" if self.total is None else f"{self.count:,}/{self.total:,}"
        return f"{number} {self.unit}".rstrip()

    @property
    def left(self) -> str:
        """The remaining time at the average speed, such as "0:05:00 left"; empty if unknown."""
        if self.total is None or self._started is None:
            return ""
        started_at, first_count = self._started
        if self.count <= first_count:
            return ""
        seconds_per_unit = (time.monotonic() - started_at) / (self.count - first_count)
        seconds_left = (self.total - self.count) * seconds_per_unit
        return f"{_clock(seconds_left)} left"


@dataclass
class _Lines(Progress):
    """Progress as a line every few seconds."""

    last_shown: float = field(default_factory=lambda: time.monotonic())

    def show(self, note: str) -> None:
        now = time.monotonic()
        if now - self.last_shown < SECONDS_BETWEEN_LINES:
            return
        self.last_shown = now
        parts = [f"{self.description}: {self.counted}", note, self.left]
        report.say("  ".join(part for part in parts if part))


@dataclass
class _Bar(Progress):
    """Progress as a bar, drawn by the library rich."""

    note: str = ""

    def __post_init__(self) -> None:
        import rich.progress
        from rich.console import Console
        from rich.table import Column

        console = Console(stderr=True)
        bar_width = max(MIN_BAR_WIDTH, min(MAX_BAR_WIDTH, console.width - TEXT_WIDTH))
        # The text gets the cells that are left; if it is longer, its end is cut.
        text_column = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self.bar = rich.progress.Progress(
            "{task.description}",
            rich.progress.BarColumn(bar_width, complete_style="cyan"),
            rich.progress.TextColumn("{task.fields[text]}", table_column=text_column, markup=False),
            console=console,
            expand=True,
            redirect_stdout=False,  # `report` writes above the bar itself
            redirect_stderr=False,
            transient=True,  # the bar disappears at the end
        )
        self.task = self.bar.add_task(self.description, total=self.total, text=self.counted)
        self.bar.start()
        report.set_live(self.bar)

    def show(self, note: str) -> None:
        self.note = note or self.note  # without a new note, the last note stays
        text = "  ".join(part for part in (self.counted, self.left, self.note) if part)
        self.bar.update(self.task, completed=self.count, text=text)

    def close(self) -> None:
        report.set_live(None)  # first, because stopping may fail if the terminal is gone
        self.bar.stop()


@contextmanager
def progress(description: str, total: int | None = None, unit: str = "") -> Iterator[Progress]:
    """Show the progress of a block; if it took SECONDS_BETWEEN_LINES or more, a line stays.

    `total`: how many units there are; None if nobody knows.
    """
    started = time.monotonic()
    display_class = _pick_display()
    display = display_class(description, total, unit)
    try:
        yield display
    finally:
        display.close()
    # Not after an error, whose message would follow.
    seconds = time.monotonic() - started
    if seconds >= SECONDS_BETWEEN_LINES:
        report.say(f"{description}: {display.counted} in {_clock(seconds)}")


def _pick_display() -> type[Progress]:
    """Return the kind of display that this terminal, file or pipe can show."""
    if not report.accepts_progress():
        return Progress
    is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    return _Bar if is_terminal else _Lines


def _clock(seconds: float) -> str:
    """Return a duration such as "0:05:00"."""
    return str(timedelta(seconds=round(seconds)))
