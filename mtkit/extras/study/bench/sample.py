"""Random batches for `mtkit bench train`; sentences are as long as those of Multi30k."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.replacement import create
from mtkit.batching.build import VALID_SOURCE, VALID_TARGET, Batches, open_batches
from mtkit.batching.store import Lengths, Tokens, store_writer, token_dtype
from mtkit.config.settings import Config, TokenizerSettings
from mtkit.config.yaml import load_config
from mtkit.symbols import EOS
from mtkit.tokenizer.codec import JOINT_MODEL, Tokenizer
from mtkit.tokenizer.train_spm import train_model

PAIRS = 29_000
# Subwords of Multi30k's English and German under a joint BPE vocabulary of 8,000: the logarithms of
# the two lengths of a pair are normal to within a word, up to the 99th percentile.
MEAN_LOG = (2.611, 2.636)
DEVIATION_LOG = (0.318, 0.357)
CORRELATION = 0.857
MAX_DRAWN_LENGTH = 64


def size_config(size: str, overrides: Sequence[str] = ()) -> Config:
    """Return the config of a model size: tiny or base."""
    return load_config(Path(__file__).with_name(f"{size}.yaml"), overrides)


def draw_batches(folder: Path, vocab: int, seed: int, pairs: int = PAIRS) -> Batches:
    """Write `pairs` sentence pairs of ids below `vocab` to `folder`/batches and open them."""
    random = np.random.Generator(np.random.PCG64(seed))
    path = folder / "batches"
    settings = {"data": {"train": {"weight": [1.0]}}}
    with create(path, "batches", settings, {}) as partial:
        _draw_store(partial, "train", pairs, vocab, random)
        _draw_store(partial, "valid", 1, vocab, random)  # batches need a validation pair
        for name in (VALID_SOURCE, VALID_TARGET):
            (partial / name).touch()
    return open_batches(path)


def _draw_store(
    folder: Path, name: str, pairs: int, vocab: int, random: np.random.Generator
) -> None:
    lengths = draw_lengths(pairs, random)
    tokens = draw_tokens(int(lengths.sum()), vocab, random)
    corpora = np.zeros(pairs, np.uint16)
    with store_writer(folder, name, vocab) as append:
        append(tokens, lengths, corpora)


def draw_lengths(pairs: int, random: np.random.Generator) -> Lengths:
    """Return the numbers of subwords of source and target, without EOS: (pairs, 2)."""
    deviation = np.array(DEVIATION_LOG)
    covariance = np.outer(deviation, deviation) * [[1, CORRELATION], [CORRELATION, 1]]
    logs = random.multivariate_normal(MEAN_LOG, covariance, pairs, method="cholesky")
    return np.rint(np.exp(logs)).clip(1, MAX_DRAWN_LENGTH).astype(np.uint16)


def draw_tokens(count: int, vocab: int, random: np.random.Generator) -> Tokens:
    """Return ids whose frequencies follow Zipf's law: the logarithms of the ids are uniform."""
    ordinary = vocab - EOS - 1
    # x^u with u uniform in [0, 1): 1 is the most frequent rank.
    rank: NDArray[np.float64] = np.floor((ordinary + 1) ** random.random(count))
    return (EOS + rank).astype(token_dtype(vocab))


def draw_tokenizer(vocab: int) -> Tokenizer:
    """Return a tokenizer in which every subword is a word: w and a number."""
    settings = TokenizerSettings(vocab_size=vocab, byte_fallback=False)
    words = (f"w{symbol}" for symbol in range(EOS + 1, vocab))
    model = train_model(words, settings.model_copy(update={"type": "word"}), JOINT_MODEL)
    return Tokenizer({Path(JOINT_MODEL): model})
