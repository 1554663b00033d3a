"""Laws of the translation memory: it finds the most similar training source, however it is cut."""

from __future__ import annotations

import math
import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from folders import tokenizer_in
from mtkit.batching.build import open_batches
from mtkit.batching.store import Tokens
from mtkit.scoring import memory as translation_memory
from mtkit.scoring.memory import translate_by_memory


def similarity(one: set[int], other: set[int], weights: dict[int, float]) -> float:
    """Return the Dice coefficient of two sets of weighted subwords."""
    common, both = (sum(weights[i] for i in of) for of in (one & other, list(one) + list(other)))
    return 2 * common / both if both else 0.0


def split_rows(tokens: Tokens, lengths: NDArray[np.int64]) -> list[list[int]]:
    return [ids.tolist() for ids in np.split(tokens, lengths.cumsum()[:-1])]


@pytest.mark.parametrize(("sentences", "pairs"), [(1024, 4096), (3, 7)])
def test_the_nearest_source_is_that_of_an_exhaustive_search(
    prepared: Path, sentences: int, pairs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(translation_memory, "BLOCK_SENTENCES", sentences)
    monkeypatch.setattr(translation_memory, "BLOCK_PAIRS", pairs)
    batches = open_batches(prepared / "run/batches")
    store, tokenizer = batches.train, tokenizer_in(prepared / "run/tokenizer")
    tokens, lengths = store.side(np.arange(len(store)), target=False)
    rows = split_rows(tokens, lengths)
    counts = Counter(tokens.tolist())
    total = counts.total() + tokenizer.source_vocab
    weights = {i: math.log(total / (counts[i] + 1)) for i in range(tokenizer.source_vocab)}
    generator = random.Random(1)
    words = [*" ".join(batches.valid_source).split(), "unheard-of"]
    sources = [" ".join(generator.choices(words, k=generator.randint(0, 6))) for _ in range(10)]
    memory = translate_by_memory(sources, store, tokenizer)
    trained = tokenizer.decode(split_rows(*store.side(np.arange(len(store)), target=True)))
    for source, target, value in zip(sources, memory.targets, memory.similarity, strict=True):
        ids = set(tokenizer.encode_source([source])[0])
        exact = [similarity(ids, set(row), weights) for row in rows]
        assert value == pytest.approx(max(exact), abs=1e-5)
        if value:
            best = [t for t, it in zip(trained, exact, strict=True) if it > max(exact) - 1e-5]
            assert target in best
