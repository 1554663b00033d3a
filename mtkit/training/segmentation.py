"""Subword sampling: each time a pair is seen, its text is cut into other subwords.

By BPE-dropout (Provilkov et al. 2020) or unigram sampling (Kudo 2018), whichever the tokenizer can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from mtkit.config import Config
from mtkit.tokenizer import Sampler, Tokenizer
from mtkit.training.loader import Segmentation, Side, as_stored


def segmentations(config: Config, tokenizer: Tokenizer) -> Callable[[int], Segmentation]:
    """From the seed of a batch to its segmentation: as it is stored, unless sampling is set."""
    settings = config.training.subword_sampling
    if settings is None:
        return lambda seed: as_stored
    source, target = tokenizer.samplers(settings.alpha)
    return partial(
        Resampled,
        source if settings.sides != "target" else None,
        target if settings.sides != "source" else None,
        config.batching.max_length,
    )


@dataclass(frozen=True)
class Resampled:
    """A segmentation at random, equal for equal seeds; one longer than `longest` is not taken."""

    source: Sampler | None
    target: Sampler | None
    longest: int
    seed: int

    def __call__(self, source: Side, target: Side) -> tuple[Side, Side]:
        return (
            self._drawn(source, self.source, 2 * self.seed),
            self._drawn(target, self.target, 2 * self.seed + 1),
        )

    def _drawn(self, side: Side, sampler: Sampler | None, seed: int) -> Side:
        if sampler is None:
            return side
        ids, lengths = side
        stored = [line.tolist() for line in np.split(ids, lengths.cumsum()[:-1])]
        lines = [
            new if len(new) <= self.longest else old
            for old, new in zip(stored, sampler(stored, seed), strict=True)
        ]
        return np.array(list(chain(*lines)), np.int64), np.array([len(line) for line in lines])
