"""Word alignments from attention: links (i, j) from source word i to target word j."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

Links = set[tuple[int, int]]

_NEIGHBOURS = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)]
"""Offsets of the links next to a link, also diagonally, and of the link itself."""


def align(
    attention: Float[np.ndarray, "T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Links:
    """Return links between words, from the attention of T target to S source subwords, without EOS.

    `target_words` and `source_words`: for each subword, the number of its word.
    """
    # Words before the first one of the source would only be empty columns.
    first = min(source_words)
    weights = merge(attention, target_words, [word - first for word in source_words])
    links = symmetrise(*best_links(weights))
    return {(first + i, j) for i, j in links}


def merge(
    weights: Float[np.ndarray, "*of T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[np.ndarray, "*of J I"]:
    """Return weights of J target to I source words, from weights of T target to S source subwords.

    Sum over the subwords of a source word, and average over the subwords of a target word.
    """
    rows = _one_hot(target_words)  # (T, J)
    columns = _one_hot(source_words)  # (S, I)
    subwords = rows.sum(axis=0).clip(min=1)  # of each target word; a word may have none
    mean_over_rows = (rows / subwords).T  # (J, T)
    merged: np.ndarray = mean_over_rows @ weights @ columns
    return merged


def _one_hot(words: Sequence[int]) -> Float[np.ndarray, "N W"]:
    """Return a row for each subword, which is 1 in the column of its word and else 0."""
    identity = np.eye(max(words) + 1, dtype=np.float32)
    return identity[list(words)]


def sharpen(
    weights: Float[np.ndarray, "J I"], power: float, rounds: int
) -> Float[np.ndarray, "J I"]:
    """Return weights of which each row sums to 1, and all columns have nearly the same sum.

    The powers of the weights are divided by the sums of their columns and their rows in turn
    (Sinkhorn 1964). So no source word takes part in all links, as the first or the last word often
    does in attention.
    """
    smallest = 1e-6  # in place of a weight of 0, whose row could be empty
    shares: Float[np.ndarray, "J I"] = (
        weights / weights.max(axis=1, keepdims=True).clip(min=smallest)
    ).clip(min=smallest)
    shares = shares.astype(np.float64) ** power
    for _ in range(rounds):
        shares /= shares.sum(axis=0, keepdims=True)
        shares /= shares.sum(axis=1, keepdims=True)
    return shares


def best_links(weights: Float[np.ndarray, "J I"]) -> tuple[Links, Links]:
    """Link each target word to its best source word, and each source word to its best target word.

    First the weights of each target word are divided by their sum. Weights of 0 give no links.
    """
    smallest = np.finfo(weights.dtype).tiny  # in place of a sum of 0, so that 0 / 0 becomes 0
    weights = weights / weights.sum(axis=1, keepdims=True).clip(min=smallest)
    forward = {(i, j) for j, i in _find_largest(weights)}
    backward = set(_find_largest(weights.T))
    return forward, backward


def _find_largest(weights: Float[np.ndarray, "J I"]) -> Iterator[tuple[int, int]]:
    """Yield the place of the largest weight of each row that has any."""
    for row, column in enumerate(weights.argmax(axis=1).tolist()):
        if weights[row, column] > 0:
            yield row, column


def symmetrise(forward: Links, backward: Links) -> Links:
    """Merge the links of two directions by grow-diag (Koehn et al. 2003).

    Start with the links that both directions have. As long as possible, add a link of one direction
    if it is next to a link of the result (also diagonally) and one of its words has no link yet.
    """
    links = forward & backward
    is_growing = True
    while is_growing:
        is_growing = False
        for i, j in sorted((forward | backward) - links):
            is_adjacent = any((i + di, j + dj) in links for di, dj in _NEIGHBOURS)
            if not is_adjacent:
                continue
            is_source_free = all(i != linked for linked, _ in links)
            if is_source_free or all(j != linked for _, linked in links):
                links.add((i, j))
                is_growing = True
    return links
