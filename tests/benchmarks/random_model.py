"""A model with random weights, and sentences for it: as much work as a trained model on Multi30k.

Sentences have the same lengths, every subword is one word, and all translations have one length.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import WEIGHTS
from mtkit.config.decoding import ModelConfig
from mtkit.extras.study.bench.sample import draw_lengths, draw_tokenizer, draw_tokens, size_config
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.folder import save_model_config
from mtkit.models.weights import get_weights, save_weights
from mtkit.symbols import EOS

SENTENCES = 1000
TRANSLATION_LENGTH = 25
"""Number of subwords of every translation, and the most of a sentence to translate."""


def draw_sentences(size: str) -> list[str]:
    """Return sentences with the lengths of Multi30k, in words that `draw_model`'s model knows."""
    config = size_config(size)
    random = np.random.Generator(np.random.PCG64(config.seed))
    lengths = draw_lengths(SENTENCES, random)[:, 0].clip(max=TRANSLATION_LENGTH)
    symbols = draw_tokens(int(lengths.sum()), config.tokenizer.vocab_size, random)
    lines = np.split(symbols, lengths.cumsum()[:-1])
    return [" ".join(f"w{symbol}" for symbol in line) for line in lines]


def draw_model(folder: Path, size: str) -> None:
    """Write a model folder with random weights, whose translations all have the same length."""
    config = size_config(size, [f"decoding.max_length={TRANSLATION_LENGTH}"])
    vocab = config.tokenizer.vocab_size
    torch.manual_seed(config.seed)
    model = EncoderDecoder(config.model, vocab, vocab)
    with torch.no_grad():
        model.output_weight[EOS] = 0.0  # the logit of EOS is average, so EOS is never the best
    tokenizer = draw_tokenizer(vocab)
    model_config = ModelConfig(
        model=config.model, decoding=config.decoding, source_vocab=vocab, target_vocab=vocab
    )
    with create(folder, "model", {"size": size}, {}) as partial:
        save_model_config(partial, model_config, tokenizer)
        save_weights(get_weights(model), partial / WEIGHTS)
