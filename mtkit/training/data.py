"""The data of every training step: which sentences, in which order, on which process.

Everything is a function of (seed, epoch, position), so a run can resume anywhere without delay.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mtkit.batching.build import Batches
from mtkit.batching.plan import Rows, check_fit, count_blocks, plan_block
from mtkit.batching.store import Store
from mtkit.config.settings import Config
from mtkit.prefetch import prefetch
from mtkit.training.batch import EMPTY_BATCH, Batch, pack_batch
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup


@dataclass(frozen=True)
class Position:
    """Place of a run in its data: epoch, block, and the steps done in this block."""

    epoch: int = 0
    block: int = 0
    step: int = 0


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
        UserError: a training or validation pair has more tokens than fit into a batch.
    """

    config: Config
    data: Batches
    group: ProcessGroup = SINGLE_PROCESS
    row_width: int = 0
    """Width of rows that several sentences share; 0: every sentence has its own row."""

    def __post_init__(self) -> None:
        for store in (self.data.train, self.data.valid):
            check_fit(store.lengths, self.config.batching.max_tokens)

    @property
    def accumulate(self) -> int:
        """Number of batches per step; "auto" is one for each process."""
        setting = self.config.training.accumulate
        return self.group.size if setting == "auto" else setting

    def steps(self, position: Position) -> Iterator[StepData]:
        """Yield the data of every step from `position` on, without end."""
        # A plan of millions of pairs takes seconds, so another thread makes the plan of the next
        # block during the current block. Plans are large, so 0 more are made in advance.
        for block_position, plan in prefetch(self._blocks(position), 0):
            count = self.count_steps(plan)
            for step in range(block_position.step, count):
                start = step * self.accumulate
                after = replace(block_position, step=step + 1)
                if step + 1 == count:
                    after = self._next_block(block_position)
                yield self._step_data(plan[start : start + self.accumulate], after)

    def _step_data(self, batches: Sequence[Rows], position: Position) -> StepData:
        """Return what this process needs of the `batches` of a step; `position`: after the step."""
        store = self.data.train
        parts = shard(batches, self.accumulate, self.group)
        halves: list[Rows] = []
        for rows in parts:
            halves += [rows[0::2], rows[1::2]]
        load = partial(load_batch, store, min_width=self.row_width)
        return StepData(
            batches=tuple(load(rows).pinned() for rows in parts),
            position=position,
            tokens=self.count_tokens(batches),
            halved=lambda: tuple(map(load, halves)),
        )

    def count_tokens(self, batches: Sequence[Rows]) -> int:
        """Return the target tokens of the `batches`; EOS counts."""
        lengths = self.data.train.lengths
        return sum(int(lengths[rows, 1].sum()) + len(rows) for rows in batches)

    def total_steps(self) -> int:
        """Return the planned number of steps of the run."""
        training = self.config.training
        if training.steps is not None:
            return training.steps
        return (training.epochs or 0) * self.steps_per_epoch(self.plan(Position()))

    def steps_per_epoch(self, plan: Sequence[Rows]) -> int:
        """Return the number of steps of an epoch, estimated from the plan of its first block."""
        return self.count_steps(plan) * count_blocks(len(self.data.train))

    def count_steps(self, plan: Sequence[Rows]) -> int:
        """Return the steps of a block; the last step may have fewer batches."""
        return math.ceil(len(plan) / self.accumulate)

    def plan(self, position: Position) -> list[Rows]:
        """Return the batches of a block, as indices of pairs."""
        return plan_block(
            self.data.train.lengths,
            position.block,
            self.data.weights,
            max_tokens=self.config.batching.max_tokens,
            seed=self.config.seed,
            epoch=position.epoch,
        )

    def _blocks(self, position: Position) -> Iterator[tuple[Position, list[Rows]]]:
        """Yield the position of every block with its plan, from `position` on, without end.

        Only the first position may be in the middle of a block.
        """
        while True:
            yield position, self.plan(position)
            position = self._next_block(position)

    def _next_block(self, position: Position) -> Position:
        """Return the position at the start of the block that follows."""
        if position.block + 1 < count_blocks(len(self.data.train)):
            return Position(position.epoch, position.block + 1)
        return Position(position.epoch + 1)


def shard(batches: Sequence[Rows], accumulate: int, group: ProcessGroup) -> list[Rows]:
    """Return the rows of each micro-batch of this process in a step of up to `accumulate` batches.

    Each batch is divided into parts by dealing out its rows like cards. Rows are sorted by length,
    so all parts get similar lengths. All processes get equally many parts, except in the last step
    of a block, which may have fewer batches; a process without a part gets an empty one. A batch
    with fewer rows than parts gives empty parts, too.
    """
    count = group.parts(accumulate)
    parts: list[Rows] = []
    for rows in batches:
        parts += [rows[index::count] for index in range(count)]
    own_parts = parts[group.rank :: group.size]
    no_rows = batches[0][:0]
    return own_parts or [no_rows]


def load_batch(pairs: Store, rows: Rows, min_width: int = 0) -> Batch:
    """Return the pairs `rows` as a batch, in that order; without rows, the empty batch."""
    if not len(rows):
        return EMPTY_BATCH
    return pack_batch(pairs.side(rows, target=False), pairs.side(rows, target=True), min_width)


def seed_of(seed: int, step: int, index: int) -> int:
    """Return the dropout seed of micro-batch `index`, counted over all processes, at `step`.

    Seeds are unrelated, and do not depend on which process has the micro-batch.
    """
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
