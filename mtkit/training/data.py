"""Which sentences an update is made from: in which order, on which rank, cut into which subwords.

All of it a function of (seed, epoch, position), so that a run can go on anywhere at once.

With subword sampling, each time a pair is seen its text is cut into other subwords: by BPE-dropout
(Provilkov et al. 2020) or unigram sampling (Kudo 2018), whichever the tokenizer can. A block of an
epoch then comes in portions: the pairs of one are drawn together and batched by the lengths they
have now, so that batches are as full, and as large, as those of the store.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mtkit.batching.build import Batches
from mtkit.batching.plan import Rows, check_fit, count_blocks, plan_block, plan_epoch
from mtkit.batching.store import Store
from mtkit.config.settings import Config
from mtkit.symbols import BOS, EOS, PAD
from mtkit.terms import Batch
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.sampling import SubwordSampler
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup

EMPTY_BATCH = Batch(torch.tensor([[EOS]]), torch.tensor([[BOS]]), torch.tensor([[PAD]]), 0)
"""A batch that adds nothing to loss and gradient: for ranks that an update has no sentence for."""
PORTION_BATCHES = 64
"""Number of planned batches that are drawn together: so many that lengths in a batch differ little.
"""

BLOCK_PORTIONS = 1 << 32
"""Portions of an epoch are numbered as if each of its blocks had so many, which none has."""

Side = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""Ids of some sequences, laid end to end, and the length of each."""


class DrawnPairs:
    """Pairs in memory, read as those of a store are."""

    def __init__(self, *sides: list[NDArray[np.integer]]) -> None:
        self._sides = sides
        self.lengths = np.array([[len(line) for line in side] for side in sides]).T

    def side(self, rows: Rows, *, target: bool) -> Side:
        """One side of `rows`."""
        lines = self._sides[target]
        return np.concatenate([lines[row] for row in rows]), self.lengths[rows, int(target)]


@dataclass(frozen=True)
class Portion:
    """Batches of a block of an epoch, as rows of `pairs`."""

    pairs: Store | DrawnPairs
    batches: list[Rows]
    share: float
    """The part of the block that this portion is, between 0 and 1."""


@dataclass(frozen=True)
class Segmentation:
    """How pairs are cut into subwords: a side with a sampler at random, the other as it is stored.

    Equal for equal seeds; what has become longer than `longest` subwords is not taken.
    """

    source: SubwordSampler | None
    target: SubwordSampler | None
    longest: int
    seed: int

    @classmethod
    def of(cls, config: Config, tokenizer: Tokenizer) -> Segmentation:
        """As a config has it; UserError where the tokenizer knows one segmentation only."""
        settings = config.training.subword_sampling
        longest, seed = config.batching.max_length, config.seed
        if settings is None:
            return cls(None, None, longest, seed)
        source, target = tokenizer.samplers(settings.alpha)
        return cls(
            source if settings.sides != "target" else None,
            target if settings.sides != "source" else None,
            longest,
            seed,
        )

    def portions(
        self,
        store: Store,
        plan: list[Rows],
        *,
        epoch: int,
        max_tokens: int,
        at_least: int,
        block: int,
    ) -> list[Callable[[], Portion]]:
        """What makes each portion of the block `plan`; none but the last is under `at_least`."""
        if self.source is None and self.target is None:
            return [partial(Portion, store, plan, 1.0)]
        size, longest = max(PORTION_BATCHES, at_least), min(self.longest, max_tokens - 1)

        def portion(start: int) -> Portion:
            planned = plan[start : start + size]
            rows = np.concatenate(planned)
            name = f"{self.seed}/{epoch}/{block * BLOCK_PORTIONS + start}"
            seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little")
            sides = (
                _drawn(store.side(rows, target=place == 1), sampler, 2 * seed + place, longest)
                for place, sampler in enumerate((self.source, self.target))
            )
            pairs = DrawnPairs(*sides)
            batches = plan_epoch(pairs.lengths, max_tokens=max_tokens, seed=seed, epoch=0)
            return Portion(pairs, batches, len(planned) / len(plan))

        return [partial(portion, start) for start in range(0, len(plan), size)]


def _drawn(
    side: Side, sampler: SubwordSampler | None, seed: int, longest: int
) -> list[NDArray[np.integer]]:
    """The ids of each sequence of `side`, cut anew where there is a sampler."""
    ids, lengths = side
    stored = np.split(ids, lengths.cumsum()[:-1])
    if sampler is None:
        return stored
    cut = sampler([line.tolist() for line in stored], seed)
    drawn = (np.array(line, np.int64) for line in cut)  # of nothing, too
    return [new if len(new) <= longest else old for old, new in zip(stored, drawn, strict=True)]


@dataclass(frozen=True)
class Position:
    """How much of the data a run has seen: whole epochs, whole portions of one, updates of one."""

    epoch: int = 0
    portion: int = 0
    offset: int = 0

    def next(self, updates: int, portions: int, blocks: int) -> Position:
        """After one more of `updates` in this portion, which is one of `portions` of its block."""
        if self.offset + 1 < updates:
            return Position(self.epoch, self.portion, self.offset + 1)
        if self.portion % BLOCK_PORTIONS + 1 < portions:
            return Position(self.epoch, self.portion + 1)
        return self.next_block(blocks)

    def next_block(self, blocks: int) -> Position:
        """After all of this block, which is one of `blocks` of the epoch."""
        block = self.portion // BLOCK_PORTIONS + 1
        if block < blocks:
            return Position(self.epoch, block * BLOCK_PORTIONS)
        return Position(self.epoch + 1)


@dataclass(frozen=True)
class Update:
    """This rank's parts of one update, and where in the data the run stands after it."""

    batches: tuple[Batch, ...]
    position: Position


@dataclass(frozen=True)
class Stream:
    """The training data of a run, in the order and in the portions in which it is learnt from.

    Raises UserError where a pair, of training or of validation, is over the budget.
    """

    config: Config
    data: Batches
    segmentation: Segmentation
    max_tokens: int
    """Number of padded tokens in a micro-batch, at most."""
    group: ProcessGroup = SINGLE_PROCESS

    def __post_init__(self) -> None:
        for store in (self.data.train, self.data.valid):
            check_fit(store.lengths, self.max_tokens)

    @property
    def _blocks(self) -> int:
        return count_blocks(len(self.data.train))

    def updates(self, position: Position) -> Iterator[Update]:
        """Every update from `position` on, without end; starts there at once."""
        size, group = self.config.training.accumulate, self.group
        while True:
            here, (block, done) = position, divmod(position.portion, BLOCK_PORTIONS)
            portions = self._portions(here.epoch, block)
            for make in portions[done:]:
                portion = make()
                starts = range(0, len(portion.batches), size)
                for start in starts[position.offset :]:
                    dealt = deal(portion.batches[start : start + size], size, group)
                    batches = tuple(_part(portion.pairs, rows) for rows in dealt)
                    position = position.next(len(starts), len(portions), self._blocks)
                    yield Update(batches, position)
            position = here.next_block(self._blocks)

    def updates_per_epoch(self) -> int:
        """Number of updates of the first epoch; an estimate from its first portion."""
        first, accumulate = self._portions(0, 0)[0](), self.config.training.accumulate
        return round(-(-len(first.batches) // accumulate) * self._blocks / first.share)

    def _portions(self, epoch: int, block: int) -> list[Callable[[], Portion]]:
        store, seed, budget = self.data.train, self.config.seed, self.max_tokens
        weights, accumulate = self.data.weights, self.config.training.accumulate
        plan = plan_block(store.lengths, block, weights, max_tokens=budget, seed=seed, epoch=epoch)
        return self.segmentation.portions(
            store, plan, epoch=epoch, max_tokens=budget, at_least=accumulate, block=block
        )


def deal(batches: Sequence[Rows], accumulate: int, group: ProcessGroup) -> list[Rows]:
    """The rows of each part that this rank has of an update of up to `accumulate` `batches`.

    A batch is dealt like cards, as its sentences are of similar length, into so many parts that
    every rank has as many; those of the last update of an epoch may be empty.
    """
    count = group.parts(accumulate)
    parts = [rows[index::count] for rows in batches for index in range(count)]
    return parts[group.rank :: group.size] or [batches[0][:0]]


def _part(pairs: Store | DrawnPairs, rows: Rows) -> Batch:
    return load_batch(pairs, rows).pinned() if len(rows) else EMPTY_BATCH


def load_batch(pairs: Store | DrawnPairs, rows: Rows) -> Batch:
    """The pairs `rows`, in that order: source x EOS, target BOS y and y EOS, else PAD."""
    source, source_lengths = pairs.side(rows, target=False)
    target, target_lengths = pairs.side(rows, target=True)
    return Batch(
        source=_padded(source, source_lengths),
        target_input=_padded(target, target_lengths, bos=True),
        target_output=_padded(target, target_lengths),
        target_tokens=int(target_lengths.sum()) + len(rows),
    )


def _padded(
    ids: NDArray[Any], lengths: NDArray[np.int64], *, bos: bool = False
) -> Int[Tensor, "B T"]:
    """The ids of each row after BOS or, without `bos`, before EOS; then PAD."""
    places = np.arange(int(lengths.max()) + 1) - bos
    padded = np.full((len(lengths), len(places)), PAD, np.int64)
    padded[(places >= 0) & (places < lengths[:, None])] = ids
    if bos:
        padded[:, 0] = BOS
    else:
        padded[np.arange(len(lengths)), lengths] = EOS
    return torch.from_numpy(padded)


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout is drawn from in part `index` of those that all ranks have at `step`.

    Unrelated between neighbours, and the same whichever rank the part is on.
    """
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
