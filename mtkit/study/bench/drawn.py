"""Sizes, each a config, and what is drawn for them: as much work as Multi30k and a trained model.

A drawn model has random weights, and each of its subwords is a word.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sentencepiece import SentencePieceTrainer

from mtkit.artifacts import create
from mtkit.batching.build import VALID_SOURCE, VALID_TARGET, Batches, open_batches
from mtkit.batching.store import Lengths, StoreWriter, Tokens, token_dtype
from mtkit.config.configfile import load_config
from mtkit.config.decoding import DecodingSettings, ModelConfig
from mtkit.config.settings import Config
from mtkit.config.storage import write_json
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.weights import save_weights, weights_of
from mtkit.tokenizer.codec import JOINT
from mtkit.tokenizer.symbols import BOS, EOS, PAD, UNK

Size = Literal["tiny", "base"]
PAIRS = 29_000
# Subwords of Multi30k's English and German under a joint BPE vocabulary of 8000: the logarithms of
# the two lengths of a pair are normal to within a word, up to the 99th percentile.
MEAN_LOG = (2.611, 2.636)
DEVIATION_LOG = (0.318, 0.357)
CORRELATION = 0.857
LONGEST_DRAWN = 64
"""Subwords of a sentence to train on, at most."""
SENTENCES = 1000
TRANSLATED_LENGTH = 25
"""Subwords of every translation, and of a sentence to translate at most."""


def load_size(size: Size, overrides: Sequence[str] = ()) -> Config:
    """The config of a size."""
    return load_config(Path(__file__).with_name(f"{size}.yaml"), overrides)


def draw_batches(folder: Path, vocab: int, seed: int, pairs: int = PAIRS) -> Batches:
    """`pairs` pairs of ids below `vocab`, written to `folder`/batches and opened from there."""
    random = np.random.Generator(np.random.PCG64(seed))
    path = folder / "batches"
    with create(path, "batches", {"weights": [1.0]}, {}) as partial:
        for name, count in (("train", pairs), ("valid", 1)):
            lengths = draw_lengths(count, random)
            tokens = draw_tokens(int(lengths.sum()), vocab, random)
            with StoreWriter(partial, name, token_dtype(vocab)) as writer:
                writer.append(tokens, lengths, np.zeros(count, np.uint16))
        for name in (VALID_SOURCE, VALID_TARGET):
            (partial / name).touch()
    return open_batches(path)


def draw_lengths(pairs: int, random: np.random.Generator) -> Lengths:
    """(pairs, 2): subwords of source and target, without EOS."""
    deviation = np.array(DEVIATION_LOG)
    covariance = np.outer(deviation, deviation) * [[1, CORRELATION], [CORRELATION, 1]]
    logs = random.multivariate_normal(MEAN_LOG, covariance, pairs, method="cholesky")
    return np.rint(np.exp(logs)).clip(1, LONGEST_DRAWN).astype(np.uint16)


def draw_tokens(count: int, vocab: int, random: np.random.Generator) -> Tokens:
    """Ids whose logarithms are uniform, which is Zipf's law: the id is the rank."""
    ordinary = vocab - EOS - 1
    ranks: NDArray[np.float64] = np.floor((ordinary + 1) ** random.random(count))
    return (EOS + ranks).astype(token_dtype(vocab))


def draw_sentences(size: Size) -> list[str]:
    """Sentences as long as Multi30k's, of words that the model of `draw_model` knows."""
    config = load_size(size)
    random = np.random.Generator(np.random.PCG64(config.seed))
    lengths = draw_lengths(SENTENCES, random)[:, 0].clip(max=TRANSLATED_LENGTH)
    symbols = draw_tokens(int(lengths.sum()), config.tokenizer.vocab_size, random)
    words = [_word(symbol) for symbol in symbols.tolist()]
    ends = lengths.cumsum(dtype=np.int64)
    return [" ".join(words[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


def draw_model(folder: Path, size: Size) -> None:
    """Writes a model folder; EOS is never among the best symbols."""
    config = load_size(size)
    vocab = config.tokenizer.vocab_size
    torch.manual_seed(config.seed)
    model = EncoderDecoder(config.model, vocab, vocab)
    with torch.no_grad():
        model.output_weight[EOS] = 0.0  # its logit is the mean of all
    card = ModelConfig(
        model=config.model,
        source_vocab=vocab,
        target_vocab=vocab,
        decoding=DecodingSettings(max_length=TRANSLATED_LENGTH),
    )
    with create(folder, "model", {"size": size}, {}) as partial:
        save_weights(weights_of(model), partial / "model.safetensors")
        write_json(partial / "config.json", card.model_dump())
        (partial / JOINT).write_bytes(_tokenizer(vocab))


def _word(symbol: int) -> str:
    return f"w{symbol}"


def _tokenizer(vocab: int) -> bytes:
    model = BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=map(_word, range(EOS + 1, vocab)),
        model_writer=model,
        model_type="word",
        vocab_size=vocab,
        pad_id=PAD,
        unk_id=UNK,
        bos_id=BOS,
        eos_id=EOS,
        minloglevel=3,
    )
    return model.getvalue()
