"""Plans of batches: every pair once, within the budget, and reproducible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mtkit.batching import plan as planning
from mtkit.batching.pack import padded_tokens, place_pairs
from mtkit.batching.plan import MAX_AREA, count_blocks, padding, plan_block, plan_epoch
from mtkit.errors import UserError
from mtkit.symbols import EOS, PAD
from mtkit.training.batch import pack_batch

length = st.integers(1, 40)
some_lengths = st.lists(st.tuples(length, length), min_size=1, max_size=200).map(
    lambda pairs: np.array(pairs, np.uint16)
)
budgets = st.integers(41, 300)
seeds = st.integers(0, 2**32)


def sentence_lengths(count: int) -> NDArray[np.uint16]:
    """Draw lengths like those of image captions in two languages."""
    random = np.random.default_rng(0)
    source = random.lognormal(2.6, 0.35, count)
    target = source * random.normal(1.0, 0.2, count) + random.normal(0, 1.5, count)
    return np.stack([source, target], axis=1).clip(3, 60).astype(np.uint16)


@given(some_lengths, budgets, seeds, st.integers(0, 99), st.integers(1, 50))
def test_every_row_is_in_one_batch_within_the_budget(
    lengths: NDArray[np.uint16], budget: int, seed: int, epoch: int, window: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "WINDOW_ROWS", window)
        batches = plan_epoch(lengths, max_tokens=budget, seed=seed, epoch=epoch)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for rows in batches:
        tokens = lengths[rows].astype(int) + 1
        assert 0 < tokens.sum(axis=0).max() <= budget
        assert len(rows) * tokens.max() <= MAX_AREA * budget


@given(some_lengths, budgets, seeds, st.integers(0, 9), st.integers(1, 60), st.integers(1, 9))
def test_blocks_partition_an_epoch_and_have_similar_sizes(
    lengths: NDArray[np.uint16], budget: int, seed: int, epoch: int, block_rows: int, run_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "MAX_BLOCK_ROWS", block_rows)
        patch.setattr(planning, "RUN_ROWS", run_rows)
        count = count_blocks(len(lengths))
        plan_one = partial(plan_block, lengths, max_tokens=budget, seed=seed, epoch=epoch)
        blocks = [plan_one(block) for block in range(count)]
        whole = plan_epoch(lengths, max_tokens=budget, seed=seed, epoch=epoch)
    assert [rows.tolist() for rows in whole] == [
        rows.tolist() for block in blocks for rows in block
    ]
    assert sorted(np.concatenate(whole)) == list(range(len(lengths)))
    sizes = [sum(map(len, block)) for block in blocks]
    assert max(sizes) - min(sizes) < 2 * run_rows  # the last run is shorter


def test_blocks_sample_the_whole_corpus_anew_in_each_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MAX_BLOCK_ROWS", 20_000)
    monkeypatch.setattr(planning, "RUN_ROWS", 10)
    count = 200_000
    plan_fourth = partial(plan_block, np.full((count, 2), 9), 3, max_tokens=1000, seed=1)
    first, again = (np.concatenate(plan_fourth(epoch=epoch)) for epoch in (0, 1))
    for rows in (first, again):
        tenths = np.bincount(rows // (count // 10), minlength=10)
        assert tenths == pytest.approx(np.full(10, len(rows) / 10), rel=0.3)
    assert len(np.intersect1d(first, again)) == pytest.approx(len(first) / 10, rel=0.3)


def test_the_order_of_batches_never_changes() -> None:
    """Otherwise training could not resume."""
    lengths, weights = np.array([[3, 4], [9, 2], [4, 4], [1, 1], [7, 9], [2, 6]]), np.ones(6)
    weights[[2, 4]] = 2.5, 0.5
    batches = plan_block(lengths, 0, weights.__getitem__, max_tokens=12, seed=1, epoch=2)
    assert [rows.tolist() for rows in batches] == [[0, 2], [5], [1], [3, 2], [2]]


def test_batches_fill_the_budget() -> None:
    lengths = sentence_lengths(5000)
    even = plan_epoch(np.full((1000, 2), 9), max_tokens=100, seed=1, epoch=1)
    assert Counter(map(len, even)) == {9: 111, 1: 1}  # one token of the budget is padding
    batches = plan_epoch(lengths, max_tokens=2000, seed=1, epoch=1)
    spent = [(lengths[rows].astype(int) + 1).sum(axis=0).max() for rows in batches]
    assert np.mean(spent) > 0.95 * 2000


def test_epochs_and_seeds_differ_in_batches_and_their_order() -> None:
    lengths = sentence_lengths(5000)

    plans = [
        [rows.tolist() for rows in plan_epoch(lengths, max_tokens=1000, seed=seed, epoch=epoch)]
        for seed, epoch in ((1, 0), (1, 1), (2, 0))
    ]
    for i, one in enumerate(plans):
        for other in plans[:i]:
            assert [rows[0] for rows in one] != [rows[0] for rows in other]
            shared = {frozenset(rows) for rows in one} & {frozenset(rows) for rows in other}
            assert len(shared) < len(one) / 4


def test_batches_of_all_lengths_are_mixed() -> None:
    lengths = sentence_lengths(20_000)
    batches = plan_epoch(lengths, max_tokens=1000, seed=1, epoch=0)
    means = np.array([lengths[rows].mean() for rows in batches])
    between_neighbours, between_all = np.abs(np.diff(means)), np.abs(means[:, None] - means)
    assert between_neighbours.mean() == pytest.approx(between_all.mean(), rel=0.2)


@given(st.lists(st.floats(0, 4, exclude_min=True), min_size=1, max_size=30), seeds)
@example([0.008] * 3, 1)
def test_a_weight_is_the_number_of_copies_and_one_pair_always_remains(
    weights: list[float], seed: int
) -> None:
    lengths = np.full((len(weights), 2), 5)
    weight_of = np.array(weights).__getitem__
    batches = plan_block(lengths, 0, weight_of, max_tokens=64, seed=seed, epoch=0)
    copies = np.bincount(np.concatenate(batches), minlength=len(weights))
    for count, weight in zip(copies, weights, strict=True):
        assert int(weight) <= count <= int(weight) + 1
        assert count == weight or weight % 1


def test_fractional_weights_hold_on_average() -> None:
    lengths, weight_of = np.full((4000, 2), 5), np.repeat([0.25, 1.5], 2000).__getitem__
    rows = np.concatenate(plan_block(lengths, 0, weight_of, max_tokens=640, seed=1, epoch=0))
    assert np.count_nonzero(rows < 2000) == pytest.approx(500, abs=100)
    assert np.count_nonzero(rows >= 2000) == pytest.approx(3000, abs=120)


def test_a_pair_over_the_budget_is_an_error() -> None:
    lengths = np.array([[3, 4], [63, 2]])
    assert len(plan_epoch(lengths, max_tokens=64, seed=1, epoch=0)) == 2
    with pytest.raises(UserError, match=r"batching\.max_tokens: 63 .* \(64 subwords with"):
        plan_epoch(lengths, max_tokens=63, seed=1, epoch=0)


@given(some_lengths, budgets)
def test_padding_is_the_share_of_padding_in_the_batches(
    lengths: NDArray[np.uint16], budget: int
) -> None:
    plan = plan_epoch(lengths, max_tokens=budget, seed=1, epoch=0)
    sides = (lengths[rows].T.astype(int) for rows in plan)
    pairs = ([(np.full(side.sum(), EOS), side) for side in both] for both in sides)
    batches = (pack_batch(source, target) for source, target in pairs)
    tokens = torch.cat([ids for batch in batches for ids in (batch.source, batch.target_output)])
    assert padding(lengths, plan) == pytest.approx((tokens == PAD).double().mean().item())
    assert padding(lengths, []) == 0


def corpus_lengths(count: int) -> NDArray[np.uint16]:
    """Draw lengths like those of texts of all kinds, of up to 256 subwords."""
    random = np.random.default_rng(0)
    source = random.lognormal(np.log(25) - 0.6**2 / 2, 0.6, count)
    target = source * random.lognormal(0, 0.2, count)
    return np.stack([source, target], axis=1).round().clip(1, 256).astype(np.uint16)


@pytest.mark.parametrize("draw", [sentence_lengths, corpus_lengths])
def test_an_epoch_has_little_padding_and_few_shapes(
    draw: Callable[[int], NDArray[np.uint16]],
) -> None:
    lengths = draw(200_000)
    plan = plan_epoch(lengths, max_tokens=4096, seed=1, epoch=0)
    assert padding(lengths, plan) < 0.03
    for min_width in (0, 64):
        shapes = Counter(shape_of(lengths[rows].astype(int) + 1, min_width) for rows in plan)
        assert len(shapes) <= 150
        assert sum(count for _, count in shapes.most_common(50)) > 0.8 * len(plan)


def shape_of(tokens: NDArray[np.int64], min_width: int) -> tuple[int, ...]:
    places = place_pairs(tokens, min_width)
    return places.rows, places.width, *map(padded_tokens, tokens.sum(axis=0).tolist())
