"""Statistics of a corpus: its usual length ratio, scripts and languages.

Rules compare each pair with the statistics of its corpus, so no thresholds depend on the language.
The statistics come from a sample that does not depend on the order of the pairs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, Field

from mtkit.artifacts.records import Name, Names, NotStored
from mtkit.config.language_codes import LanguageTag
from mtkit.corpus.languages import UNSPACED_SCRIPTS, count_languages, count_scripts, is_supported
from mtkit.corpus.read import Pair, hash_of

if TYPE_CHECKING:  # translation reads statistics, and no rows
    from mtkit.corpus.store import CorpusRows

SAMPLE_SIZE = 20_000
"""Number of pairs that the statistics are computed from."""
MAX_SAMPLED_CHARACTERS = 4_000
"""Longest side of a sampled pair. Longer pairs are cut, so that the sample fits into memory."""
MIN_VOTES = 20
"""Fewest lines with an identified language from which the language of a side is known."""
MAJORITY = 2 / 3
"""Share of lines that must be in one language before lines in other languages are foreign."""
CERTAINTY = 0.9
"""Share of lines from which a language is certain; some are confused with a related language."""
MIN_SCRIPT_SHARE = 0.1
"""Share of letters from which a script belongs to a side."""
MIN_SPREAD = 0.12
"""Lower bound of the spread of log(target / source), so that not every line is an outlier."""
MAD_TO_DEVIATION = 1.4826
"""Standard deviation of a normal distribution whose median absolute deviation is 1."""
LENGTH_SLACK = 8.0
"""Characters added to both sides, so that the ratio of short lines matters little."""

MAX_RATIO = 1e6
"""Largest ratio and spread of a corpus; no corpus comes near it."""

Languages = tuple[str | None, str | None]
"""Codes of the source and target language; None if unknown."""


def _check_votes(votes: Counter[str]) -> Counter[str]:
    if not all(0 <= count <= SAMPLE_SIZE for count in votes.values()):
        raise ValueError(f"expected counts from 0 to {SAMPLE_SIZE:,}")
    return votes


@dataclass(frozen=True)
class SideStatistics:
    """The scripts and languages of one side."""

    scripts: Names
    """Scripts that belong to the side, with the names of `count_scripts`."""
    votes: Annotated[Counter[Name], AfterValidator(_check_votes)]
    """Number of sampled lines in each language, among lines long enough to be identified."""
    declared: LanguageTag | None = None
    """The language code that the user declared for the side, if any."""

    @property
    def likely_language(self) -> str | None:
        """The language of most lines; None if too few were identified."""
        if self.votes.total() < MIN_VOTES:
            return None
        # Of equally frequent languages always the same one, whatever the order of the lines.
        return max(self.votes, key=lambda code: (self.votes[code], code))

    @property
    def share(self) -> float:
        """The share of the likely language among the lines that were identified."""
        return self.votes[self.likely_language or ""] / max(1, self.votes.total())

    @property
    def language(self) -> str | None:
        """The language of a large majority of the lines; None if there is no such majority.

        None, too, if the declared language cannot be identified: py3langid would report a related
        language instead.
        """
        can_be_identified = self.declared is None or is_supported(self.declared)
        return self.likely_language if can_be_identified and self.share > MAJORITY else None

    @property
    def is_spaced(self) -> bool:
        """Whether the scripts separate words by spaces."""
        return not self.scripts & UNSPACED_SCRIPTS


@dataclass(frozen=True)
class CorpusStatistics:
    """The usual length ratio, scripts and languages of a corpus."""

    source: SideStatistics
    target: SideStatistics
    ratio: Annotated[float, Field(ge=1 / MAX_RATIO, le=MAX_RATIO)]
    """Median of target length / source length, in characters."""
    spread: Annotated[float, Field(ge=1 / MAX_RATIO, le=MAX_RATIO)]
    """Standard deviation of the log ratio, estimated from its median absolute deviation."""
    sample: NotStored[tuple[Pair, ...]] = field(default=(), repr=False, compare=False)
    """The distinct pairs that the statistics were computed from, in the order of their hashes.

    Of long pairs, only the beginnings.
    """
    held_out: NotStored[AbstractSet[int]] = field(default=frozenset(), repr=False)
    """Keys of text that training should not contain, as `held_out_keys` returns them."""

    def length_deviation(self, source: int, target: int) -> float:
        """Return how many standard deviations the length ratio differs from the median."""
        return _deviation(source, target, self.ratio) / self.spread


def compute_statistics(
    pairs: Iterable[Pair], languages: Languages = (None, None)
) -> CorpusStatistics:
    """Return the statistics of pairs that fit into memory; `languages`: declared codes."""
    pairs_by_hash: dict[int, Pair] = {}
    for pair in pairs:
        if not pair.blank:
            pairs_by_hash.setdefault(hash_of(pair), pair)
    smallest = sorted(pairs_by_hash)[:SAMPLE_SIZE]
    return _statistics_of([pairs_by_hash[key] for key in smallest], languages)


def statistics_by_corpus(
    rows: CorpusRows, languages: Languages = (None, None)
) -> list[CorpusStatistics]:
    """Return the statistics of each corpus; `languages`: declared codes."""
    statistics: list[CorpusStatistics] = []
    for corpus in range(len(rows.corpora)):
        statistics.append(_statistics_of(rows.sample_of(corpus, SAMPLE_SIZE), languages))
    return statistics


def _statistics_of(pairs: list[Pair], languages: Languages) -> CorpusStatistics:
    sample = [_beginning_of(pair) for pair in pairs]
    declared_source, declared_target = languages
    lengths = [(len(pair.source), len(pair.target)) for pair in sample]
    if not lengths:  # all pairs are blank
        lengths = [(1, 1)]
    ratio = median(target / source for source, target in lengths)
    deviations = [_deviation(source, target, ratio) for source, target in lengths]
    return CorpusStatistics(
        source=_side_statistics([pair.source for pair in sample], declared_source),
        target=_side_statistics([pair.target for pair in sample], declared_target),
        ratio=ratio,
        spread=max(MIN_SPREAD, median(deviations) * MAD_TO_DEVIATION),
        sample=tuple(sample),
    )


def _beginning_of(pair: Pair) -> Pair:
    """Return the pair with both sides cut by the same factor, so that their ratio is kept."""
    longest = max(len(pair.source), len(pair.target))
    if longest <= MAX_SAMPLED_CHARACTERS:
        return pair
    factor = MAX_SAMPLED_CHARACTERS / longest
    # Rounded up, so that no side becomes blank.
    source_length = math.ceil(factor * len(pair.source))
    target_length = math.ceil(factor * len(pair.target))
    return pair._replace(
        source=pair.source[:source_length],
        target=pair.target[:target_length],
    )


def _side_statistics(lines: list[str], declared: str | None) -> SideStatistics:
    counts = count_scripts("".join(lines))
    min_letters = MIN_SCRIPT_SHARE * counts.total()
    scripts = frozenset(script for script, count in counts.items() if count >= min_letters)
    return SideStatistics(scripts=scripts, votes=count_languages(lines), declared=declared)


def _deviation(source: int, target: int, ratio: float) -> float:
    """Return the absolute log of the length ratio divided by the usual ratio.

    First both sides are scaled to the longer language, so that the slack has the same effect.
    """
    scaled_source = source * max(ratio, 1.0)
    scaled_target = target * max(1 / ratio, 1.0)
    return abs(math.log((scaled_target + LENGTH_SLACK) / (scaled_source + LENGTH_SLACK)))
