"""The data of training is a function of seed and position, so that a run can resume anywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice, takewhile
from pathlib import Path
from threading import Event

import numpy as np
import pytest
import torch
from pytest import MonkeyPatch

from mtkit.batching import plan
from mtkit.batching.build import Batches, open_batches
from mtkit.batching.plan import Rows, count_blocks
from mtkit.config.settings import Config
from mtkit.training.data import Position, StepData, Stream
from tasks import Fresh


def stream_of(config: Config) -> Stream:
    return Stream(config, open_batches(Path(config.run) / "batches"))


@pytest.mark.parametrize(("block_rows", "count"), [(10**6, 13), (60, 26)])
def test_a_stream_resumed_anywhere_equals_one_from_the_beginning(
    block_rows: int, count: int, fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MAX_BLOCK_ROWS", block_rows)
    monkeypatch.setattr(plan, "RUN_ROWS", 5)
    stream = stream_of(fresh("transformer", training={"accumulate": 2}))

    def some(position: Position, count: int) -> list[StepData]:
        return list(islice(stream.steps(position), count))

    whole = some(Position(), count)
    assert {0, 1, 2} <= {step.position.epoch for step in whole}
    for done, step in enumerate(whole[:-2], 1):
        for ours, theirs in zip(some(step.position, 2), whole[done:], strict=False):
            assert ours.position == theirs.position
            for one, other in zip(ours.batches, theirs.batches, strict=True):
                assert torch.equal(one.source, other.source)
                assert torch.equal(one.target_output, other.target_output)


def test_every_epoch_and_seed_has_its_own_order_and_every_corpus_its_weight(fresh: Fresh) -> None:
    one = fresh("transformer")
    data = open_batches(Path(one.run) / "batches")
    corpora = np.arange(len(data.train), dtype=np.uint16) % 2
    weighed = replace(data, weights=np.array([1.0, 3.0])[corpora].__getitem__)

    def rows(seed: int, epoch: int, data: Batches = data) -> list[Rows]:
        config = one.model_copy(update={"seed": seed})
        stream = replace(stream_of(config), data=data)
        positions = [Position(epoch, block) for block in range(count_blocks(len(data.train)))]
        return [batch for position in positions for batch in stream.plan(position)]

    orders = [rows(seed, epoch) for seed in (1, 2) for epoch in (0, 1)]
    assert len({b"".join(batch.tobytes() for batch in order) for order in orders}) == 4
    for order in orders:
        assert np.array_equal(np.sort(np.concatenate(order)), np.arange(len(data.train)))
    counts = np.bincount(np.concatenate(rows(1, 0, weighed)), minlength=len(data.train))
    assert counts.tolist() == np.where(corpora == 1, 3, 1).tolist()


def test_an_epoch_has_about_as_many_steps_as_estimated(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    """Even if each block ends in a step of fewer batches."""
    monkeypatch.setattr(plan, "MAX_BLOCK_ROWS", 100)
    monkeypatch.setattr(plan, "RUN_ROWS", 5)
    config = fresh("transformer", training={"accumulate": 5}, batching={"max_tokens": 64})
    stream = stream_of(config)
    steps = takewhile(lambda step: step.position.epoch == 0, stream.steps(Position()))
    estimated = stream.steps_per_epoch(stream.plan(Position()))
    assert estimated == pytest.approx(len(list(steps)) + 1, rel=0.1)


def test_the_next_block_is_planned_while_the_current_one_is_used(
    fresh: Fresh, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "MAX_BLOCK_ROWS", 100)
    planned = Event()
    plan_of = Stream.plan

    def note(self: Stream, position: Position) -> list[Rows]:
        if position.block == 1:
            planned.set()
        return plan_of(self, position)

    monkeypatch.setattr(Stream, "plan", note)
    steps = stream_of(fresh("transformer")).steps(Position())
    first = next(steps)
    assert (first.position.block, planned.wait(timeout=60)) == (0, True)
