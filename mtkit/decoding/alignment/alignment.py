"""The alignment of a line: hard as links, soft as weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
from jaxtyping import Float

from mtkit.decoding.alignment.links import Links, align
from mtkit.decoding.alignment.words import merge

DIGITS = 4
"""Of a soft alignment; what is 0 in as many is left out."""


@dataclass(frozen=True, eq=False)
class Block:
    """Some consecutive source words, and target words, and the weights between them."""

    source: int
    """The first of the source words."""
    target: int
    weights: Float[np.ndarray, "J I"]
    """Of each target word to the source words; rows sum to 1."""


@dataclass(frozen=True)
class Alignment:
    """Which words of a line and of its translation belong together; a block for each part."""

    blocks: tuple[Block, ...] = ()

    @classmethod
    def of(
        cls,
        attention: Float[np.ndarray, "T S"],
        target_words: Sequence[int],
        source_words: Sequence[int],
    ) -> Alignment:
        """From weights between subwords and the number of each subword's word; none of EOS."""
        source, target = min(source_words), min(target_words)
        weights = merge(
            attention,
            [word - target for word in target_words],
            [word - source for word in source_words],
        )
        tiny = np.finfo(weights.dtype).tiny
        return cls((Block(source, target, weights / weights.sum(1, keepdims=True).clip(min=tiny)),))

    @classmethod
    def joined(cls, parts: Iterable[tuple[Alignment, int]]) -> Alignment:
        """Of consecutive parts, each with the number of its first target word in the whole."""
        return cls(
            tuple(
                replace(block, target=block.target + first)
                for part, first in parts
                for block in part.blocks
            )
        )

    @property
    def links(self) -> Links:
        """Source word and target word."""
        return set(
            chain.from_iterable(
                ((block.source + i, block.target + j) for i, j in align(block.weights))
                for block in self.blocks
            )
        )

    @property
    def weights(self) -> list[tuple[int, int, float]]:
        """Source word, target word, and the share of the latter's attention that the former got."""
        found = []
        for block in self.blocks:
            rounded = block.weights.round(DIGITS)
            for j, i in np.argwhere(rounded).tolist():
                found.append(
                    (block.source + i, block.target + j, round(float(rounded[j, i]), DIGITS))
                )
        return found
