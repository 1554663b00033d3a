"""What is usual in a corpus: by how much one side is longer, its scripts, languages, line ends.

It is taken from a sample that does not depend on the order of the pairs, and what is a fault in one
corpus (Latin letters, no full stop) is none in another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heappush, heappushpop
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.characters import CLASSES, FIRST_SCRIPT, UNSPACED, census, scripts
from mtkit.corpus.languages import TELLING_SCRIPTS, can_be_told, votes
from mtkit.corpus.read import Pair, chunks
from mtkit.corpus.texts import ending
from mtkit.report import progress

SAMPLE_PAIRS = 20_000
TELLING_LINES = 20
"""Lines of a side that must tell of its language before it is known."""
MAJORITY = 2 / 3
"""Of the lines of a side, more are in its language."""
COUNTED_LINES = 100
"""Whose characters are counted at once: that takes some twenty bytes for each of them."""
AT_HOME = 0.1
"""A script that has so much of a side's letters belongs there."""
SELDOM = 0.03
"""An ending that fewer translations of an ending have is not usual."""
LEAST_SPREAD = 0.12
"""Of log(target / source): less is taken for so much, lest any line stand out."""
WIDER, WIDEST = 1.5, 2.0
"""Times the spread of all pairs: by less those that are as long do not differ, nor by more."""
NORMAL = 1.4826
"""Standard deviation of a normal distribution whose absolute deviations have the median 1."""
SLACK = 8.0
"""Characters that short lines may be longer or shorter, before their ratio says anything."""


@dataclass(frozen=True)
class Side:
    """What one side of a corpus is like."""

    scripts: frozenset[str]
    """Those at home there, by the names of `characters.scripts`."""
    languages: Counter[str]
    """Of the lines that were asked, how many are in each language."""

    @property
    def language(self) -> str | None:
        """The language of most lines; None where too few were long enough to tell."""
        if self.languages.total() < TELLING_LINES:
            return None
        return max(self.languages, key=lambda code: (self.languages[code], code))

    def sure_beside(self, other: Side) -> str | None:
        """That language, if a majority is in it, those lines apart that are in the other side's."""
        votes, language = self.languages, self.language
        theirs = votes[other.language] if other.language not in (None, language) else 0
        is_sure = language is not None and votes[language] > MAJORITY * (votes.total() - theirs)
        return language if is_sure else None

    @property
    def spaced(self) -> bool:
        """Whether words stand apart."""
        return not self.scripts & UNSPACED

    def named(self, code: str | None) -> Side:
        """Said to be in that language: where it cannot be told, its kin have the votes."""
        return self if code is None or can_be_told(code) else replace(self, languages=Counter())


@dataclass(frozen=True)
class Usual:
    source: Side
    target: Side
    ratio: float
    """Characters of the target for one of the source: the median."""
    spreads: tuple[tuple[float, float], ...]
    """For each eighth of the pairs, from the shortest to the longest: the least length, and the
    standard deviation of the log of that ratio, by the median of its deviations.
    """
    endings: frozenset[tuple[str, str]]
    """Endings of source and target that go together."""

    def unevenness(self, lengths: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) deviations from the usual ratio, by the spread of pairs as long; (n, 2) lengths."""
        least, spreads = np.array(self.spreads).T
        eighth = np.searchsorted(least[1:], sizes(lengths, self.ratio), side="right")
        return np.asarray(np.abs(log_ratios(lengths, self.ratio)) / spreads[eighth])

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Of source and target, where they are sure."""
        return self.source.sure_beside(self.target), self.target.sure_beside(self.source)

    def named(self, languages: tuple[str | None, str | None]) -> Usual:
        """The same, where the sides are said to be in these, if in any."""
        source, target = languages
        return replace(self, source=self.source.named(source), target=self.target.named(target))


class Sample:
    """The pairs whose hashes are smallest: the same whatever the order, and however often each."""

    def __init__(self, size: int = SAMPLE_PAIRS) -> None:
        self._size = size
        self._heap: list[tuple[int, str, str]] = []
        self._keys: set[int] = set()

    def add(self, pair: Pair) -> None:
        """Takes the pair, or leaves it; a blank side says nothing."""
        key = -hash_of(pair)
        full = len(self._heap) == self._size
        if (full and key <= self._heap[0][0]) or key in self._keys:
            return
        if pair.blank:
            return
        self._keys.add(key)
        item = (key, pair.source, pair.target)
        if full:
            self._keys.remove(heappushpop(self._heap, item)[0])
        else:
            heappush(self._heap, item)

    def pairs(self) -> list[tuple[str, str]]:
        return [(source, target) for _, source, target in sorted(self._heap, reverse=True)]


def hash_of(pair: Pair) -> int:
    """64 bits, the same in every process."""
    source, target = (text.encode(errors="replace") for text in (pair.source, pair.target))
    return crc32(source) << 32 | crc32(target, len(source))


def usual_of(pairs: Iterable[Pair]) -> Usual:
    """What is usual among the pairs, read once."""
    sampled = Sample()
    with progress("reading", unit="pairs") as shown:
        for chunk in chunks(pairs):
            for pair in chunk:
                sampled.add(pair)
            shown.advance(len(chunk))
    sample = sampled.pairs()
    sources, targets = [[pair[side] for pair in sample] for side in (0, 1)]
    lengths = np.array([[len(s), len(t)] for s, t in sample] or [[1, 1]], np.float64)
    ratio = float(np.median(lengths[:, 1] / lengths[:, 0]))
    deviations = np.abs(log_ratios(lengths, ratio))
    spread = max(LEAST_SPREAD, float(np.median(deviations)) * NORMAL)
    size = sizes(lengths, ratio)
    least = np.quantile(size, np.arange(8) / 8)
    eighth = np.searchsorted(least[1:], size, side="right")
    own = (float(np.median(deviations[eighth == k])) * NORMAL for k in np.unique(eighth))
    spreads = (min(found, WIDEST * spread) if found > WIDER * spread else spread for found in own)
    by_length = tuple(zip(least[np.unique(eighth)].tolist(), spreads, strict=True))
    return Usual(_side(sources), _side(targets), ratio, by_length, _endings(sample))


def sizes(lengths: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """(n,) how long pairs of (n, 2) lengths are, both sides counted alike."""
    return np.asarray(lengths @ _scale(ratio))


def _scale(ratio: float) -> NDArray[np.float64]:
    """What makes the sides as long as each other."""
    return np.array([max(ratio, 1.0), max(1 / ratio, 1.0)])


def log_ratios(lengths: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """(n,) log of how much longer the target is than is usual, of (n, 2) lengths in characters.

    SLACK is added to both sides, in characters of the side that needs more of them.
    """
    logs: NDArray[np.float64] = np.log(lengths * _scale(ratio) + SLACK)
    return logs[:, 1] - logs[:, 0]


def _side(lines: list[str]) -> Side:
    counted = np.zeros(CLASSES, np.int64)
    for start in range(0, len(lines), COUNTED_LINES):
        counted += census(lines[start : start + COUNTED_LINES]).sum(axis=0)
    counts = counted[FIRST_SCRIPT:]
    names = scripts()[FIRST_SCRIPT:]
    least = max(1, AT_HOME * counts.sum())
    found = zip(names, counts, strict=False)
    at_home = frozenset(name for name, count in found if count >= least)
    return Side(at_home, votes(lines) if at_home & TELLING_SCRIPTS else Counter())


def _endings(sample: list[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    together = Counter((ending(source), ending(target)) for source, target in sample)
    alone = Counter(ending(source) for source, _ in sample)
    return frozenset(
        (one, other)
        for (one, other), count in together.items()
        if one == other or count >= SELDOM * alone[one]
    )
