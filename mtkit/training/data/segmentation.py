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
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Store
from mtkit.config.settings import SubwordSampling
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import Sampler
from mtkit.training.data.loader import Pairs, Side

PORTION_BATCHES = 64
"""Number of planned batches that are drawn together: so many that lengths in a batch differ little.
"""


@dataclass(frozen=True)
class Portion:
    """Batches of an epoch, as rows of `pairs`."""

    pairs: Pairs
    batches: list[Rows]
    share: float
    """The part of the epoch that this portion is, between 0 and 1."""


@runtime_checkable
class Segmentation(Protocol):
    """How the pairs of an epoch are cut into subwords."""

    def __call__(
        self, store: Store, plan: list[Rows], *, epoch: int, max_tokens: int, at_least: int
    ) -> list[Callable[[], Portion]]:
        """What makes each portion of the epoch `plan`; none but the last is under `at_least`."""


def as_stored(
    store: Store, plan: list[Rows], *, epoch: int, max_tokens: int, at_least: int
) -> list[Callable[[], Portion]]:
    """All of the epoch, as it is."""
    return [partial(Portion, store, plan, 1.0)]


def segmentation_of(
    settings: SubwordSampling | None, tokenizer: Tokenizer, *, longest: int, seed: int
) -> Segmentation:
    """As it is stored, unless sampling is set; then no side is drawn of over `longest` subwords."""
    if settings is None:
        return as_stored
    source, target = tokenizer.samplers(settings.alpha)
    return Resampled(
        source if settings.sides != "target" else None,
        target if settings.sides != "source" else None,
        longest,
        seed,
    )


@dataclass(frozen=True)
class Resampled:
    """At random, equal for equal seeds; one of over `longest` subwords is not taken."""

    source: Sampler | None
    target: Sampler | None
    longest: int
    seed: int

    def __call__(
        self, store: Store, plan: list[Rows], *, epoch: int, max_tokens: int, at_least: int
    ) -> list[Callable[[], Portion]]:
        size = max(PORTION_BATCHES, at_least)
        return [
            partial(
                self._portion,
                store,
                plan[start : start + size],
                f"{self.seed}/{epoch}/{start}",
                max_tokens,
                len(plan),
            )
            for start in range(0, len(plan), size)
        ]

    def _portion(
        self, store: Store, planned: list[Rows], name: str, max_tokens: int, of: int
    ) -> Portion:
        rows = np.concatenate(planned)
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        longest = min(self.longest, max_tokens - 1)
        drawn = DrawnPairs(
            _drawn(store.side(rows, target=False), self.source, 2 * seed, longest),
            _drawn(store.side(rows, target=True), self.target, 2 * seed + 1, longest),
        )
        batches = plan_epoch(drawn.lengths, max_tokens=max_tokens, seed=seed, epoch=0)
        return Portion(drawn, batches, len(planned) / of)


class DrawnPairs:
    """Pairs in memory, read as those of a store are."""

    def __init__(self, source: Side, target: Side) -> None:
        self.lengths = np.stack([source[1], target[1]], axis=1)
        self._sides = [np.split(ids, lengths.cumsum()[:-1]) for ids, lengths in (source, target)]

    def side(self, rows: NDArray[np.integer], *, target: bool) -> Side:
        """Ids of one side of `rows`, laid end to end, and the length of each."""
        lines = self._sides[target]
        return np.concatenate([lines[row] for row in rows]), self.lengths[rows, int(target)]


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
