"""Word alignments from attention between subwords.

A soft alignment has weights between words; a hard one has links (i, j) from source word i to target
word j, numbered from 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Links = set[tuple[int, int]]

DIGITS = 4
"""Decimals of the weights in soft alignments."""
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
        cls,
        attention: Float[np.ndarray, "T S"],
        target_words: Sequence[int],
        source_words: Sequence[int],
    ) -> Block:
        """Return a block, from attention between subwords without EOS and the word of each."""
        source, target = min(source_words), min(target_words)
        weights = merge(
            attention,
            [word - target for word in target_words],
            [word - source for word in source_words],
        )
        tiny = np.finfo(weights.dtype).tiny
        return cls(source, target, weights / weights.sum(1, keepdims=True).clip(min=tiny))

    @property
    def links(self) -> Links:
        return {
            (self.source + i, self.target + j) for i, j in symmetrise(*best_links(self.weights))
        }


def soft_links(blocks: Sequence[Block]) -> list[tuple[int, int, float]]:
    """Return triples of source word, target word, and weight; those that round to 0 are left out.

    A word that several blocks share, because they were joined without a space, has mean weights.
    """
    rows = [
        (block.target + j, block.source, row)
        for block in blocks
        for j, row in enumerate(block.weights)
        if row.any()
    ]
    parts = Counter(word for word, _, _ in rows)
    shares: defaultdict[tuple[int, int], float] = defaultdict(float)
    for word, first, row in rows:
        for i in np.flatnonzero(row).tolist():
            shares[first + i, word] += float(row[i]) / parts[word]
    rounded = ((i, j, round(share, DIGITS)) for (i, j), share in shares.items())
    return [share for share in rounded if share[2]]


def merge(
    weights: Float[np.ndarray, "*of T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[np.ndarray, "*of J I"]:
    """Return weights between words, from weights between subwords and the word of each subword.

    Source subwords of a word are summed and target subwords averaged, so rows still sum to 1.
    Words without subwords have weight 0.
    """
    rows, columns = (
        np.eye(max(words) + 1, dtype=np.float32)[list(words)]
        for words in (target_words, source_words)
    )
    merged: np.ndarray = (rows / rows.sum(axis=0).clip(min=1)).T @ weights @ columns
    return merged


def best_links(weights: Float[np.ndarray, "J I"]) -> tuple[Links, Links]:
    """Link each target word to its best source word, and each source word to its best target word.

    A word without any weight has no link.
    """
    best_source, best_target = weights.argmax(axis=1).tolist(), weights.argmax(axis=0).tolist()
    return (
        {(i, j) for j, i in enumerate(best_source) if weights[j, i] > 0},
        {(i, j) for i, j in enumerate(best_target) if weights[j, i] > 0},
    )


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
