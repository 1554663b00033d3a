"""Which pairs go together: lengths, budget, seed, epoch → batches. Pure, and equal on any machine.

A batch costs rows × (its longest side, EOS included). Rows are put in random order, sorted by
length within a large window, cut greedily where the budget is full, and the batches shuffled.

The longer side of a row sets its cost, so rows are sorted by the longer side's length, first up
where that is the target, then down where it is the source; among equals by the shorter side's, up
and down in turn. So neighbours differ little in both, also where one length gives way to the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError

WINDOW_ROWS = 1 << 20
"""Number of rows that are sorted together; at most 2^30, for the sort keys."""
BLOCK_ROWS = 4096
"""Number of consecutive rows in a sample, which thus touches little of a file."""

Rows = NDArray[np.signedinteger[Any]]
Lengths = NDArray[np.integer[Any]]
Weights = NDArray[np.floating[Any]]


def plan_epoch(
    lengths: Lengths, *, max_tokens: int, seed: int, epoch: int, weights: Weights | None = None
) -> list[Rows]:
    """Batches of row numbers, for (n, 2) `lengths` without EOS.

    Every row is in once; with `weights` (n,), ⌊w⌋ times, and once more with probability w - ⌊w⌋.
    Raises UserError where a single pair is over the budget.
    """
    check_fit(lengths, max_tokens)
    random = np.random.Generator(np.random.PCG64([seed, epoch]))
    rows: Rows = np.arange(len(lengths), dtype=np.int32 if len(lengths) < 1 << 31 else np.int64)
    if weights is not None:
        whole = np.floor(weights)
        copies = whole + (random.random(len(rows)) < weights - whole)
        rows = np.repeat(rows, copies.astype(np.int64))
    random.shuffle(rows)
    batches = [
        batch
        for start in range(0, len(rows), WINDOW_ROWS)
        for batch in _cut(_sorted(rows[start : start + WINDOW_ROWS], lengths), lengths, max_tokens)
    ]
    return [batches[i] for i in random.permutation(len(batches))]


def check_fit(lengths: Lengths, max_tokens: int) -> None:
    """UserError where a single pair is over the budget."""
    longest = int(lengths.max()) + 1
    if longest > max_tokens:
        raise UserError(
            f"batching.max_tokens: {max_tokens} is less than the longest pair ({longest} with the "
            f"end of sentence): raise it, or lower batching.max_length to {max_tokens - 1}"
        )


def sample_rows(count: int) -> Rows:
    """Row numbers of all or, of more than WINDOW_ROWS, those of blocks spread over the corpus."""
    if count <= WINDOW_ROWS:
        return np.arange(count)
    starts = np.linspace(0, count - BLOCK_ROWS, WINDOW_ROWS // BLOCK_ROWS).astype(np.int64)
    return (starts[:, None] + np.arange(BLOCK_ROWS)).ravel()


def padding(lengths: Lengths, batches: list[Rows]) -> float:
    """Share of the positions in both rectangles of every batch that hold no token."""
    real = padded = 0
    for rows in batches:
        taken = lengths[rows].astype(np.int64) + 1
        real += int(taken.sum())
        padded += len(rows) * int(taken.max(axis=0).sum())
    return (padded - real) / max(padded, 1)


def _sorted(rows: Rows, lengths: Lengths) -> Rows:
    """The rows by length; equal ones stay in the order given."""
    taken = lengths[rows].astype(np.int64)
    longer, shorter = taken.max(axis=1), taken.min(axis=1)
    first = np.where(taken[:, 0] > taken[:, 1], 0x1FFFF - longer, longer)
    second = np.where(longer % 2, shorter, 0xFFFF - shorter)
    # Keys end in the position, so that no two are equal and any sorting algorithm agrees.
    keys: Rows = ((first << 16 | second) << 30) + np.arange(len(rows))
    keys.sort()
    ordered: Rows = rows[keys & ((1 << 30) - 1)]
    return ordered


def _cut(rows: Rows, lengths: Lengths, max_tokens: int) -> list[Rows]:
    """Consecutive runs of rows, each as long as the budget allows."""
    longest = lengths[rows].max(axis=1).astype(np.int64) + 1
    batches, start = [], 0
    while start < len(rows):
        run = np.maximum.accumulate(longest[start : start + max_tokens // longest[start]])
        cost = run * np.arange(1, len(run) + 1)
        end = start + int(np.searchsorted(cost, max_tokens, side="right"))
        batches.append(rows[start:end])
        start = end
    return batches
