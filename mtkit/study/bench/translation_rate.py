"""What one way of translating takes; without torch where its engine does without."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtkit.decoding.lines import WINDOW
from mtkit.decoding.translator import Translator
from mtkit.training.run.system_memory import peak_bytes

WARM_UP = 64
"""Lines before anything counts: kernels are chosen, memory is claimed."""
FEWEST = 20
"""Lines that are translated one at a time, at least."""


@dataclass(frozen=True)
class Way:
    """One way to translate with a model."""

    model: str
    engine: str
    compute_type: str
    device: str
    beam: int

    def load(self) -> Translator:
        """Raises UserError where it cannot be gone."""
        return Translator.load(
            self.model,
            self.device,
            engine=self.engine,
            compute_type=self.compute_type,
            beam=self.beam,
        )


@dataclass(frozen=True)
class Rate:
    """The speed of whole passes over the text, and of lines by themselves."""

    sentences_per_second: float
    """Median of the passes."""
    tokens_per_second: float
    """Target subwords."""
    passes: int
    latencies: list[float]
    """Seconds of each line that was translated alone."""
    peak_mib: int
    """Resident, of the process so far."""


def measure_rate(way: Way, lines: Sequence[str], seconds: float) -> Rate:
    """Passes for about `seconds` seconds, at least one; then single lines for half of that."""
    translator = way.load()
    _translate(translator, lines[:WARM_UP])
    passes = list(_passes(translator, lines, seconds))
    latencies = list(_latencies(translator, lines, seconds / 2))
    return Rate(
        statistics.median(len(lines) / taken for _, taken in passes),
        statistics.median(tokens / taken for tokens, taken in passes),
        len(passes),
        latencies,
        peak_bytes() >> 20,
    )


def _passes(
    translator: Translator, lines: Sequence[str], seconds: float
) -> Iterator[tuple[int, float]]:
    """Target tokens and seconds of each."""
    while seconds > 0:
        began = time.perf_counter()
        tokens = _translate(translator, lines)
        taken = time.perf_counter() - began
        seconds -= taken
        yield tokens, taken


def _latencies(translator: Translator, lines: Sequence[str], seconds: float) -> Iterator[float]:
    for number, line in enumerate(lines):
        if seconds <= 0 and number >= FEWEST:
            break
        began = time.perf_counter()
        _translate(translator, [line])
        taken = time.perf_counter() - began
        seconds -= taken
        yield taken


def _translate(translator: Translator, lines: Sequence[str]) -> int:
    """Target tokens, in windows as `mtkit translate` reads them."""
    windows = (lines[first : first + WINDOW] for first in range(0, len(lines), WINDOW))
    return sum(
        len(translation.tokens) for window in translator.stream(windows) for translation in window
    )
