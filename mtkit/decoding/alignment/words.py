"""Words are what white space separates; what is known of subwords becomes known of words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

_WORD = re.compile(r"\S+")


class Words:
    """The words of a text, as `str.split` has them, found by their place in it."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def __len__(self) -> int:
        return len(self._ends)

    def at(self, offset: int) -> int:
        """The number of the word at a character, or of the next word, or else of the last."""
        return min(bisect_right(self._ends, offset), len(self) - 1)


def merge(
    weights: Float[np.ndarray, "*of T S"], target_words: Sequence[int], source_words: Sequence[int]
) -> Float[np.ndarray, "*of J I"]:
    """Weights between subwords as weights between words, given the number of each subword's word.

    A source word gets the sum of what its subwords get, a target word gives the mean of what its
    subwords give: rows that summed to 1 still do. Words without subwords have weight 0.
    """
    rows, columns = _membership(target_words), _membership(source_words)
    merged: np.ndarray = (rows / rows.sum(axis=0).clip(min=1)).T @ weights @ columns
    return merged


def _membership(words: Sequence[int]) -> Float[np.ndarray, "P W"]:
    return np.eye(max(words) + 1, dtype=np.float32)[list(words)]
