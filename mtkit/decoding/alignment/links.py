"""Word alignments: sets of links (i, j) from source word i to target word j, counted from 0.

They are written as Pharaoh, fast_align and Marian write them: `0-0 1-2 2-1`.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float

Links = set[tuple[int, int]]

_AROUND = [(di, dj) for di in (-1, 0, 1) for dj in (-1, 0, 1)]


def align(weights: Float[np.ndarray, "J I"]) -> Links:
    """The best links of both directions, symmetrised."""
    return symmetrise(*best_links(weights))


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


def to_pharaoh(alignment: Iterable[tuple[int, int]]) -> str:
    """In order of the source words."""
    return " ".join(f"{i}-{j}" for i, j in sorted(alignment))
