"""The runner of the benchmarks: do pieces of work for some seconds, and time each of them.

Torch is not imported, because the process that translates imports this module.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count, islice

WINDOWS = 10
"""Number of time windows that a measurement is divided into; the median window is reported."""


@dataclass(frozen=True)
class Work:
    """A finished piece of work: a training step, or a translated text."""

    tokens: int
    """Target tokens that were trained on or translated."""
    waiting_seconds: float = 0.0
    """Seconds in which the work waited for data."""


@dataclass(frozen=True)
class TimedWork(Work):
    """A piece of work and its duration."""

    seconds: float = 0.0
    """Seconds from start to end, including those of waiting."""


def time_work(
    work: Generator[Work],
    seconds: float,
    *,
    warm_up: int = 0,
    at_least: int = 1,
    agree_on_seconds: Callable[[float], float] = float,
) -> Generator[TimedWork]:
    """Time pieces of work until `seconds` seconds have passed or the work has ended.

    The first `warm_up` pieces are not measured; of the others at least `at_least` are measured.
    Several processes that must stop together give `agree_on_seconds`, which turns the duration of a
    piece into the duration that counts for all of them.
    """
    with closing(work):
        for _ in islice(work, warm_up):
            pass
        seconds_left = seconds
        for number in count(1):
            start = time.perf_counter()
            piece = next(work, None)
            taken = time.perf_counter() - start
            if piece is None:
                return
            yield TimedWork(
                tokens=piece.tokens, waiting_seconds=piece.waiting_seconds, seconds=taken
            )
            seconds_left -= agree_on_seconds(taken)
            if seconds_left <= 0 and number >= at_least:
                return


def window_rates(measured: Sequence[TimedWork]) -> list[float]:
    """Return the target tokens per second of up to WINDOWS equal windows of whole pieces."""
    window_seconds = sum(piece.seconds for piece in measured) / WINDOWS
    rates = []
    tokens = 0
    seconds = 0.0
    for piece in measured:
        tokens += piece.tokens
        seconds += piece.seconds
        if seconds >= window_seconds:
            rates.append(tokens / seconds)
            tokens = 0
            seconds = 0.0
    return rates
