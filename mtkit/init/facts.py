"""How `mtkit init` divides a corpus, and what a sample shows.

Only the hash of the source decides whether a pair is held out for validation or test, so equal
sources are never both in training and held out. Sources that differ only in case, width, spaces or
punctuation count as equal. As a corpus grows, the held-out share shrinks, so no training pair is
held out later. A held-out pair is dropped if its target occurs in the training data.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np

from mtkit.config.language_codes import dotless_side
from mtkit.config.locate import flow
from mtkit.config.settings import TokenizerSettings
from mtkit.corpus.check import CorpusReport
from mtkit.corpus.languages import main_script
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter, normalised
from mtkit.corpus.statistics import Languages
from mtkit.decoding.text.case import has_no_case
from mtkit.decoding.text.sentences import learn_abbreviations, split_sentences
from mtkit.init.presets import CorpusFacts

MAX_HELD_OUT: dict[str, int] = {"valid": 1000, "test": 2500}
"""Most pairs per set; validation gets fewer than the test, because it is repeated in training."""


def held_out_share(pairs: int, part: str) -> float:
    """Return the share that is held out for a part, in a corpus of `pairs` distinct pairs.

    The largest of: 2 %; the share of 250 pairs, at most 5 %; the share of 12 pairs, at most 12 %.
    It never exceeds MAX_HELD_OUT pairs, and never grows with the number of pairs.
    """
    small = max(min(250 / pairs, 0.05), min(12 / pairs, 0.12))
    return min(MAX_HELD_OUT[part] / pairs, max(0.02, small))


def key_of(text: str) -> int:
    """Return a 64-bit hash of the words of a text, ignoring case, width, spaces and punctuation."""
    words = normalised(text).encode(errors="replace")
    return int.from_bytes(blake2b(words, digest_size=16).digest()[:8])


@dataclass(frozen=True)
class Split:
    """A rule that assigns each pair of a corpus to training, validation or test."""

    pairs: int
    """Approximate number of distinct pairs."""
    parts: frozenset[str] = frozenset({"valid", "test"})
    held_out: AbstractSet[str] = frozenset()
    """Normalised sources of existing validation and test sets; pairs with them are left out."""
    pair_filter: PairFilter | None = None
    """Rules; a pair that breaks one is not held out."""

    def part_of(self, key: int) -> str:
        """Return the part that sources with this key belong to."""
        point = (key >> 16) / (1 << 48)
        if "test" in self.parts and point < held_out_share(self.pairs, "test"):
            return "test"
        if "valid" in self.parts and point >= 1 - held_out_share(self.pairs, "valid"):
            return "valid"
        return "train"

    def split(self, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Yield pairs with their part: first the training pairs in order, then the held-out pairs.

        Each source is held out once, with its first suitable target. Blank pairs are left out.
        Memory: 8 bytes per training pair.
        """
        candidates: dict[int, dict[int, Pair]] = {}
        trained = array("Q")
        for pair in pairs:
            if pair.blank or (self.held_out and normalised(pair.source) in self.held_out):
                continue
            key, target = key_of(pair.source), key_of(pair.target)
            if self.part_of(key) != "train":
                candidates.setdefault(key, {}).setdefault(target, pair)
            else:
                trained.append(target)
                yield "train", pair
        targets = {target for pairs_by_target in candidates.values() for target in pairs_by_target}
        leaks = set(np.intersect1d(np.array([*targets], np.uint64), np.array(trained)).tolist())
        for key, pairs_by_target in candidates.items():
            usable = (
                pair
                for target, pair in pairs_by_target.items()
                if target not in leaks and not self.is_faulty(pair)
            )
            for pair in islice(usable, 1):
                yield self.part_of(key), pair

    def is_faulty(self, pair: Pair) -> bool:
        """Return whether the pair breaks a rule of the filter."""
        return self.pair_filter is not None and self.pair_filter.broken_rule(pair) is not None


def describe_corpus(
    report: CorpusReport, split: Split, languages: Languages, existing: Mapping[str, int]
) -> tuple[CorpusFacts, list[Pair]]:
    """Return the facts of a corpus, and a sample of the training pairs without faulty ones.

    Counts are estimated from the sample; `existing`: pairs in validation and test sets of the user.
    """
    drawn = report.statistics.sample
    scale = report.distinct_pairs / max(1, len(drawn))
    placed = list(split.split(drawn))
    parts = Counter(part for part, _ in placed)
    counts = {part: round(scale * parts[part]) for part in ("valid", "test")} | dict(existing)
    sample = [pair for part, pair in placed if part == "train" and not split.is_faulty(pair)]
    sources, targets = [pair.source for pair in sample], [pair.target for pair in sample]
    is_joint = main_script(sources) == main_script(targets)
    texts = [sources + targets] if is_joint else [sources, targets]
    abbreviations = learn_abbreviations(sources)
    held_out = [pair for part, pair in placed if part != "train"]
    tried = held_out if len(held_out) >= 100 else [pair for _, pair in placed]
    capitals = sum(source != source.lower() for source in sources)
    caseless = sum(has_no_case(source) for source in sources)
    broken = (f"{rule} ({report.estimate(rule):,})" for rule in report.drop)
    is_cased = 2 * capitals > len(sources) and caseless < 0.02 * len(sources)
    settings = {
        "deduplicate": "true" if report.repeated.count else None,
        "drop": flow([*report.drop]) if report.drop else None,
        "broken_rules": ", ".join(broken),
        "sentences": _splitting_language(tried, languages, abbreviations),
        "abbreviations": flow(" ".join(sorted(abbreviations))) if abbreviations else None,
        "truecase": "true" if is_cased else None,
        "dotless_i": dotless_side(*languages) if is_cased else None,
    }
    facts = CorpusFacts(
        pairs=round(scale * len(sample)),
        valid=counts["valid"],
        test=counts["test"],
        is_joint=is_joint,
        characters=max(map(count_frequent, texts)),
        settings=settings,
    )
    return facts, sample


def _splitting_language(
    pairs: Sequence[Pair], languages: Languages, abbreviations: Container[str]
) -> str | None:
    """Return the language whose rules split sources into sentences, or None to split none.

    If 5 % of the lines have several sentences, the model learns such lines itself. The split is
    wrong if most of their targets are single sentences.
    """
    source, target = languages
    several = [it for it in pairs if len(split_sentences(it.source, source, abbreviations)) > 1]
    right = sum(len(split_sentences(pair.target, target or source)) > 1 for pair in several)
    return source if len(several) < 0.05 * len(pairs) and 2 * right >= len(several) else None


def count_frequent(lines: Iterable[str]) -> int:
    """Return how many of the most frequent characters cover the share that a tokenizer needs."""
    characters = Counter("".join(lines).casefold())
    counts = np.cumsum([count for _, count in characters.most_common()])
    needed = TokenizerSettings().character_coverage * characters.total()
    return int(np.searchsorted(counts, needed)) + 1
