"""Which sentences an update is made from: in which order, on which rank, cut into which subwords.

All of it a function of (seed, epoch, step), so that a run can go on anywhere at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from mtkit.batching.build import Batches
from mtkit.batching.plan import plan_epoch
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.terms import Batch
from mtkit.tokenizer.symbols import BOS, EOS, PAD
from mtkit.training.data.loader import load_batch
from mtkit.training.data.segmentation import Portion, Segmentation, as_stored
from mtkit.training.run.distributed import ALONE, Ranks
from mtkit.training.state import TrainState

NOTHING = Batch(torch.tensor([[EOS]]), torch.tensor([[BOS]]), torch.tensor([[PAD]]), 0)
"""A batch that adds nothing to loss and gradient: for ranks that an epoch's last update leaves out.
"""


@dataclass(frozen=True)
class Update:
    """This rank's micro-batches of one update, and where in the data the run stands after it."""

    batches: tuple[Batch, ...]
    epoch: int
    portion: int
    offset: int


def updates(
    state: TrainState,
    data: Batches,
    config: Config,
    segmentation: Segmentation = as_stored,
    ranks: Ranks = ALONE,
) -> Iterator[Update]:
    """Every update from where `state` stands on, without end; starts there at once."""
    epoch, first, offset = state.epoch, state.portion, state.offset
    size = config.training.accumulate * ranks.count
    while True:
        portions = _portions(epoch, state.max_tokens, data, config, segmentation, size)
        for number in range(first, len(portions)):
            portion = portions[number]()
            count = -(-len(portion.batches) // size)
            for done in range(offset, count):
                rows = portion.batches[done * size : (done + 1) * size][ranks.index :: ranks.count]
                batches = tuple(load_batch(portion.pairs, row).pinned() for row in rows)
                after = (epoch, number, done + 1)
                if done + 1 == count:
                    after = (epoch, number + 1, 0)
                    if number + 1 == len(portions):
                        after = (epoch + 1, 0, 0)
                yield Update(batches or (NOTHING,), *after)
            offset = 0
        epoch, first = epoch + 1, 0


def updates_per_epoch(
    state: TrainState, data: Batches, config: Config, segmentation: Segmentation, ranks: Ranks
) -> int:
    """In the first epoch; as its first portion lets expect where subwords are sampled."""
    size = config.training.accumulate * ranks.count
    first = _portions(0, state.max_tokens, data, config, segmentation, size)[0]()
    return -(-round(len(first.batches) / first.share) // size)


def _portions(
    epoch: int,
    max_tokens: int,
    data: Batches,
    config: Config,
    segmentation: Segmentation,
    size: int,
) -> list[Callable[[], Portion]]:
    plan = plan_epoch(
        data.train.lengths,
        max_tokens=max_tokens,
        seed=config.seed,
        epoch=epoch,
        weights=data.weights,
    )
    if not plan:
        raise UserError("data.train: the weights leave no pair for an epoch: raise them")
    return segmentation(data.train, plan, epoch=epoch, max_tokens=max_tokens, at_least=size)


def micro_batch_seed(config: Config, step: int, index: int, ranks: Ranks) -> int:
    """For a rank's micro-batch `index`, by its place among the micro-batches of all ranks."""
    return seed_of(config.seed, step, ranks.index + index * ranks.count)


def seed_of(seed: int, step: int, index: int) -> int:
    """What dropout in a micro-batch is drawn from; unrelated between neighbours."""
    digest = hashlib.sha256(f"{seed}/{step}/{index}".encode()).digest()
    return int.from_bytes(digest[:8], "little", signed=True)
