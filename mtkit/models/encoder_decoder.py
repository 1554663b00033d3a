"""An encoder and a decoder, each of any kind, with the embeddings and the output around them.

Two Transformers are the model of Vaswani et al. 2017, two LSTMs that of Luong et al. 2015, and of
the mixed pairs a Transformer with an LSTM decoder is what Chen et al. 2018 ("The Best of Both
Worlds") found best.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from torch import Tensor, nn

from mtkit.config.model import (
    EncoderDecoderSettings,
    Kind,
    LstmDecoderSettings,
    LstmEncoderSettings,
    TransformerDecoderSettings,
    TransformerEncoderSettings,
    TransformerLayers,
)
from mtkit.models.base import Decoded, Memory, State, TranslationModel
from mtkit.models.halves import Decoder, Encoder
from mtkit.models.layers import LearnedPositions, SinusoidalPositions
from mtkit.models.recurrent import LstmDecoder, LstmEncoder
from mtkit.models.transformer import TransformerDecoder, TransformerEncoder
from mtkit.terms import Hidden, SourceIds, SourceMask, TargetIds


class EncoderDecoder(TranslationModel):
    """The contract of `TranslationModel`, from two halves."""

    def __init__(
        self, settings: EncoderDecoderSettings, source_vocab: int, target_vocab: int
    ) -> None:
        d_model = settings.d_model
        super().__init__(
            source_vocab, target_vocab, d_model, settings.tie, output_bias=settings.output_bias
        )
        self.settings = settings
        self.positions = _positions(settings)  # one table for both halves
        self.encoder = _encoder(settings, self.positions)
        self.decoder = _decoder(settings, self.positions)
        self.encoder_norm = _final_norm(settings.encoder, d_model)
        self.decoder_norm = _final_norm(settings.decoder, d_model)

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> Memory:
        x = self._embed(self.source_embedding, source)  # (B, S, D)
        encoded = self.encoder(x, source_mask, attention=attention)
        encoded = replace(encoded, states=self.encoder_norm(encoded.states))
        return cast(Memory, self.decoder.remember(encoded))

    def start(self, memory: Memory, beam: int = 1) -> State:
        return cast(State, self.decoder.start(memory, beam))

    def decode(
        self, memory: Memory, state: State, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        x = self._embed(self.target_embedding, target)  # (N, T, D)
        decoded = self.decoder.decode(memory, state, x, attention=attention)
        return replace(decoded, hidden=self.decoder_norm(decoded.hidden))

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Hidden:
        # Initialised for the output projection with variance 1/D, so that logits begin near 1;
        # as an input the same rows are brought to variance 1, the size of what is added to them.
        return cast(Tensor, embedding(ids) * self.settings.d_model**0.5)


def _positions(settings: EncoderDecoderSettings) -> nn.Module:
    """For Transformers; an LSTM has no use for them."""
    if settings.positions == "sinusoidal":
        return SinusoidalPositions(settings.d_model)
    return LearnedPositions(settings.d_model, settings.max_positions)


def _encoder(settings: EncoderDecoderSettings, positions: nn.Module) -> Encoder:
    match settings.encoder:
        case TransformerEncoderSettings() as own:
            return TransformerEncoder(own, settings.d_model, positions)
        case LstmEncoderSettings() as own:
            return LstmEncoder(own, settings.d_model)


def _decoder(settings: EncoderDecoderSettings, positions: nn.Module) -> Decoder[Any, Any]:
    """Each has a kind of memory and state of its own, which is all that it is ever given."""
    match settings.decoder:
        case TransformerDecoderSettings() as own:
            return TransformerDecoder(own, settings.d_model, positions)
        case LstmDecoderSettings() as own:
            return LstmDecoder(own, settings.d_model)


def _final_norm(settings: Kind, d_model: int) -> nn.Module:
    """A stack of pre-norm layers ends in a residual sum, which nothing has normalised yet."""
    ends_in_sum = isinstance(settings, TransformerLayers) and settings.norm == "pre"
    return nn.LayerNorm(d_model) if ends_in_sum else nn.Identity()
