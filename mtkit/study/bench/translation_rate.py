"""What one way of translating takes; without torch where its engine does without."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from statistics import median

from mtkit.decoding.api import Translator
from mtkit.decoding.lines import in_windows
from mtkit.machine import peak_bytes

WARM_UP = 64
"""Lines before anything counts: kernels are chosen, memory is claimed."""
FEWEST_ALONE = 20
"""Lines that are translated one at a time, at least."""


@dataclass(frozen=True)
class Rate:
    """The speed of whole passes over the text, and of lines by themselves."""

    sentences_per_second: float
    """Median of the passes."""
    tokens_per_second: float
    """Target subwords per second, the median of the passes."""
    passes: int
    latencies: list[float]
    """Seconds of each line that was translated alone."""
    peak_mib: int
    """MiB that were resident at most, of the whole process."""


def measure_apart(load: Callable[[], Translator], lines: Sequence[str], seconds: float) -> Rate:
    """`measure_rate` in a fresh process, whose memory is that of this translator alone."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(measure_rate, load, lines, seconds).result()


def measure_rate(load: Callable[[], Translator], lines: Sequence[str], seconds: float) -> Rate:
    """Passes for about `seconds` seconds, at least one; then single lines for half of that."""
    translator = load()
    _translate(translator, lines[:WARM_UP])
    passes = _timed(translator, repeat(lines), seconds)
    alone = _timed(translator, ([line] for line in lines), seconds / 2, FEWEST_ALONE)
    return Rate(
        median(len(lines) / taken for _, taken in passes),
        median(tokens / taken for tokens, taken in passes),
        len(passes),
        [taken for _, taken in alone],
        peak_bytes() >> 20,
    )


def _timed(
    translator: Translator, texts: Iterable[Sequence[str]], seconds: float, fewest: int = 1
) -> list[tuple[int, float]]:
    """Target tokens and seconds of each text, until `seconds` are over and `fewest` are done."""
    timed: list[tuple[int, float]] = []
    for text in texts:
        if seconds <= 0 and len(timed) >= fewest:
            break
        began = time.perf_counter()
        tokens = _translate(translator, text)
        timed.append((tokens, time.perf_counter() - began))
        seconds -= timed[-1][1]
    return timed


def _translate(translator: Translator, lines: Sequence[str]) -> int:
    """Number of target tokens; lines come in windows as `mtkit translate` reads them."""
    windows = translator.stream(in_windows(lines))
    return sum(len(translation.tokens) for window in windows for translation in window)
