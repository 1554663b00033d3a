"""Subword sampling: each time a pair is seen, its text is cut into other subwords.

By BPE-dropout (Provilkov et al. 2020) or unigram sampling (Kudo 2018), whichever the tokenizer can.
An epoch comes in portions: the pairs of one are drawn together and then batched by the lengths they
have now, so that batches are as full, and as large, as those of the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Store
from mtkit.config.settings import SubwordSampling
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import Sampler

PORTION_BATCHES = 64
"""Number of planned batches that are drawn together: so many that lengths in a batch differ little.
"""

Side = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Ids of some sequences, laid end to end, and the length of each."""


class DrawnPairs:
    """Pairs in memory, read as those of a store are."""

    def __init__(self, source: Side, target: Side) -> None:
        self.lengths = np.stack([source[1], target[1]], axis=1)
        self._sides = [np.split(ids, lengths.cumsum()[:-1]) for ids, lengths in (source, target)]

    def side(self, rows: NDArray[np.integer], *, target: bool) -> Side:
        """One side of `rows`."""
        lines = self._sides[target]
        return np.concatenate([lines[row] for row in rows]), self.lengths[rows, int(target)]


@dataclass(frozen=True)
class Portion:
    """Batches of an epoch, as rows of `pairs`."""

    pairs: Store | DrawnPairs
    batches: list[Rows]
    share: float
    """The part of the epoch that this portion is, between 0 and 1."""


@dataclass(frozen=True)
class Segmentation:
    """How pairs are cut into subwords: a side with a sampler at random, the other as it is stored.

    Equal for equal seeds; what has become longer than `longest` subwords is not taken.
    """

    source: Sampler | None = None
    target: Sampler | None = None
    longest: int = 0
    seed: int = 0

    @classmethod
    def of(
        cls, settings: SubwordSampling | None, tokenizer: Tokenizer, longest: int, seed: int
    ) -> Segmentation:
        """That of the settings; UserError where the tokenizer knows one segmentation only."""
        if settings is None:
            return AS_STORED
        source, target = tokenizer.samplers(settings.alpha)
        return cls(
            source if settings.sides != "target" else None,
            target if settings.sides != "source" else None,
            longest,
            seed,
        )

    def portions(
        self, store: Store, plan: list[Rows], *, epoch: int, max_tokens: int, at_least: int
    ) -> list[Callable[[], Portion]]:
        """What makes each portion of the epoch `plan`; none but the last is under `at_least`."""
        if self.source is None and self.target is None:
            return [partial(Portion, store, plan, 1.0)]

        def portion(start: int) -> Portion:
            planned = plan[start : start + size]
            rows = np.concatenate(planned)
            name = f"{self.seed}/{epoch}/{start}"
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
            sides = (
                _drawn(store.side(rows, target=place == 1), sampler, 2 * seed + place, longest)
                for place, sampler in enumerate((self.source, self.target))
            )
            pairs = DrawnPairs(*sides)
            batches = plan_epoch(pairs.lengths, max_tokens=max_tokens, seed=seed, epoch=0)
            return Portion(pairs, batches, len(planned) / len(plan))

        size, longest = max(PORTION_BATCHES, at_least), min(self.longest, max_tokens - 1)
        return [partial(portion, start) for start in range(0, len(plan), size)]


AS_STORED = Segmentation()


def _drawn(side: Side, sampler: Sampler | None, seed: int, longest: int) -> Side:
    if sampler is None:
        return side
    ids, lengths = side
    stored = [line.tolist() for line in np.split(ids, lengths.cumsum()[:-1])]
    lines = [
        new if len(new) <= longest else old
        for old, new in zip(stored, sampler(stored, seed), strict=True)
    ]
    return np.array(list(chain(*lines)), np.int64), np.array([len(line) for line in lines])
