"""Batches of drawn sentences, as long as those of Multi30k, in the files that stage 2 writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts import create
from mtkit.batching.build import VALID_SOURCE, VALID_TARGET, Batches, open_batches
from mtkit.batching.store import Lengths, StoreWriter, Tokens, token_dtype
from mtkit.tokenizer.symbols import EOS

PAIRS = 29_000
# Subwords of Multi30k's English and German under a joint BPE vocabulary of 8000: the logarithms of
# the two lengths of a pair are normal to within a word, up to the 99th percentile.
MEAN_LOG = (2.611, 2.636)
DEVIATION_LOG = (0.318, 0.357)
CORRELATION = 0.857
LONGEST = 64


def synthetic_batches(folder: Path, vocab: int, seed: int, pairs: int = PAIRS) -> Batches:
    """`pairs` pairs of ids below `vocab`, written to `folder`/batches and opened from there."""
    random = np.random.Generator(np.random.PCG64(seed))
    path = folder / "batches"
    with create(path, "batches", {"weights": [1.0]}, {}) as partial:
        _write(partial, "train", draw_lengths(pairs, random), vocab, random)
        _write(partial, "valid", draw_lengths(1, random), vocab, random)
        for name in (VALID_SOURCE, VALID_TARGET):
            (partial / name).touch()
    return open_batches(path)


def draw_lengths(pairs: int, random: np.random.Generator) -> Lengths:
    """(pairs, 2): subwords of source and target, without EOS."""
    deviation = np.array(DEVIATION_LOG)
    covariance = np.outer(deviation, deviation) * [[1, CORRELATION], [CORRELATION, 1]]
    logs = random.multivariate_normal(MEAN_LOG, covariance, pairs, method="cholesky")
    return np.rint(np.exp(logs)).clip(1, LONGEST).astype(np.uint16)


def _write(
    folder: Path, name: str, lengths: Lengths, vocab: int, random: np.random.Generator
) -> None:
    tokens = draw_tokens(int(lengths.sum()), vocab, random)
    with StoreWriter(folder, name, token_dtype(vocab)) as writer:
        writer.append(tokens, lengths, np.zeros(len(lengths), np.uint16))


def draw_tokens(count: int, vocab: int, random: np.random.Generator) -> Tokens:
    """Ids whose logarithms are uniform, which is Zipf's law: the id is the rank."""
    ordinary = vocab - EOS - 1
    ranks: NDArray[np.float64] = np.floor((ordinary + 1) ** random.random(count))
    return (EOS + ranks).astype(token_dtype(vocab))
