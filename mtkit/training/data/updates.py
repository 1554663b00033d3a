"""Which sentences an update is made from: in which order, on which rank, cut into which subwords.

All of it a function of (seed, epoch, position), so that a run can go on anywhere at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from mtkit.batching.build import Batches
from mtkit.batching.plan import plan_epoch
from mtkit.errors import UserError
from mtkit.terms import Batch
from mtkit.tokenizer.symbols import BOS, EOS, PAD
from mtkit.training.data.loader import load_batch
from mtkit.training.data.segmentation import Portion, Segmentation, as_stored
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
    segmentation: Segmentation = as_stored
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
        store = self.data.train
        plan = plan_epoch(
            store.lengths,
            max_tokens=self.max_tokens,
            seed=self.seed,
            epoch=epoch,
            weights=self.data.weights,
        )
        if not plan:
            raise UserError("data.train: the weights leave no pair for an epoch: raise them")
        return self.segmentation(
            store, plan, epoch=epoch, max_tokens=self.max_tokens, at_least=self.micro_batches
        )


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout is drawn from in micro-batch `index` of those that all ranks have at `step`.

    Unrelated between neighbours, and the same whichever rank the micro-batch is on.
    """
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
