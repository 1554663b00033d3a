"""Which pairs go together: lengths, budget, seed, epoch → batches. Pure, and equal on any machine.

A batch costs rows × (its longest side, EOS included). Rows are put in random order, sorted by
length within a large window, cut greedily where the budget is full, and the batches shuffled. An
epoch of many rows comes in blocks, each planned by itself when its turn comes, so that neither
memory nor the time to the first batch grow with the corpus. A block has short runs of rows from all
over the corpus, drawn anew in each epoch: it is like the whole, and its ids are read once.

The longer side of a row sets its cost, so rows are sorted by the longer side's length, first up
where that is the target, then down where it is the source; among equals by the shorter side's, up
and down in turn. So neighbours differ little in both, also where one length gives way to the next.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError

WINDOW_ROWS = 1 << 20
"""Number of rows that are sorted together; at most 2^30, for the sort keys."""
BLOCK_ROWS = 1 << 23
"""Number of rows that are planned together, at most; up to so many are one block."""
RUN_ROWS = 256
"""Number of consecutive rows that are in one block, or in a sample, and so are read together."""

Rows = NDArray[np.signedinteger[Any]]
Lengths = NDArray[np.integer[Any]]


@runtime_checkable
class Weights(Protocol):
    """How often an epoch sees each row: an array, or what is indexed like one."""

    def __getitem__(self, rows: Rows, /) -> NDArray[np.floating[Any]]: ...


def plan_epoch(
    lengths: Lengths, *, max_tokens: int, seed: int, epoch: int, weights: Weights | None = None
) -> list[Rows]:
    """Batches of row numbers, for (n, 2) `lengths` without EOS: those of all blocks, in order.

    Every row is in once; with `weights` (n,), ⌊w⌋ times, and once more with probability w - ⌊w⌋.
    Raises UserError where a single pair is over the budget.
    """
    check_fit(lengths, max_tokens)
    place = {"max_tokens": max_tokens, "seed": seed, "epoch": epoch}
    blocks = range(count_blocks(len(lengths)))
    return [batch for block in blocks for batch in plan_block(lengths, block, weights, **place)]


def count_blocks(rows: int) -> int:
    """Number of blocks, of nearly equal size, that an epoch of so many rows comes in."""
    return -(-rows // BLOCK_ROWS)


def plan_block(
    lengths: Lengths,
    block: int,
    weights: Weights | None = None,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
) -> list[Rows]:
    """The batches of `block`, from 0, of an epoch; that every pair fits the budget is not checked.

    The weights leave one row at least.
    """
    rows = _rows_of_block(len(lengths), seed, epoch, block)
    random = np.random.Generator(np.random.PCG64([seed, epoch, block]))
    if weights is not None:
        wanted = weights[rows]
        whole = np.floor(wanted)
        copies = whole + (random.random(len(rows)) < wanted - whole)
        if not copies.any():
            copies[wanted.argmax()] = 1
        rows = np.repeat(rows, copies.astype(np.int64))
    random.shuffle(rows)
    batches = [
        batch
        for start in range(0, len(rows), WINDOW_ROWS)
        for batch in _cut(_sorted(rows[start : start + WINDOW_ROWS], lengths), lengths, max_tokens)
    ]
    return [batches[i] for i in random.permutation(len(batches))]


def _rows_of_block(count: int, seed: int, epoch: int, block: int) -> Rows:
    """Which of `count` rows are in the block, run by run."""
    dtype = np.int32 if count < 1 << 31 else np.int64
    blocks = count_blocks(count)
    if blocks == 1:
        return np.arange(count, dtype=dtype)
    order = np.random.Generator(np.random.PCG64([seed, epoch, blocks]))  # no block has this number
    runs = order.permutation(np.arange(-(-count // RUN_ROWS), dtype=dtype))[block::blocks]
    rows = (runs[:, None].astype(np.int64) * RUN_ROWS + np.arange(RUN_ROWS)).ravel()
    return rows[rows < count].astype(dtype)


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
    starts = np.linspace(0, count - RUN_ROWS, WINDOW_ROWS // RUN_ROWS).astype(np.int64)
    return (starts[:, None] + np.arange(RUN_ROWS)).ravel()


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
    source, target = lengths[rows].T.astype(np.int64, order="C")
    longer, shorter = np.maximum(source, target), np.minimum(source, target)
    first = np.where(source > target, 0x1FFFF - longer, longer)
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
