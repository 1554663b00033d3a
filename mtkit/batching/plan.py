"""Plan batches: divide the pairs of an epoch, as a function of lengths, budget, seed and epoch.

The padded size of a batch (pairs times the longest side with EOS) must not exceed the budget. Pairs
are shuffled, sorted by length within large windows, and cut into batches, which are shuffled again.
Plans are the same on every machine.

A large epoch is planned in blocks, one at a time, so memory and the time to the first batch do not
grow with the corpus. A block consists of short runs of consecutive pairs from the whole corpus,
chosen at random in each epoch. So a block resembles the corpus, yet disk reads stay large.

A row is a pair of a store, by its number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.pack import padded_tokens
from mtkit.errors import UserError

MAX_AREA = 1.5
"""Largest padded size of a batch (sentences times the longest), relative to its tokens."""
WINDOW_ROWS = 1 << 20
"""Number of pairs that are sorted together."""
MAX_BLOCK_ROWS = 1 << 23
"""Largest number of pairs in a block; a smaller corpus is one block."""
RUN_ROWS = 256
"""Number of consecutive pairs that always belong to one block, and so are read together."""

Rows = NDArray[np.signedinteger[Any]]
"""Indices of pairs in a store."""
PairLengths = NDArray[np.integer[Any]]
"""(n, 2): lengths of source and target, without EOS."""
Weights = Callable[[Rows], NDArray[np.float64]]
"""A function that returns how often an epoch contains each of some rows.

So memory holds no weights of other rows.
"""


def plan_epoch(lengths: PairLengths, *, max_tokens: int, seed: int, epoch: int) -> list[Rows]:
    """Return all batches of an epoch in order; every pair occurs once.

    Raises:
        UserError: a single pair exceeds the budget.
    """
    check_fit(lengths, max_tokens)
    batches: list[Rows] = []
    for block in range(count_blocks(len(lengths))):
        batches += plan_block(lengths, block, max_tokens=max_tokens, seed=seed, epoch=epoch)
    return batches


def count_blocks(rows: int) -> int:
    """Return into how many blocks of nearly equal size an epoch of `rows` rows is divided."""
    return math.ceil(rows / MAX_BLOCK_ROWS)


def plan_block(
    lengths: PairLengths,
    block: int,
    weights: Weights | None = None,
    *,
    max_tokens: int,
    seed: int,
    epoch: int,
) -> list[Rows]:
    """Return the batches of one block of an epoch; every pair must fit the budget.

    An epoch contains a pair of weight w ⌊w⌋ times, and once more with probability w - ⌊w⌋. A block
    contains at least one pair, even if all weights are tiny.
    """
    rows = _rows_of_block(len(lengths), seed, epoch, block)
    random = np.random.Generator(np.random.PCG64([seed, epoch, block]))
    if weights is not None:
        weight = weights(rows)
        whole = np.floor(weight)
        is_once_more = random.random(len(rows)) < weight - whole
        copies = whole + is_once_more
        if not copies.any():
            copies[weight.argmax()] = 1
        rows = np.repeat(rows, copies.astype(np.int64))
    random.shuffle(rows)
    batches: list[Rows] = []
    for start in range(0, len(rows), WINDOW_ROWS):
        window = _sort(rows[start : start + WINDOW_ROWS], lengths)
        batches += _cut(window, lengths, max_tokens)
    return [batches[i] for i in random.permutation(len(batches))]


def _rows_of_block(count: int, seed: int, epoch: int, block: int) -> Rows:
    """Return the rows of a block, for a corpus of `count` rows: random runs of RUN_ROWS rows.

    If the corpus is one block, return all rows in order.
    """
    dtype = np.int32 if count < 1 << 31 else np.int64  # half the memory, if possible
    blocks = count_blocks(count)
    if blocks == 1:
        return np.arange(count, dtype=dtype)
    # All blocks of an epoch share this order of runs. The seed is free: `plan_block` has the
    # number of a block in its place, which is below `blocks`.
    random = np.random.Generator(np.random.PCG64([seed, epoch, blocks]))
    run_count = math.ceil(count / RUN_ROWS)
    shuffled_runs = random.permutation(np.arange(run_count, dtype=dtype))
    runs = shuffled_runs[block::blocks]  # as if they were dealt out to the blocks
    first_rows = runs.astype(np.int64) * RUN_ROWS
    rows = (first_rows[:, None] + np.arange(RUN_ROWS)).ravel()  # run after run
    return rows[rows < count].astype(dtype)  # the last run of the corpus may be shorter


def check_fit(lengths: PairLengths, max_tokens: int) -> None:
    """Raise UserError if a single pair exceeds the budget."""
    longest = int(lengths.max()) + 1
    if longest > max_tokens:
        raise UserError(
            f"batching.max_tokens: {max_tokens} is less than the longest sentence ({longest} "
            "subwords with the end of sentence); raise it, or lower batching.max_length to "
            f"{max_tokens - 1}"
        )


def padding(lengths: PairLengths, batches: list[Rows]) -> float:
    """Return the share of padding in all source and target tokens of the batches."""
    real = padded = 0
    for rows in batches:
        pairs = len(rows)
        source_tokens, target_tokens = lengths[rows].sum(axis=0, dtype=np.int64).tolist()
        source_tokens += pairs  # an EOS in each sentence
        target_tokens += pairs
        real += source_tokens + target_tokens
        padded += padded_tokens(source_tokens) + padded_tokens(target_tokens)
    return (padded - real) / max(padded, 1)


def _sort(rows: Rows, lengths: PairLengths) -> Rows:
    """Sort the pairs by the length of the longer side; pairs of equal length keep their order.

    So the sentences of a batch have similar lengths.
    """
    longest = lengths[rows].max(axis=1)
    ordered: Rows = rows[np.argsort(longest, kind="stable")]
    return ordered


def _cut(rows: Rows, lengths: PairLengths, max_tokens: int) -> list[Rows]:
    """Cut the rows into consecutive batches, each as large as the budget allows.

    Each side has at most as many tokens as the budget, including one token of padding.
    """
    tokens = lengths[rows].astype(np.int64) + 1  # (n, 2), with EOS
    longest = tokens.max(axis=1)
    # The number of tokens before each row, and after the last: (n + 1,) for each side.
    source_before = np.append(0, tokens[:, 0].cumsum())
    target_before = np.append(0, tokens[:, 1].cumsum())
    batches: list[Rows] = []
    start = 0
    while start < len(rows):
        source_limit = source_before[start] + max_tokens - 1  # less a token of padding
        target_limit = target_before[start] + max_tokens - 1
        # Entries grow, so a binary search finds the last row whose tokens are within the limit.
        source_end = int(np.searchsorted(source_before, source_limit, side="right")) - 1
        target_end = int(np.searchsorted(target_before, target_limit, side="right")) - 1
        end = min(source_end, target_end)
        # Rows are sorted, so the padded size of the first k of them grows with k.
        areas = longest[start:end] * np.arange(1, end - start + 1)
        fitting = int(np.searchsorted(areas, MAX_AREA * max_tokens, side="right"))
        end = start + max(1, fitting)  # a batch has at least one row
        batches.append(rows[start:end])
        start = end
    return batches
