"""Pack pairs: lay the sentences of a batch end to end, in one of few shapes.

Most of a model treats every token alike, so it needs no rectangle: it reads the tokens of a side
end to end. Attention and LSTMs need rows; `Packed` says where each token lies in these.

Kernels, memory and graphs are chosen once per shape, so all sizes are rounded up. Tokens keep more
significant bits than rows and widths, because most of a model computes on tokens only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOKEN_BITS, ROW_BITS, WIDTH_BITS = 5, 4, 3
"""Significant bits to which the numbers of tokens and rows, and the widths, are rounded up."""
MIN_WIDTH_STEP = 4

Ints = NDArray[np.int64]


def round_up(count: int, bits: int, step: int = 1) -> int:
    """Return the smallest number from `count` on with at most `bits` significant bits.

    It is a multiple of `step`, a power of two.
    """
    step = max(step, 1 << max(0, (count - 1).bit_length() - bits))
    return -(-count // step) * step


def padded_tokens(tokens: int) -> int:
    """Return the number of tokens of one side with padding, of which there is at least one."""
    return round_up(tokens + 1, TOKEN_BITS)


def width_for(longest: int) -> int:
    """Return the width of rows for sentences that have up to `longest` tokens."""
    return round_up(longest, WIDTH_BITS, MIN_WIDTH_STEP)


@dataclass(frozen=True)
class Places:
    """Where k pairs lie in two rectangles of one shape: sources in one, targets in the other.

    Source and target of a pair are in the same row.
    """

    rows: int
    width: int
    row: Ints
    """(k,): the row of each pair."""
    column: Ints
    """(k, 2): the first column of its source and of its target."""
    are_shared: bool
    """Whether a row may hold several pairs."""


def place_pairs(lengths: Ints, min_width: int) -> Places:
    """Place pairs of (k, 2) lengths in rows as wide as the longest sentence, at least `min_width`.

    If `min_width` is 0, every pair has a row of its own. Otherwise rows are shared: they are filled
    one after the other with whole pairs, in order. The last row is empty, for padding.
    """
    width = width_for(max(min_width, int(lengths.max(initial=1))))
    row, column = np.arange(len(lengths)), np.zeros_like(lengths)
    if min_width:
        _share_rows(lengths, width, row, column)
    rows = round_up(int(row.max(initial=-1)) + 2, ROW_BITS)
    return Places(rows, width, row, column, bool(min_width))


def _share_rows(lengths: Ints, width: int, row: Ints, column: Ints) -> None:
    """Fill one row after the other with whole pairs."""
    current = source_end = target_end = 0
    for index, (source, target) in enumerate(lengths.tolist()):
        if source_end + source > width or target_end + target > width:
            current, source_end, target_end = current + 1, 0, 0
        row[index], column[index] = current, (source_end, target_end)
        source_end, target_end = source_end + source, target_end + target
