"""A corpus read once: how many pairs each part gets, a sample of the largest, its letters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mtkit.config.settings import TokenizerSettings
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import hash_of
from mtkit.decoding.casing import has_no_case
from mtkit.decoding.sentences import split_sentences
from mtkit.study.init.split import Part, Split
from mtkit.tokenizer.train import sample_pairs

SAMPLE_PAIRS = 20_000
SEVERAL_SHARE = 0.05
"""From this part of the sources on, a model learns what to do with several sentences."""
CASELESS_SHARE = 0.02
"""From this part of the sources on, it learns what to do with capitals alone, or none."""

Sample = list[tuple[str, str]]


@dataclass(frozen=True)
class Scan:
    """What is known of a corpus that was split."""

    counts: Counter[Part]
    """Of all that has a place, what is dropped among them."""
    learnt: int
    """Number of pairs to learn from, about: without repeats, and what the rules drop."""
    sample: Sample
    """Of these."""
    characters: tuple[int, int]
    """Number of different characters of each side, very rare ones left out."""
    in_both: int
    """The same of both sides together."""
    shared: float
    """The part of the letters of a side that the other has as often; 0 to 1."""


def scan(pairs: Iterable[Pair], split: Split, *, deduplicate: bool = False) -> Scan:
    """All pairs, as `split` places them; `deduplicate`: each is learnt from once."""
    counts: Counter[Part] = Counter()
    met: set[int] = set()
    repeated = 0

    def different() -> Iterator[Pair]:
        nonlocal repeated
        for part, pair in split.place(pairs):
            if pair.blank:
                continue
            counts[part] += 1
            if part != "train":
                continue
            if deduplicate:
                if (key := hash_of(pair)) in met:
                    repeated += 1
                    continue
                met.add(key)
            yield pair

    drawn = sample_pairs(different(), SAMPLE_PAIRS, seed=1)
    sample = _without_faults(drawn, split.pair_filter)
    learnt = round((counts["train"] - repeated) * len(sample) / max(1, len(drawn)))
    source, target = (_characters(pair[side] for pair in sample) for side in (0, 1))
    needed = _needed(source), _needed(target)
    return Scan(counts, learnt, sample, needed, _needed(source + target), _shared(source, target))


def _without_faults(sample: Sample, pair_filter: PairFilter | None) -> Sample:
    if pair_filter is None:
        return sample
    pairs = (Pair(source, target, 0, "", 0) for source, target in sample)
    return [(pair.source, pair.target) for pair in pairs if pair_filter.broken_rule(pair) is None]


def has_single_sentences(sample: Sample, language: str) -> bool:
    """Whether nearly every source is one sentence: such a model leaves a second one out."""
    several = sum(len(split_sentences(source, language)) > 1 for source, _ in sample)
    return several < SEVERAL_SHARE * len(sample)


def has_usual_case(sample: Sample) -> bool:
    """Whether most sources have capitals, and hardly one all in them, or one in each word."""
    capitals = sum(source != source.lower() for source, _ in sample)
    caseless = sum(has_no_case(source) for source, _ in sample)
    return 2 * capitals > len(sample) and caseless < CASELESS_SHARE * len(sample)


def _characters(lines: Iterable[str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in lines:
        found.update(line.casefold())
    return found


def _shared(source: Counter[str], target: Counter[str]) -> float:
    """How alike the letters of two texts are: what their distributions have in common."""
    one, other = (
        {letter: count for letter, count in of.items() if letter.isalpha()}
        for of in (source, target)
    )
    parts = max(1, sum(one.values())), max(1, sum(other.values()))
    alike = (min(one[c] / parts[0], other[c] / parts[1]) for c in one.keys() & other.keys())
    return sum(alike, 0.0)


def _needed(characters: Counter[str]) -> int:
    """Number of the most frequent characters that cover nearly all of the text."""
    left = TokenizerSettings().character_coverage * characters.total()
    for number, (_, count) in enumerate(characters.most_common(), 1):
        left -= count
        if left <= 0:
            return number
    return len(characters)
