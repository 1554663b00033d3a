"""Statistics of a corpus: its usual length ratio, scripts and languages.

Rules compare each pair with the statistics of its own corpus, so that no language needs thresholds
of its own. The statistics come from a sample that does not depend on the order of the pairs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from heapq import heappush, heappushpop
from zlib import crc32

import numpy as np

from mtkit.corpus.languages import IDENTIFIED_SCRIPTS, count_languages, is_supported
from mtkit.corpus.read import Pair, chunks
from mtkit.corpus.scripts import UNSPACED_SCRIPTS, count_scripts
from mtkit.progress import progress

SAMPLE_SIZE = 20_000
"""Pairs that the statistics are computed from."""
MIN_VOTES = 20
"""Lines of a side whose language must be identified before the side has one."""
MAJORITY = 2 / 3
"""Share of the lines that must be in a language before other lines are foreign."""
MIN_SCRIPT_SHARE = 0.1
"""Share of a side's letters from which a script belongs to the side."""
LENGTH_GROUPS = 8
"""Groups of pairs of similar length, each of which has its own spread of the length ratio."""
MIN_SPREAD = 0.12
"""Lower bound of the spread of log(target / source), lest every line be an outlier."""
MIN_WIDENING, MAX_WIDENING = 1.5, 2.0
"""A group has a spread of its own if it is this much wider than the spread of all pairs."""
MAD_TO_DEVIATION = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""
LENGTH_SLACK = 8.0
"""Characters added to both sides, so that the ratio of short lines matters little."""

Languages = tuple[str | None, str | None]
"""Codes of the source and target language, where they are known."""


@dataclass(frozen=True)
class SideStatistics:
    """The scripts and languages of one side."""

    scripts: frozenset[str]
    """Scripts that belong to the side, named as by `script_of`."""
    votes: Counter[str]
    """Lines of the sample in each language, among those long enough to be identified."""
    language: str | None
    """The language of a large majority of the lines; None if there is none."""

    @property
    def likely_language(self) -> str | None:
        """The language of most lines; None if too few were identified."""
        return _most_frequent(self.votes)

    @property
    def is_spaced(self) -> bool:
        """Whether the scripts put spaces between words."""
        return not self.scripts & UNSPACED_SCRIPTS


@dataclass(frozen=True)
class CorpusStatistics:
    """What is usual in a corpus."""

    source: SideStatistics
    target: SideStatistics
    ratio: float
    """Median of target / source, in characters."""
    spreads: tuple[tuple[float, float], ...]
    """For each group of pairs, from short to long: its smallest length, and the standard deviation
    of log(target / source), estimated from the median absolute deviation.
    """
    sample: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """The distinct pairs that the statistics were computed from: sources and targets."""
    held_out: AbstractSet[str] = field(default=frozenset(), repr=False)
    """Normalised sources of the validation and test set, which training should not contain."""

    def length_deviation(self, source: int, target: int) -> float:
        """Return how many standard deviations the length ratio is from the usual one."""
        size, log_ratio = _size_and_log_ratio(source, target, self.ratio)
        group = bisect_right(self.spreads, size, key=lambda row: row[0]) - 1
        return abs(log_ratio) / self.spreads[max(0, group)][1]


class PairSample:
    """The distinct pairs with the smallest hashes: independent of order and repetition."""

    def __init__(self, size: int = SAMPLE_SIZE) -> None:
        self._size = size
        self._heap: list[tuple[int, str, str]] = []
        self._keys: set[int] = set()

    def add(self, pair: Pair) -> None:
        """Take the pair if its hash is among the smallest so far; pairs with a blank side never."""
        key = -hash_of(pair)
        is_full = len(self._heap) == self._size
        if (is_full and key <= self._heap[0][0]) or key in self._keys or pair.blank:
            return
        self._keys.add(key)
        item = (key, pair.source, pair.target)
        if is_full:
            self._keys.remove(heappushpop(self._heap, item)[0])
        else:
            heappush(self._heap, item)

    def pairs(self) -> list[tuple[str, str]]:
        """Return the sampled texts, by hash."""
        return [(source, target) for _, source, target in sorted(self._heap, reverse=True)]


def hash_of(pair: Pair) -> int:
    """Return a 64-bit hash of both texts that is the same in every process."""
    source, target = (text.encode(errors="replace") for text in (pair.source, pair.target))
    return crc32(source) << 32 | crc32(target, len(source))


def compute_statistics(
    pairs: Iterable[Pair], languages: Languages = (None, None)
) -> CorpusStatistics:
    """Read the pairs once and return their statistics.

    A side whose declared language cannot be identified has no language, as py3langid would take it
    for a relative.
    """
    sampled = PairSample()
    with progress("reading", unit="pairs") as bar:
        for chunk in chunks(pairs):
            for pair in chunk:
                sampled.add(pair)
            bar.advance(len(chunk))
    sample = sampled.pairs()
    sources, targets = [source for source, _ in sample], [target for _, target in sample]
    scripts = _usual_scripts(sources), _usual_scripts(targets)
    votes = _votes(sources, scripts[0], languages[0]), _votes(targets, scripts[1], languages[1])
    ratio, spreads = _length_statistics(sample or [(" ", " ")])
    return CorpusStatistics(
        SideStatistics(scripts[0], votes[0], certain_language(votes[0], votes[1])),
        SideStatistics(scripts[1], votes[1], certain_language(votes[1], votes[0])),
        ratio,
        spreads,
        tuple(sample),
    )


def certain_language(votes: Counter[str], others: Counter[str]) -> str | None:
    """Return the language of a large majority of the lines, or None.

    Lines in the language of the other side do not count: they were probably left untranslated.
    """
    language, other = _most_frequent(votes), _most_frequent(others)
    untranslated = votes[other] if other is not None and other != language else 0
    is_certain = language is not None and votes[language] > MAJORITY * (
        votes.total() - untranslated
    )
    return language if is_certain else None


def _most_frequent(votes: Counter[str]) -> str | None:
    if votes.total() < MIN_VOTES:
        return None
    return max(votes, key=lambda code: (votes[code], code))


def _usual_scripts(lines: list[str]) -> frozenset[str]:
    counts = count_scripts("".join(lines))
    least = MIN_SCRIPT_SHARE * counts.total()
    return frozenset(script for script, count in counts.items() if count >= least)


def _votes(lines: list[str], scripts: frozenset[str], declared: str | None) -> Counter[str]:
    can_vote = scripts & IDENTIFIED_SCRIPTS and (declared is None or is_supported(declared))
    return count_languages(lines) if can_vote else Counter()


def _length_statistics(
    sample: list[tuple[str, str]],
) -> tuple[float, tuple[tuple[float, float], ...]]:
    """Return the median length ratio, and the spread of each group as in CorpusStatistics."""
    ratio = float(np.median([len(target) / len(source) for source, target in sample]))
    rows = [_size_and_log_ratio(len(source), len(target), ratio) for source, target in sample]
    sizes, deviations = np.array(rows).T
    deviations = np.abs(deviations)
    usual = max(MIN_SPREAD, float(np.median(deviations)) * MAD_TO_DEVIATION)
    bounds = np.quantile(sizes, np.arange(LENGTH_GROUPS) / LENGTH_GROUPS)
    groups = np.searchsorted(bounds[1:], sizes, side="right")
    spreads = []
    for group in np.unique(groups).tolist():
        spread = float(np.median(deviations[groups == group])) * MAD_TO_DEVIATION
        is_wider = spread > MIN_WIDENING * usual
        spreads.append(
            (float(bounds[group]), min(spread, MAX_WIDENING * usual) if is_wider else usual)
        )
    return ratio, tuple(spreads)


def _size_and_log_ratio(source: int, target: int, ratio: float) -> tuple[float, float]:
    """Return the length of a pair, and the log of its length ratio divided by the usual one.

    The shorter language is scaled up first, so that both sides count alike.
    """
    scaled = source * max(ratio, 1.0), target * max(1 / ratio, 1.0)
    return sum(scaled), math.log((scaled[1] + LENGTH_SLACK) / (scaled[0] + LENGTH_SLACK))
