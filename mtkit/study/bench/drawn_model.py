"""A model of a size with random weights, and sentences for it: as much work as a trained one's."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
import torch
from sentencepiece import SentencePieceTrainer

from mtkit.artifacts import create, write_json
from mtkit.config.configfile import load_config
from mtkit.config.decoding import DecodingSettings
from mtkit.config.settings import ModelConfig
from mtkit.models.build import build_model
from mtkit.models.weights import save_weights, weights_of
from mtkit.study.bench.synthetic import draw_lengths, draw_tokens
from mtkit.study.bench.workload import Size
from mtkit.tokenizer.codec import JOINT
from mtkit.tokenizer.symbols import BOS, EOS, PAD, UNK

LENGTH = 25
"""Subwords of every translation, and of a sentence at most."""
SENTENCES = 1000


def write_drawn_model(folder: Path, size: Size) -> None:
    """A model folder: each of its subwords is a word, and EOS is never among the best symbols."""
    config = load_config(Path(__file__).with_name(f"{size}.yaml"), [])
    vocab = config.tokenizer.vocab_size
    torch.manual_seed(config.seed)
    model = build_model(config.model, vocab, vocab)
    with torch.no_grad():
        model.output_weight[EOS] = 0.0  # its logit is the mean of all
    card = ModelConfig(
        model=config.model,
        source_vocab=vocab,
        target_vocab=vocab,
        decoding=DecodingSettings(max_length=LENGTH),
    )
    with create(folder, "model", {"size": size}, {}) as partial:
        save_weights(weights_of(model), partial / "model.safetensors")
        write_json(partial / "config.json", card.model_dump())
        (partial / JOINT).write_bytes(_tokenizer(vocab))


def draw_sentences(size: Size) -> list[str]:
    """Sentences as long as Multi30k's, of words that `write_drawn_model` knows."""
    config = load_config(Path(__file__).with_name(f"{size}.yaml"), [])
    random = np.random.Generator(np.random.PCG64(config.seed))
    lengths = draw_lengths(SENTENCES, random)[:, 0].clip(max=LENGTH)
    symbols = draw_tokens(int(lengths.sum()), config.tokenizer.vocab_size, random)
    words = [_word(symbol) for symbol in symbols.tolist()]
    ends = lengths.cumsum(dtype=np.int64)
    return [" ".join(words[end - length : end]) for end, length in zip(ends, lengths, strict=True)]


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
