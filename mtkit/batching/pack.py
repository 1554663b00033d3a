"""Pack pairs: lay the sentences of a batch end to end, and round up their numbers.

Most of a model treats every token alike, so it needs no padded rows: it reads the tokens of a side
end to end. Only attention and LSTMs need rows; `Packed` maps each token to its place in a row.

Kernels, memory and graphs are chosen once per shape, so all sizes are rounded up: then few shapes
occur. The number of tokens is rounded less than rows and widths, because most of a model computes
on tokens only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

TOKEN_BITS = 5
"""Significant bits of the number of tokens: 32, 33, 34, 35 become 32, 34, 34, 36."""
ROW_BITS = 4
"""Significant bits of the number of rows."""
WIDTH_BITS = 3
"""Significant bits of the width of rows."""
MIN_WIDTH_STEP = 4
"""Widths are multiples of this."""

Ints = NDArray[np.int64]


def round_up(count: int, bits: int, step: int = 1) -> int:
    """Return the smallest number ≥ `count` that has at most `bits` significant bits.

    The result is a multiple of `step`, a power of two.
    """
    # Of count - 1, because a power of two has one bit more than the number before it.
    dropped_bits = max(0, (count - 1).bit_length() - bits)
    step = max(step, 1 << dropped_bits)
    return -(-count // step) * step  # -(-a // b) rounds up


def padded_tokens(tokens: int) -> int:
    """Return the number of tokens of one side after padding with at least one token."""
    return round_up(tokens + 1, TOKEN_BITS)


def width_for(longest: int) -> int:
    """Return the row width for sentences of up to `longest` tokens."""
    return round_up(longest, WIDTH_BITS, MIN_WIDTH_STEP)


@dataclass(frozen=True)
class Places:
    """Where k pairs lie in padded rows, one matrix of rows for sources and one for targets.

    Both matrices have the same shape, and source and target of a pair the same row number.
    """

    rows: int
    width: int
    row: Ints
    """(k,): the row of each pair."""
    column: Ints
    """(k, 2): the first column of each pair's source and target."""
    are_shared: bool
    """Whether a row may hold several pairs."""


def place_pairs(lengths: Ints, min_width: int) -> Places:
    """Place k pairs in rows that hold the longest sentence and `min_width` tokens, rounded up.

    `lengths`: (k, 2). If `min_width` is 0, every pair has its own row. Otherwise pairs share rows,
    which are filled one after the other with whole pairs, in order. At least the last row is empty,
    for padding.
    """
    are_shared = min_width > 0
    longest = int(lengths.max(initial=1))  # 1 without pairs
    width = width_for(max(min_width, longest))
    if are_shared:
        row, column = _share_rows(lengths, width)
    else:
        row = np.arange(len(lengths))
        column = np.zeros_like(lengths)
    used_rows = int(row.max(initial=-1)) + 1  # 0 without pairs
    return Places(
        rows=round_up(used_rows + 1, ROW_BITS),
        width=width,
        row=row,
        column=column,
        are_shared=are_shared,
    )


def _share_rows(lengths: Ints, width: int) -> tuple[Ints, Ints]:
    """Fill one row after the other with whole pairs; return `row` and `column` of `Places`."""
    row = np.empty(len(lengths), np.int64)
    column = np.empty_like(lengths)
    current_row = 0
    source_end = 0  # columns of the current row that are filled, for each side
    target_end = 0
    for pair, (source_length, target_length) in enumerate(lengths.tolist()):
        is_full = source_end + source_length > width or target_end + target_length > width
        if is_full:
            current_row += 1
            source_end = 0
            target_end = 0
        row[pair] = current_row
        column[pair] = source_end, target_end
        source_end += source_length
        target_end += target_length
    return row, column
