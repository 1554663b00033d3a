"""Which pairs are held out for validation and test.

The hash of the source decides alone, so that equal sources are never on both sides. Sources that
differ only in case, width, spaces or punctuation count as equal. As a corpus grows, the share held
out shrinks: no pair that was trained on is held out later.

A pair is also left out of both sets if its target occurs in the training data, as it would leak.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import numpy as np

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter, normalised

MAX_HELD_OUT: dict[str, int] = {"valid": 1000, "test": 2500}
"""Validation is repeated during training, so it gets fewer pairs than the test."""


def held_out_share(pairs: int, part: str) -> float:
    """Return the share of a corpus of so many distinct pairs that is held out for a part.

    The share is 2 %, or as much as gives 250 pairs but no more than 5 %, or as much as gives 12
    pairs but no more than 12 %. It never grows with the number of pairs.
    """
    small = max(min(250 / pairs, 0.05), min(12 / pairs, 0.12))
    return min(MAX_HELD_OUT[part] / pairs, max(0.02, small))


def key_of(text: str) -> bytes:
    """Return a hash of the words of a text, whatever their case, width, spaces and punctuation."""
    return blake2b(normalised(text).encode(errors="replace"), digest_size=16).digest()


@dataclass(frozen=True)
class Split:
    """A rule that assigns each pair of a corpus to training, validation or test."""

    pairs: int
    """Number of distinct pairs, about."""
    parts: frozenset[str] = frozenset({"valid", "test"})
    """Parts to hold out."""
    excluded: frozenset[bytes] = frozenset()
    """Keys of the sources of other validation and test sets: no pair of theirs is used."""
    pair_filter: PairFilter | None = None
    """Pairs that break one of its rules are not held out."""
    train_share: float = 1.0
    """Random share of the other pairs to train on."""

    def part_of(self, key: bytes) -> str:
        """Return the part that sources with this key belong to."""
        point = int.from_bytes(key[:6]) / (1 << 48)
        if "test" in self.parts and point < held_out_share(self.pairs, "test"):
            return "test"
        if "valid" in self.parts and point >= 1 - held_out_share(self.pairs, "valid"):
            return "valid"
        return "train"

    def split(self, pairs: Iterable[Pair]) -> Iterator[tuple[str, Pair]]:
        """Yield pairs with their part, those for training in order and then the others.

        Each source is held out once, with the first of its targets that can serve. Blank pairs are
        left out. Memory: 8 bytes per training pair.
        """
        candidates: dict[bytes, dict[int, Pair]] = {}
        trained = array("Q")
        for pair in pairs:
            key = key_of(pair.source)
            if pair.blank or key in self.excluded:
                continue
            target = int.from_bytes(key_of(pair.target)[:8])
            if self.part_of(key) != "train":
                candidates.setdefault(key, {}).setdefault(target, pair)
            elif int.from_bytes(key[6:12]) < self.train_share * (1 << 48):
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
