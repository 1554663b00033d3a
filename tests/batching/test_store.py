"""Token stores: reading returns what was written, as rows and as packed batches."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from folders import paths_in
from mtkit.batching.store import Store, store_writer, token_dtype
from mtkit.errors import UserError
from mtkit.models.layout import Packed
from mtkit.symbols import BOS, EOS, PAD
from mtkit.training.data import load_batch

Sides = tuple[list[int], list[int]]


def sides(largest: int) -> st.SearchStrategy[Sides]:
    side = st.lists(st.integers(4, largest), min_size=1, max_size=9)
    return st.tuples(side, side)


def store_of(folder: Path, chunks: list[list[Sides]], vocab: int, corpora: bool = False) -> Store:
    with store_writer(folder, "train", vocab) as append:
        for index, pairs in enumerate(chunks):
            append(
                np.array([i for pair in pairs for i in chain(*pair)], token_dtype(vocab)),
                np.array([[len(s), len(t)] for s, t in pairs], np.uint16).reshape(-1, 2),
                np.full(len(pairs), index if corpora else 0, np.uint16),
            )
    return Store.open(paths_in(folder), "train")


@given(
    st.sampled_from([1 << 16, (1 << 16) + 1]).flatmap(
        lambda vocab: st.tuples(
            st.just(vocab), st.lists(st.lists(sides(vocab - 1), max_size=4), max_size=4)
        )
    ),
    st.sampled_from([0, 1, 24]),
    st.data(),
)
def test_rows_are_read_as_packed_batches(
    written: tuple[int, list[list[Sides]]], min_width: int, data: st.DataObject
) -> None:
    vocab, chunks = written
    pairs = [pair for chunk in chunks for pair in chunk]
    if not pairs:
        return
    with TemporaryDirectory() as folder:
        store = store_of(Path(folder), chunks, vocab)
        assert store.lengths.tolist() == [[len(s), len(t)] for s, t in pairs]
        assert not store.corpora.any()
        rows = data.draw(st.lists(st.integers(0, len(store) - 1), min_size=1))
        batch = load_batch(store, np.array(rows), min_width)
    chosen = [pairs[row] for row in rows]
    source, target = batch.source_layout, batch.target_layout
    for tokens, layout, sentences in (
        (batch.source, source, [[*s, EOS] for s, _ in chosen]),
        (batch.target_input, target, [[BOS, *t] for _, t in chosen]),
        (batch.target_output, target, [[*t, EOS] for _, t in chosen]),
    ):
        flat = list(chain(*sentences))
        assert tokens.tolist() == flat + [PAD] * (len(tokens) - len(flat))
        assert tokens[-1] == PAD
        assert sentences_of(tokens, layout) == sentences
    assert batch.target_tokens == sum(len(t) + 1 for _, t in chosen)


def sentences_of(tokens: Tensor, layout: Packed) -> list[list[int]]:
    """Return the sentences that can attend to each other."""
    number = layout.sentence
    if number is None:
        number = layout.mask * torch.arange(1, len(layout.mask) + 1).unsqueeze(1)
    return [tokens[layout.token][number == k].tolist() for k in range(1, int(number.max()) + 1)]


def test_a_store_takes_two_bytes_per_token_and_few_per_pair(tmp_path: Path) -> None:
    store_of(tmp_path, [[([7] * 15, [8] * 15)] * 1000], 8000)
    size = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert size == 1000 * (2 * 30 + 14)


def test_rows_know_their_corpus(tmp_path: Path) -> None:
    chunks: list[list[Sides]] = [[([4], [5])] * 2, [], [([6], [7])]]
    store = store_of(tmp_path, chunks, 8000, corpora=True)
    assert store.corpora.tolist() == [0, 0, 2]


def test_a_damaged_store_is_an_error(tmp_path: Path) -> None:
    store_of(tmp_path, [[([4], [5])]], 8000)
    with (tmp_path / "train.uint16").open("ab") as file:
        file.write(b"xx")
    with pytest.raises(UserError, match=r"train\.uint16 has 3 ids, but should have 2"):
        Store.open(paths_in(tmp_path), "train")
    with pytest.raises(UserError, match="'valid' is missing"):
        Store.open(paths_in(tmp_path), "valid")


def test_ids_of_a_larger_type_are_an_error(tmp_path: Path) -> None:
    one = np.ones((1, 2), np.uint16)
    with pytest.raises(TypeError), store_writer(tmp_path, "train", vocab=1 << 16) as append:
        append(np.array([4, 70_000], np.int32), one, one[0, :1])
