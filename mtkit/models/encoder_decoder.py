"""The model: an encoder and a decoder of any kind, with the embeddings and the output around them.

Two Transformers are the model of Vaswani et al. 2017, two LSTMs that of Luong et al. 2015, and of
the mixed pairs a Transformer with an LSTM decoder is what Chen et al. 2018 ("The Best of Both
Worlds") found best.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import (
    Kind,
    LstmDecoderSettings,
    LstmEncoderSettings,
    ModelSettings,
    TransformerLayers,
)
from mtkit.errors import UserError
from mtkit.models.interfaces import Decoded, Decoder, Encoder, Memory, State, TranslationModel
from mtkit.models.layers import LearnedPositions, SinusoidalPositions
from mtkit.models.recurrent import LstmDecoder, LstmEncoder
from mtkit.models.transformer import TransformerDecoder, TransformerEncoder
from mtkit.symbols import PAD
from mtkit.terms import Hidden, Logits, SourceIds, SourceMask, TargetIds


class EncoderDecoder(TranslationModel[Memory, State]):
    """A model of any architecture, as it is trained and stored."""

    def __init__(self, settings: ModelSettings, source_vocab: int, target_vocab: int) -> None:
        """Freshly initialised; seed torch before for reproducible weights.

        Raises UserError for one embedding of two vocabularies, as a tokenizer may have that was
        taken over.
        """
        super().__init__()
        self.settings = pair = settings.halves()
        d_model, shared = pair.d_model, pair.tie == "all"
        if shared and source_vocab != target_vocab:
            raise UserError(
                f"model.tie: all: one embedding for vocabularies of {source_vocab:,} and "
                f"{target_vocab:,} subwords: tie: target has one for each"
            )
        self.target_embedding = embedding = _embedding(target_vocab, d_model)
        self.source_embedding = embedding if shared else _embedding(source_vocab, d_model)
        tied = pair.tie != "none"
        self.output = None if tied else nn.Linear(d_model, target_vocab, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(target_vocab)) if pair.output_bias else None
        self.positions = (  # one table for both halves; an LSTM has no use for it
            SinusoidalPositions(d_model)
            if pair.longest is None
            else LearnedPositions(d_model, pair.longest)
        )
        self.encoder: Encoder = (
            LstmEncoder(pair.encoder, d_model)
            if isinstance(pair.encoder, LstmEncoderSettings)
            else TransformerEncoder(pair.encoder, d_model, self.positions)
        )
        self.decoder: Decoder[Any, Any] = (  # each is only ever given memory and state of its own
            LstmDecoder(pair.decoder, d_model)
            if isinstance(pair.decoder, LstmDecoderSettings)
            else TransformerDecoder(pair.decoder, d_model, self.positions)
        )
        self.encoder_norm = _final_norm(pair.encoder, d_model)
        self.decoder_norm = _final_norm(pair.decoder, d_model)

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> Memory:
        x = self._embed(self.source_embedding, source)  # (B, S, D)
        encoded = self.encoder(x, source_mask, attention=attention)
        normed = replace(encoded, states=self.encoder_norm(encoded.states))
        memory: Memory = self.decoder.remember(normed)
        return replace(memory, attention=encoded.attention)

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

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.target_embedding.weight if self.output is None else self.output.weight

    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        return F.linear(hidden, self.output_weight, self.output_bias)

    def output_factors(
        self, hidden: Float[Tensor, "... D"]
    ) -> tuple[Float[Tensor, "... E"], Float[Tensor, "V E"]]:
        """The matrices whose product is `project`: a bias is the weight of one more input, 1."""
        if self.output_bias is None:
            return hidden, self.output_weight
        one = hidden.new_ones(*hidden.shape[:-1], 1)
        weight = torch.cat([self.output_weight, self.output_bias.unsqueeze(1)], dim=1)
        return torch.cat([hidden, one], dim=-1), weight


def _embedding(vocab: int, d_model: int) -> nn.Embedding:
    embedding = nn.Embedding(vocab, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding


def _final_norm(settings: Kind, d_model: int) -> nn.Module:
    """A stack of pre-norm layers ends in a residual sum, which nothing has normalised yet."""
    ends_in_sum = isinstance(settings, TransformerLayers) and settings.norm == "pre"
    return nn.LayerNorm(d_model) if ends_in_sum else nn.Identity()
