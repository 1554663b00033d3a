"""Which sentences an update is made from: in which order, on which rank, cut into which subwords.

All of it a function of (seed, epoch, position), so that a run can go on anywhere at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mtkit.batching.build import Batches
from mtkit.batching.plan import Rows, plan_epoch
from mtkit.batching.store import Store
from mtkit.errors import UserError
from mtkit.terms import Batch
from mtkit.tokenizer.symbols import BOS, EOS, PAD
from mtkit.training.data.segmentation import AS_STORED, DrawnPairs, Portion, Segmentation
from mtkit.training.run.distributed import ALONE, Ranks

NOTHING = Batch(torch.tensor([[EOS]]), torch.tensor([[BOS]]), torch.tensor([[PAD]]), 0)
"""A batch that adds nothing to loss and gradient: for ranks that an epoch's last update leaves out.
"""


@dataclass(frozen=True)
class Position:
    """How much of the data a run has seen: whole epochs, whole portions of one, updates of one."""

    epoch: int = 0
    portion: int = 0
    offset: int = 0

    def next(self, updates: int, portions: int) -> Position:
        """After one more of `updates` in this portion, which is one of `portions` of the epoch."""
        if self.offset + 1 < updates:
            return Position(self.epoch, self.portion, self.offset + 1)
        if self.portion + 1 < portions:
            return Position(self.epoch, self.portion + 1)
        return Position(self.epoch + 1)


BEGINNING = Position()


@dataclass(frozen=True)
class Update:
    """This rank's micro-batches of one update, and where in the data the run stands after it."""

    batches: tuple[Batch, ...]
    position: Position


@dataclass(frozen=True)
class Stream:
    """The training data of a run, in the order and in the portions in which it is learnt from."""

    data: Batches
    max_tokens: int
    """Number of padded tokens in a micro-batch, at most."""
    seed: int
    accumulate: int = 1
    """Number of micro-batches that each rank gives to an update."""
    segmentation: Segmentation = AS_STORED
    ranks: Ranks = ALONE

    @property
    def micro_batches(self) -> int:
        """Number of micro-batches of an update, over all ranks."""
        return self.accumulate * self.ranks.count

    def updates(self, position: Position) -> Iterator[Update]:
        """Every update from `position` on, without end; starts there at once."""
        size, ranks = self.micro_batches, self.ranks
        while True:
            epoch, portions = position.epoch, self._portions(position.epoch)
            for make in portions[position.portion :]:
                portion = make()
                starts = range(0, len(portion.batches), size)
                for start in starts[position.offset :]:
                    rows = portion.batches[start : start + size][ranks.index :: ranks.count]
                    batches = tuple(load_batch(portion.pairs, row).pinned() for row in rows)
                    position = position.next(len(starts), len(portions))
                    yield Update(batches or (NOTHING,), position)
            position = Position(epoch + 1)

    def updates_per_epoch(self) -> int:
        """Number of updates of the first epoch; an estimate where subwords are sampled."""
        first = self._portions(0)[0]()
        return -(-round(len(first.batches) / first.share) // self.micro_batches)

    def _portions(self, epoch: int) -> list[Callable[[], Portion]]:
        store, budget, weights = self.data.train, self.max_tokens, self.data.weights
        plan = plan_epoch(
            store.lengths, max_tokens=budget, seed=self.seed, epoch=epoch, weights=weights
        )
        if not plan:
            raise UserError("data.train: the weights leave no pair for an epoch: raise them")
        return self.segmentation.portions(
            store, plan, epoch=epoch, max_tokens=budget, at_least=self.micro_batches
        )


def load_batch(pairs: Store | DrawnPairs, rows: Rows) -> Batch:
    """The pairs `rows`, in that order: source x EOS, target BOS y and y EOS, else PAD."""
    source, source_lengths = pairs.side(rows, target=False)
    target, target_lengths = pairs.side(rows, target=True)
    batch = np.arange(len(rows))
    encoder_input = _padded(source, source_lengths, before=0)
    encoder_input[batch, source_lengths] = EOS
    target_output = _padded(target, target_lengths, before=0)
    target_output[batch, target_lengths] = EOS
    target_input = _padded(target, target_lengths, before=1)
    target_input[:, 0] = BOS
    return Batch(
        source=torch.from_numpy(encoder_input),
        target_input=torch.from_numpy(target_input),
        target_output=torch.from_numpy(target_output),
        target_tokens=int(target_lengths.sum()) + len(rows),
    )


def _padded(ids: NDArray[Any], lengths: NDArray[np.int64], *, before: int) -> NDArray[np.int64]:
    """(B, longest + 1): the ids of each row after `before` places, PAD around them."""
    places = np.arange(int(lengths.max()) + 1) - before
    padded = np.full((len(lengths), len(places)), PAD, np.int64)
    padded[(places >= 0) & (places < lengths[:, None])] = ids
    return padded


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout is drawn from in micro-batch `index` of those that all ranks have at `step`.

    Unrelated between neighbours, and the same whichever rank the micro-batch is on.
    """
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
