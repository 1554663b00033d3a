"""Which sentences an update is made from: in which order, on which rank, cut into which subwords.

All of it a function of (seed, epoch, step), so that a run can go on anywhere at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from mtkit.batching import Batches, plan_epoch
from mtkit.config import Config
from mtkit.errors import UserError
from mtkit.symbols import BOS, EOS, PAD
from mtkit.terms import Batch
from mtkit.training.distributed import ALONE, Ranks
from mtkit.training.loader import Segmentation, as_stored, load_batch
from mtkit.training.state import TrainState

NOTHING = Batch(torch.tensor([[EOS]]), torch.tensor([[BOS]]), torch.tensor([[PAD]]), 0)
"""A batch that adds nothing to loss and gradient: for ranks that an epoch's last update leaves out.
"""
SegmentationOf = Callable[[int], Segmentation]
"""From the seed of a micro-batch to how its sentences are cut into subwords."""


@dataclass(frozen=True)
class Update:
    """This rank's micro-batches of one update, and where in the data the run stands after it."""

    batches: tuple[Batch, ...]
    epoch: int
    offset: int


def updates(
    state: TrainState,
    data: Batches,
    config: Config,
    segmentation_of: SegmentationOf = lambda seed: as_stored,
    ranks: Ranks = ALONE,
) -> Iterator[Update]:
    """Every update from where `state` stands on, without end; starts there at once."""
    step, epoch, offset = state.step, state.epoch, state.offset
    size = config.training.accumulate * ranks.count
    while True:
        plan = plan_epoch(
            data.train.lengths,
            max_tokens=state.max_tokens,
            seed=config.seed,
            epoch=epoch,
            weights=data.weights,
        )
        if not plan:
            raise UserError("data.train: the weights leave no pair for an epoch: raise them")
        count = -(-len(plan) // size)
        for done in range(offset, count):
            rows = plan[done * size : (done + 1) * size][ranks.index :: ranks.count]
            step += 1
            batches = tuple(
                load_batch(
                    data.train, row, segmentation_of(micro_batch_seed(config, step, index, ranks))
                ).pinned()
                for index, row in enumerate(rows)
            )
            yield Update(
                batches or (NOTHING,), *((epoch, done + 1) if done + 1 < count else (epoch + 1, 0))
            )
        epoch, offset = epoch + 1, 0


def micro_batch_seed(config: Config, step: int, index: int, ranks: Ranks) -> int:
    """For a rank's micro-batch `index`, by its place among the micro-batches of all ranks."""
    return seed_of(config.seed, step, ranks.index + index * ranks.count)


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout and subwords of a micro-batch are drawn from; unrelated between neighbours."""
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
