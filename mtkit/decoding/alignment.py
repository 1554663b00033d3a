"""Word alignments from attention between subwords.

A soft alignment has weights between words; a hard one has links (i, j) from source word i to target
word j, numbered from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Links = set[tuple[int, int]]

_NEIGHBOURS = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)]


@dataclass(frozen=True, eq=False)
class Block:
    """The alignment of consecutive source words with consecutive target words."""

    source: int
    """Number of the first source word in the line."""
    target: int
    """Number of the first target word in the translation."""
    weights: Float[np.ndarray, "J I"]
    """Attention of each target word to each source word; rows sum to 1."""

    @classmethod
    def of(
        cls, attention: Float[np.ndarray, "T S"], target: Sequence[int], source: Sequence[int]
    ) -> Block:
        """Return a block, from attention between subwords without EOS and the word of each."""
        first = min(source), min(target)
        words = [[word - min(side) for word in side] for side in (target, source)]
        weights = merge(attention, *words)
        tiny = np.finfo(weights.dtype).tiny
        return cls(*first, weights / weights.sum(1, keepdims=True).clip(min=tiny))

    @property
    def links(self) -> Links:
        return {
            (self.source + i, self.target + j) for i, j in symmetrise(*best_links(self.weights))
        }


def soft_links(blocks: Sequence[Block]) -> list[tuple[int, int, float]]:
    """Return triples of source word, target word, and weight, without weights that round to 0."""
    return [
        (block.source + i, block.target + j, weight)
        for block in blocks
        for (j, i), share in np.ndenumerate(block.weights)
        if (weight := round(float(share), 4))
    ]


def merge(
    weights: Float[np.ndarray, "*of T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[np.ndarray, "*of J I"]:
    """Return weights between words, from weights between subwords and the word of each subword.

    Sum over the source subwords of a word, and average over its target subwords.
    """
    rows, columns = (
        np.eye(max(words) + 1, dtype=np.float32)[list(words)]
        for words in (target_words, source_words)
    )
    merged: np.ndarray = (rows / rows.sum(axis=0).clip(min=1)).T @ weights @ columns
    return merged


def best_links(weights: Float[np.ndarray, "J I"]) -> tuple[Links, Links]:
    """Link each target word to its best source word, and the reverse; words need some weight."""
    forward = {(i, j) for j, i in enumerate(weights.argmax(axis=1).tolist()) if weights[j, i] > 0}
    backward = {(i, j) for i, j in enumerate(weights.argmax(axis=0).tolist()) if weights[j, i] > 0}
    return forward, backward


def symmetrise(forward: Links, backward: Links) -> Links:
    """Merge the links of two directions by grow-diag (Koehn et al. 2003).

    Start from the intersection. As long as possible, add a link of the union that is next to an
    added one (also diagonally) and aligns a word without a link.
    """
    links = forward & backward
    is_growing = True
    while is_growing:
        is_growing = False
        for i, j in sorted((forward | backward) - links):
            is_new = all(i != other for other, _ in links) or all(j != other for _, other in links)
            if is_new and any((i + di, j + dj) in links for di, dj in _NEIGHBOURS):
                links.add((i, j))
                is_growing = True
    return links
