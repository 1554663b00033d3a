"""The data of every training step: which sentences, in which order, on which process.

Everything is a function of (seed, epoch, position), so a run can resume anywhere without delay.

With subword sampling, a text is split into different subwords in every epoch: by BPE-dropout
(Provilkov et al. 2020) or unigram sampling (Kudo 2018), whichever the tokenizer supports. Then the
planned batches of a block are divided into chunks. The pairs of a chunk are sampled together and
batched anew, by their new lengths. Without sampling, a block is one chunk.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.build import Batches
from mtkit.batching.plan import Rows, check_fit, count_blocks, plan_block, plan_epoch
from mtkit.batching.store import Store
from mtkit.config.settings import Config
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import SubwordSampler
from mtkit.training.batch import EMPTY_BATCH, Batch, Side, pack_batch
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup

CHUNK_BATCHES = 64
"""Planned batches per chunk: enough to form new batches of sentences of similar length."""
CHUNK_SEEDS = 1 << 32
"""Seeds reserved for the chunks of one block, so that no two blocks share a seed."""


@dataclass(frozen=True)
class Position:
    """Place of a run in its data: epoch, block, chunk, and the steps done in this chunk."""

    epoch: int = 0
    block: int = 0
    chunk: int = 0
    step: int = 0


class SampledPairs:
    """Pairs in memory, with the interface of a `Store`."""

    def __init__(self, *sides: list[NDArray[np.integer]]) -> None:
        self._sides = sides
        self.lengths = np.array([[len(line) for line in side] for side in sides]).T

    def side(self, rows: Rows, *, target: bool) -> Side:
        """Return the source or target side of the pairs `rows`."""
        lines = self._sides[target]
        return np.concatenate([lines[row] for row in rows]), self.lengths[rows, int(target)]


@dataclass(frozen=True)
class StepData:
    """The micro-batches of this process for one step, and the position after this step."""

    batches: tuple[Batch, ...]
    position: Position
    tokens: int
    """Target tokens of the step, summed over all processes."""
    halved: Callable[[], tuple[Batch, ...]]
    """Returns the same pairs in batches of half the size."""


@dataclass(frozen=True)
class Stream:
    """The training data of a run, in the order of training.

    Raises:
        UserError: a training or validation pair has more tokens than fit into a batch, or the
            tokenizer does not support subword sampling.
    """

    config: Config
    data: Batches
    tokenizer: Tokenizer
    group: ProcessGroup = SINGLE_PROCESS
    row_width: int = 0
    """Width of rows that several sentences share; 0: every sentence has its own row."""

    def __post_init__(self) -> None:
        for store in (self.data.train, self.data.valid):
            check_fit(store.lengths, self.config.batching.max_tokens)
        _ = self._samplers

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yield the data of every step from `position` on, without end."""
        accumulate = self.config.training.accumulate
        while True:
            block, plan = (position.epoch, position.block), self.plan(position)
            while (position.epoch, position.block) == block:
                pairs, batches = self.chunk(position, plan)
                after = self._next_chunk(position, plan)
                count = -(-len(batches) // accumulate)
                for step in range(position.step, count):
                    of_step = batches[step * accumulate : (step + 1) * accumulate]
                    next_step = after if step + 1 == count else replace(position, step=step + 1)
                    yield self._step_data(pairs, of_step, next_step)
                position = after

    def _step_data(
        self, pairs: Store | SampledPairs, batches: Sequence[Rows], position: Position
    ) -> StepData:
        parts = shard(batches, self.config.training.accumulate, self.group)
        halves = [rows[half::2] for rows in parts for half in (0, 1)]
        tokens = sum(int(pairs.lengths[rows, 1].sum()) + len(rows) for rows in batches)
        load = partial(load_batch, pairs, min_width=self.row_width)
        return StepData(
            tuple(load(rows).pinned() for rows in parts),
            position,
            tokens,
            halved=lambda: tuple(map(load, halves)),
        )

    def steps_per_epoch(self) -> int:
        """Return the number of steps of the first epoch, estimated from its first chunk."""
        plan = self.plan(Position())
        steps = -(-len(self.chunk(Position(), plan)[1]) // self.config.training.accumulate)
        share = min(self._chunk_size(plan), len(plan)) / len(plan)
        return round(steps * count_blocks(len(self.data.train)) / share)

    def plan(self, position: Position) -> list[Rows]:
        return plan_block(
            self.data.train.lengths,
            position.block,
            self.data.weights,
            max_tokens=self.config.batching.max_tokens,
            seed=self.config.seed,
            epoch=position.epoch,
        )

    def _next_chunk(self, position: Position, plan: list[Rows]) -> Position:
        chunk = position.chunk + 1
        if chunk * self._chunk_size(plan) < len(plan):
            return Position(position.epoch, position.block, chunk)
        if position.block + 1 < count_blocks(len(self.data.train)):
            return Position(position.epoch, position.block + 1)
        return Position(position.epoch + 1)

    @cached_property
    def _samplers(self) -> tuple[SubwordSampler, SubwordSampler] | None:
        """The samplers of source and target; None if training uses the stored subwords."""
        settings = self.config.training.subword_sampling
        return None if settings is None else self.tokenizer.samplers(settings.alpha)

    def _chunk_size(self, plan: list[Rows]) -> int:
        """Return how many planned batches a chunk has: at least as many as a step needs."""
        if self._samplers is None:
            return len(plan)
        return max(CHUNK_BATCHES, self.config.training.accumulate)

    def chunk(
        self, position: Position, plan: list[Rows]
    ) -> tuple[Store | SampledPairs, list[Rows]]:
        """Return the pairs of a chunk, and its batches as indices into these pairs."""
        store = self.data.train
        if self._samplers is None:
            return store, plan
        size = self._chunk_size(plan)
        start = position.chunk * size
        rows = np.concatenate(plan[start : start + size])
        name = f"{self.config.seed}/{position.epoch}/{position.block * CHUNK_SEEDS + start}"
        seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
        batching = self.config.batching
        max_length = min(batching.max_length, batching.max_tokens - 1)
        sides = (
            _sample(store.side(rows, target=index == 1), sampler, 2 * seed + index, max_length)
            for index, sampler in enumerate(self._samplers)
        )
        pairs = SampledPairs(*sides)
        batches = plan_epoch(pairs.lengths, max_tokens=batching.max_tokens, seed=seed, epoch=0)
        return pairs, batches


def _sample(
    side: Side, sampler: SubwordSampler, seed: int, max_length: int
) -> list[NDArray[np.integer]]:
    """Split each sequence into new subwords; keep the stored ones if the new ones are too many."""
    ids, lengths = side
    stored = np.split(ids, lengths.cumsum()[:-1])
    cut = sampler([line.tolist() for line in stored], seed)
    sampled = (np.array(line, np.int64) for line in cut)  # an empty list, too, has integers
    return [
        new if len(new) <= max_length else old for old, new in zip(stored, sampled, strict=True)
    ]


def shard(batches: Sequence[Rows], accumulate: int, group: ProcessGroup) -> list[Rows]:
    """Return the rows of each micro-batch of this process in a step of up to `accumulate` batches.

    Each batch is dealt out row by row, because its sentences have similar lengths, into parts; all
    processes get equally many parts. Parts of the last step of an epoch may be empty.
    """
    count = group.parts(accumulate)
    parts = [rows[index::count] for rows in batches for index in range(count)]
    return parts[group.rank :: group.size] or [batches[0][:0]]


def load_batch(pairs: Store | SampledPairs, rows: Rows, min_width: int = 0) -> Batch:
    """Return the pairs `rows` as a batch, in that order; without rows, the empty batch."""
    if not len(rows):
        return EMPTY_BATCH
    return pack_batch(pairs.side(rows, target=False), pairs.side(rows, target=True), min_width)


def seed_of(seed: int, step: int, index: int) -> int:
    """Return the dropout seed of micro-batch `index` at `step`; all processes share one numbering.

    Seeds are unrelated, and do not depend on which process has the micro-batch.
    """
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
