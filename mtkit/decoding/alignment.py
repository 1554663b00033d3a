"""Alignments: which word of a line each word of its translation comes from.

They are soft as weights between words, which attention between subwords becomes, and hard as links
(i, j) from source word i to target word j, counted from 0.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Links = set[tuple[int, int]]

DIGITS = 4
"""Of a soft alignment; what is 0 in as many is left out."""
_AROUND = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)]


@dataclass(frozen=True, eq=False)
class Block:
    """The alignment of some consecutive source words with some consecutive target words."""

    source: int
    """The first of the source words."""
    target: int
    weights: Float[np.ndarray, "J I"]
    """Of each target word to the source words; rows sum to 1."""

    @classmethod
    def of(
        cls,
        attention: Float[np.ndarray, "T S"],
        target_words: Sequence[int],
        source_words: Sequence[int],
    ) -> Block:
        """From weights between subwords and the number of each subword's word; none of EOS."""
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
    """Source word, target word, and the share of the latter's attention that the former got.

    Parts that are joined without a space may end and begin one word: all have the same say in it.
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
    """Weights between subwords as weights between words, given the number of each subword's word.

    A source word gets the sum of what its subwords get, a target word gives the mean of what its
    subwords give: rows that summed to 1 still do. Words without subwords have weight 0.
    """
    rows, columns = (
        np.eye(max(words) + 1, dtype=np.float32)[list(words)]
        for words in (target_words, source_words)
    )
    merged: np.ndarray = (rows / rows.sum(axis=0).clip(min=1)).T @ weights @ columns
    return merged


def best_links(weights: Float[np.ndarray, "J I"]) -> tuple[Links, Links]:
    """From each target word to its best source word, and from each source word the other way.

    A word without any weight has no link.
    """
    best_source, best_target = weights.argmax(axis=1).tolist(), weights.argmax(axis=0).tolist()
    return (
        {(i, j) for j, i in enumerate(best_source) if weights[j, i] > 0},
        {(i, j) for i, j in enumerate(best_target) if weights[j, i] > 0},
    )


def symmetrise(forward: Links, backward: Links) -> Links:
    """grow-diag, Koehn et al. 2003: the links of both, and what of either grows out of them.

    A link is added beside one that is there, diagonals included, if it aligns a word that has no
    link yet; until there is none to add.
    """
    found = forward & backward
    is_growing = True
    while is_growing:
        is_growing = False
        for i, j in sorted((forward | backward) - found):
            is_new = all(i != other for other, _ in found) or all(j != other for _, other in found)
            if is_new and any((i + di, j + dj) in found for di, dj in _AROUND):
                found.add((i, j))
                is_growing = True
    return found
