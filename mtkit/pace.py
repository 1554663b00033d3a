"""How long the rest of a long task takes, by how long what is done of it took. Pure.

A task is units, all alike, and pauses for something else after every so many of them and at the
end. Units are expected to go on as fast as in the later half of the time that they have taken so
far, as other work on the machine begins and ends, and pauses to be as long as those before.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

MOST_MARKS = 512
"""Number of moments that are remembered; of more, every other one is forgotten."""


@dataclass
class Pace:
    """Of `total` units with a pause after each `pause_every`-th (None: no pauses) and the last."""

    total: int
    pause_every: int | None = None
    _marks: list[tuple[float, int]] = field(default_factory=list)
    """Seconds of work, and the units that were done then, every `_stride` units."""
    _stride: int = 1
    _last: tuple[float, int] | None = None
    _paused: float = 0.0
    _pauses: int = 0
    _since: float | None = None

    def note(self, count: int, now: float) -> None:
        """So many units are done, at the moment `now` in seconds."""
        if self._since is None:  # what is there at once was done before
            self._since = now
        self._last = (now - self._since - self._paused, count)
        if not self._marks or count >= self._marks[-1][1] + self._stride:
            self._marks.append(self._last)
        if len(self._marks) > MOST_MARKS:
            self._marks, self._stride = self._marks[::2], 2 * self._stride

    def paused(self, seconds: float) -> None:
        """A pause is over; none of it was work."""
        self._paused += seconds
        self._pauses += 1

    def left(self) -> float | None:
        """Seconds from the last note on; None while nothing is known."""
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
