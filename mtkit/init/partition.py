"""How `mtkit init` divides a corpus into training, validation and test pairs.

Only the hash of the source decides whether a pair is held out for validation or test, so equal
sources are never both in training and held out. Sources that differ only in case, width, spaces or
punctuation count as equal. As a corpus grows, the held-out share shrinks, so no training pair is
held out later. A held-out pair is dropped if its target occurs in the training data. Pairs with a
text of other sets that measure a model are not trained on.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter, key_of

MAX_HELD_OUT: dict[str, int] = {"valid": 1000, "test": 2500}
"""Most pairs per set; validation gets fewer than the test, because it is repeated in training."""
LEFT_OUT = "left out"
"""The part of pairs in no file, because another set that measures a model has their text."""


def held_out_share(pairs: int, part: str) -> float:
    """Return the share that is held out for a part, in a corpus of `pairs` distinct pairs.

    The largest of: 2%; the share of 250 pairs, at most 5%; the share of 12 pairs, at most 12%.
    It never exceeds MAX_HELD_OUT pairs, and never grows with the number of pairs. The numbers were
    chosen by hand: with 12 pairs expected, chance seldom holds out too few of a small corpus.
    """
    share_of_medium_corpus = min(250 / pairs, 0.05)
    share_of_small_corpus = min(12 / pairs, 0.12)
    share = max(0.02, share_of_medium_corpus, share_of_small_corpus)
    return min(MAX_HELD_OUT[part] / pairs, share)


@dataclass(frozen=True)
class Partition:
    """A rule that assigns each pair of a corpus to training, validation or test."""

    pairs: int
    """Approximate number of distinct pairs."""
    parts: frozenset[str] = frozenset({"valid", "test"})
    held_out: AbstractSet[int] = frozenset()
    """Keys of the validation and test sets of the user, whose text is in no part."""
    untrained: AbstractSet[int] = frozenset()
    """Keys of other text that measures a model: it may be held out, but not be trained on."""
    pair_filter: PairFilter | None = None
    """Rules; a pair that breaks one is not held out."""

    def part_of(self, key: int) -> str:
        """Return the part that sources with this key belong to."""
        # 48 bits, which a float represents exactly.
        point = (key >> 16) / (1 << 48)
        # The two sets are at opposite ends, so that neither moves when the other one shrinks.
        if "test" in self.parts and point < held_out_share(self.pairs, "test"):
            return "test"
        if "valid" in self.parts and point >= 1 - held_out_share(self.pairs, "valid"):
            return "valid"
        return "train"

    def holds_out(self, key: int) -> bool:
        """Return whether sources with this key are held out of training."""
        return self.part_of(key) != "train"

    def divide(self, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Yield pairs with their part: training pairs in order, then the held-out pairs.

        Each source is held out once, with its first suitable target. Pairs that `held_out` or
        `untrained` excludes get the part LEFT_OUT; blank pairs get none.
        Memory: 8 bytes per training pair.
        """
        candidates: dict[int, dict[int, Pair]] = {}
        """For each source that is held out, its pairs, by the key of the target."""
        trained_targets = array("Q")
        for pair in pairs:
            if pair.blank:
                continue
            source = key_of(pair.source)
            target = key_of(pair.target)
            if source in self.held_out or target in self.held_out:
                yield LEFT_OUT, pair
            elif self.holds_out(source):
                # Held-out pairs wait for the end, when all targets of training are known.
                candidates.setdefault(source, {}).setdefault(target, pair)
            elif source in self.untrained or target in self.untrained:
                yield LEFT_OUT, pair
            else:
                trained_targets.append(target)
                yield "train", pair
        overlapping = _find_common(candidates.values(), trained_targets)
        for source, pairs_by_target in candidates.items():
            for target, pair in pairs_by_target.items():
                if target not in overlapping and self.broken_rule(pair) is None:
                    yield self.part_of(source), pair
                    break

    def broken_rule(self, pair: Pair) -> str | None:
        """Return the first rule of the filter that the pair breaks; None if it breaks none."""
        return None if self.pair_filter is None else self.pair_filter.broken_rule(pair)


def _find_common(
    candidates: Iterable[Mapping[int, Pair]], trained_targets: Sequence[int]
) -> set[int]:
    """Return the targets of candidates that training has, too."""
    targets = [target for pairs_by_target in candidates for target in pairs_by_target]
    # numpy needs 8 bytes per target; a set of Python's integers would need ten times as much.
    common = np.intersect1d(np.array(targets, np.uint64), np.array(trained_targets, np.uint64))
    return set(common.tolist())
