"""A run can go on anywhere in its data: what follows a position is a function of the position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path

import numpy as np
import pytest
import torch

from mtkit.batching import plan
from mtkit.batching.build import Batches, open_batches
from mtkit.batching.plan import PairWeights, Rows, count_blocks
from mtkit.config.settings import Config
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training import data as training_data
from mtkit.training.data import BLOCK_PORTIONS, Position, Segmentation, Stream, Update


def test_positions_follow_each_other_through_updates_portions_blocks_and_epochs() -> None:
    updates_of_portions, position, seen = [3, 1, 2], Position(), []
    for _ in range(24):
        seen.append(position)
        portion = position.portion % BLOCK_PORTIONS
        position = position.next(updates_of_portions[portion], 3, blocks=2)
    of_a_block = [(0, 0), (0, 1), (0, 2), (1, 0), (2, 0), (2, 1)]
    of_an_epoch = [(first + p, u) for first in (0, BLOCK_PORTIONS) for p, u in of_a_block]
    assert seen == [Position(epoch, *place) for epoch in (0, 1) for place in of_an_epoch]


@pytest.mark.parametrize(("block_rows", "count"), [(10**6, 13), (60, 26)])
@pytest.mark.parametrize("sampled", [False, True])
def test_a_stream_that_starts_anywhere_goes_on_as_one_from_the_beginning(
    sampled: bool,
    block_rows: int,
    count: int,
    fresh: Callable[..., Config],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(training_data, "PORTION_BATCHES", 3)
    monkeypatch.setattr(plan, "MAX_BLOCK_ROWS", block_rows)
    monkeypatch.setattr(plan, "RUN_ROWS", 5)
    sampling = {"alpha": 0.3} if sampled else None
    config = fresh("transformer", training={"accumulate": 2, "subword_sampling": sampling})
    cut = Segmentation.of(config, Tokenizer.load(Path(config.run) / "tokenizer"))
    stream = Stream(config, open_batches(Path(config.run) / "batches"), cut, 256)

    def some(position: Position, count: int) -> list[Update]:
        return list(islice(stream.updates(position), count))

    whole = some(Position(), count)
    assert {0, 1, 2} <= {update.position.epoch for update in whole}
    for done, update in enumerate(whole[:-2], 1):
        for ours, theirs in zip(some(update.position, 2), whole[done:], strict=False):
            assert ours.position == theirs.position
            for one, other in zip(ours.batches, theirs.batches, strict=True):
                assert torch.equal(one.source, other.source)
                assert torch.equal(one.target_output, other.target_output)


def test_every_epoch_and_seed_has_an_order_of_its_own_and_every_corpus_its_weight(
    fresh: Callable[..., Config],
) -> None:
    one = fresh("transformer")
    data = open_batches(Path(one.run) / "batches")
    corpora = np.arange(len(data.train), dtype=np.uint16) % 2
    weighed = replace(data, weights=PairWeights(np.array([1.0, 3.0]), corpora))

    def rows(seed: int, epoch: int, data: Batches = data) -> list[Rows]:
        config = one.model_copy(update={"seed": seed})
        cut = Segmentation(None, None, 256, seed)
        return [
            batch
            for block in range(count_blocks(len(data.train)))
            for portion in Stream(config, data, cut, 256)._portions(epoch, block)
            for batch in portion().batches
        ]

    orders = [rows(seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({b"".join(batch.tobytes() for batch in order) for order in orders}) == 4
    for order in orders:
        assert np.array_equal(np.sort(np.concatenate(order)), np.arange(len(data.train)))
    counts = np.bincount(np.concatenate(rows(1, 0, weighed)), minlength=len(data.train))
    assert counts.tolist() == np.where(corpora == 1, 3, 1).tolist()


def test_every_epoch_and_seed_has_subwords_of_its_own(fresh: Callable[..., Config]) -> None:
    config = fresh("transformer", training={"subword_sampling": {"alpha": 0.5}})
    data = open_batches(Path(config.run) / "batches")
    tokenizer = Tokenizer.load(Path(config.run) / "tokenizer")
    plan = [np.arange(len(data.train))]
    drawn = set()
    for seed in (1, 2):
        cut = Segmentation.of(config.model_copy(update={"seed": seed}), tokenizer)
        for epoch in (0, 1):
            how = {"epoch": epoch, "max_tokens": 256, "at_least": 1, "block": 0}
            pairs = cut.portions(data.train, plan, **how)[0]().pairs
            ids, _ = pairs.side(plan[0][:100], target=False)
            drawn.add(ids.tobytes())
    assert len(drawn) == 4


@pytest.mark.parametrize("sampling", [None, {"alpha": 0.3}])
def test_an_epoch_has_about_as_many_updates_as_were_reckoned_with(
    sampling: dict[str, float] | None, fresh: Callable[..., Config], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where each portion ends in an update of fewer batches, along a cosine there are more."""
    monkeypatch.setattr(training_data, "PORTION_BATCHES", 6)
    config = fresh("transformer", training={"accumulate": 5, "subword_sampling": sampling})
    cut = Segmentation.of(config, Tokenizer.load(Path(config.run) / "tokenizer"))
    stream = Stream(config, open_batches(Path(config.run) / "batches"), cut, 64)
    updates = takewhile(lambda it: it.position.epoch == 0, stream.updates(Position()))
    assert stream.updates_per_epoch() == pytest.approx(len(list(updates)) + 1, rel=0.1)
