"""Which pairs are held out for validation and for the test: a function of the source alone.

A source is known by its words, whatever their case: what differs in punctuation alone is on the
same side as well. Its hash is a point between 0 and 1. Those below a bound are for the
test, those above another for validation, and as a corpus grows the bounds move outwards only: what
was trained on is never held out later.

A target that some other source in training has is no test either, however new its own source is:
such a pair is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter, normalised

Part = Literal["train", "valid", "test"]

FEWEST_PAIRS = 50
"""Number of pairs of which some can be held out and some learnt from."""
SHARE, SMALL_SHARE = 0.02, 0.05
"""The part held out for each of the two; of a small corpus more, to have enough to tell by."""
TINY, TINY_SHARE = 12, 0.12
"""Number of pairs, as chance has it, of which there are not too few; the part they may be."""
ENOUGH = 250
"""Number of pairs that tell how good a model is."""
MOST: dict[Part, int] = {"valid": 1000, "test": 2500}
"""Number of pairs that tell it exactly; validation is done again and again."""


def held_out_share(pairs: int, part: Part) -> float:
    """The share of a corpus that is held out for a part.

    2 % of the pairs, and 250 at least, but 5 % where that is less, or 12 pairs of some hundred; at
    most MOST. Never grows with the number of pairs.
    """
    few = max(min(ENOUGH / pairs, SMALL_SHARE), min(TINY / pairs, TINY_SHARE))
    return min(MOST[part] / pairs, max(SHARE, few))


def key_of(text: str) -> bytes:
    """Equal for texts that differ in case, width, spaces and punctuation alone."""
    return blake2b(normalised(text).encode(errors="replace"), digest_size=16).digest()


def point_of(key: bytes) -> float:
    """Between 0 and 1, 1 left out."""
    return int.from_bytes(key[:6]) / (1 << 48)


@dataclass(frozen=True)
class Split:
    """Places each pair of a corpus of about `pairs` pairs.

    `wanted`: the parts that are to be held out. `taken`: keys of sources that are held out already,
    and hence no part of training. `pair_filter`: the rules of `batching.drop`; what they drop is
    held out for nothing, as no translation could be told by it. `learnt`: keys of targets that are
    held out for nothing either, as training has them. Of equal sources that are held out the first
    such pair is kept.
    """

    pairs: int
    wanted: frozenset[Part] = frozenset({"valid", "test"})
    taken: frozenset[bytes] = frozenset()
    pair_filter: PairFilter | None = None
    learnt: frozenset[bytes] = frozenset()

    def without_learnt(self, read: Callable[[], Iterable[Pair]]) -> Split:
        """The same, but that it holds out no target of training; reads the corpus twice."""
        if not self.wanted:
            return self
        held_out = {
            key_of(pair.target) for pair in read() if self.part_of(key_of(pair.source)) != "train"
        }
        learnt = (key_of(pair.target) for part, pair in self.place(read()) if part == "train")
        return replace(self, learnt=frozenset(held_out.intersection(learnt)))

    def part_of(self, key: bytes) -> Part:
        """Where sources of this key belong."""
        point = point_of(key)
        if "test" in self.wanted and point < held_out_share(self.pairs, "test"):
            return "test"
        if "valid" in self.wanted and point >= 1 - held_out_share(self.pairs, "valid"):
            return "valid"
        return "train"

    def place(self, pairs: Iterable[Pair]) -> Iterator[tuple[Part, Pair]]:
        """Every pair, in order, but those of which only the source is held out."""
        met: set[bytes] = set()
        for pair in pairs:
            key = key_of(pair.source)
            part = self.part_of(key)
            if key in self.taken:
                continue
            if part != "train":
                if key in met or not self._tells(pair):
                    continue
                met.add(key)
            yield part, pair

    def _tells(self, pair: Pair) -> bool:
        """Whether a translation can be told by a pair."""
        if key_of(pair.target) in self.learnt:
            return False
        if pair.blank:
            return False
        return self.pair_filter is None or self.pair_filter.broken_rule(pair) is None


def is_among(share: float, key: bytes) -> bool:
    """Whether pairs of this key are in a part of so large a share, however it is held out."""
    return int.from_bytes(key[6:12]) < share * (1 << 48)
