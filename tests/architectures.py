"""Small models of every architecture and variant; the contract suite runs on each."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mtkit.config.model import (
    EncoderDecoderSettings,
    ModelSettings,
    Seq2SeqSettings,
    TransformerSettings,
)
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.ensemble import Ensemble
from mtkit.models.interfaces import TranslationModel
from mtkit.symbols import EOS, PAD

VOCAB = 30


def transformer(**settings: object) -> TransformerSettings:
    return TransformerSettings.model_validate(
        {"layers": 2, "d_model": 16, "ffn": 24, "heads": 4} | settings
    )


def seq2seq(**settings: object) -> Seq2SeqSettings:
    return Seq2SeqSettings.model_validate({"layers": 2, "d_model": 16} | settings)


def pair(**settings: object) -> EncoderDecoderSettings:
    return EncoderDecoderSettings.model_validate({"d_model": 16} | settings)


LAYERS = {"kind": "transformer", "layers": 2, "ffn": 24, "heads": 4}
LSTM = {"kind": "lstm", "layers": 2}

ARCHITECTURES: dict[str, ModelSettings] = {
    "transformer": transformer(),
    "transformer-prenorm": transformer(norm="pre", activation="gelu"),
    "transformer-gated": transformer(activation="gated"),
    "transformer-swish-bias": transformer(activation="swish", output_bias=True),
    "transformer-deep-encoder": transformer(encoder_layers=3, decoder_layers=1, tie="target"),
    "transformer-no-positions": transformer(positions="none"),
    "transformer-neighbourhood": transformer(neighbourhood=2, tie="none"),
    "seq2seq-dot": seq2seq(attention="dot"),
    "seq2seq-general": seq2seq(attention="general", input_feeding=False),
    "seq2seq-general-feeding": seq2seq(attention="general", residual=True),
    "seq2seq-additive": seq2seq(attention="additive", bidirectional=False, layers=1),
    "seq2seq-none": seq2seq(attention="none", input_feeding=False, tie="target"),
    "transformer-lstm": pair(encoder=LAYERS, decoder=LSTM | {"layers": 1}),
    "transformer-lstm-prenorm": pair(
        encoder=LAYERS | {"norm": "pre"},
        decoder=LSTM | {"attention": "additive", "input_feeding": False},
    ),
    "lstm-transformer": pair(encoder=LSTM, decoder=LAYERS | {"layers": 1}),
    "lstm-transformer-prenorm": pair(
        encoder=LSTM | {"bidirectional": False, "residual": True},
        decoder=LAYERS | {"norm": "pre"},
        tie="none",
        output_bias=True,
    ),
    "lstm-lstm-unlike": pair(
        encoder=LSTM | {"layers": 1}, decoder=LSTM | {"layers": 3, "attention": "dot"}
    ),
    "transformer-transformer-unlike": pair(
        encoder=LAYERS | {"neighbourhood": 2}, decoder=LAYERS | {"heads": 2, "norm": "pre"}
    ),
}


ENSEMBLES = [
    "transformer + seq2seq-general-feeding",
    "lstm-transformer + transformer + seq2seq-dot",
]
"""Ensembles, by the names of their members."""


def make(name: str, *, seed: int = 0, vocab: int = VOCAB) -> EncoderDecoder:
    """Build the named architecture in evaluation mode, in float64 so that laws hold exactly."""
    torch.manual_seed(seed)
    return EncoderDecoder(ARCHITECTURES[name], vocab, vocab).double().eval()


def assemble(name: str, *, seed: int = 0, vocab: int = VOCAB) -> TranslationModel[Any, Any]:
    """Build the named architecture or ensemble, as `make` does."""
    members = [make(of, seed=seed + i, vocab=vocab) for i, of in enumerate(name.split(" + "))]
    return Ensemble(members).eval() if len(members) > 1 else members[0]


def sources(lengths: list[int], *, seed: int = 1, vocab: int = VOCAB) -> Tensor:
    """Draw sentences that end in EOS, padded to the longest."""
    generator = torch.Generator().manual_seed(seed)
    batch = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        batch[row, : length - 1] = torch.randint(4, vocab, (length - 1,), generator=generator)
        batch[row, length - 1] = EOS
    return batch


def targets(rows: int, length: int, *, seed: int = 2, vocab: int = VOCAB) -> Tensor:
    """Draw target symbols."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, vocab, (rows, length), generator=generator)
