"""The model: an encoder and a decoder of any kind, between embeddings and output projection.

With two Transformers it is the model of Vaswani et al. 2017, with two LSTMs the model of Luong et
al. 2015. Of the mixed models, Chen et al. 2018 ("The Best of Both Worlds") recommend a Transformer
encoder with an LSTM decoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config.model import ModelSettings
from mtkit.errors import UserError
from mtkit.models.interfaces import (
    Decoded,
    Decoder,
    Encoder,
    EncoderOutput,
    Memory,
    State,
    TranslationModel,
)
from mtkit.models.layout import Layout
from mtkit.models.recurrent import LstmDecoder, LstmEncoder
from mtkit.models.transformer import TransformerDecoder, TransformerEncoder
from mtkit.shapes import Hidden, Logits, SourceIds, SourceMask, TargetIds
from mtkit.symbols import PAD

ENCODERS: dict[str, type[Encoder]] = {"transformer": TransformerEncoder, "lstm": LstmEncoder}
DECODERS: dict[str, type[Decoder[Any, Any]]] = {
    "transformer": TransformerDecoder,
    "lstm": LstmDecoder,
}
"""The classes by the `kind` of their settings; they are built from these settings and D."""


class EncoderDecoder(TranslationModel[Memory, State]):
    """A model of any architecture, as it is trained and stored."""

    def __init__(self, settings: ModelSettings, source_vocab: int, target_vocab: int) -> None:
        """Initialise the weights at random; seed torch before if they must be reproducible.

        Raises:
            UserError: two vocabularies of different sizes cannot share one embedding.
        """
        super().__init__()
        # Any architecture, written as encoder settings and decoder settings.
        pair = settings.as_pair()
        self.settings = pair
        d_model = pair.d_model
        is_shared = pair.tie == "all"
        is_tied = pair.tie != "none"
        if is_shared and source_vocab != target_vocab:
            raise UserError(
                f"model.tie: vocabularies of {source_vocab:,} and "
                f"{target_vocab:,} subwords cannot share one embedding; set it to target"
            )
        self.target_embedding = _embedding(target_vocab, d_model)
        self.source_embedding = (
            self.target_embedding if is_shared else _embedding(source_vocab, d_model)
        )
        self.output = None if is_tied else nn.Linear(d_model, target_vocab, bias=False)
        self.output_bias = nn.Parameter(torch.zeros(target_vocab)) if pair.output_bias else None
        self.encoder: Encoder = ENCODERS[pair.encoder.kind](pair.encoder, d_model)
        # Any: whatever its memory and state are, a decoder gets only those that it has made itself.
        self.decoder: Decoder[Any, Any] = DECODERS[pair.decoder.kind](pair.decoder, d_model)
        self.encoder_norm = nn.LayerNorm(d_model) if self.encoder.needs_norm else nn.Identity()
        self.decoder_norm = nn.LayerNorm(d_model) if self.decoder.needs_norm else nn.Identity()

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> Memory:
        encoded = self._encode(source, Layout(source_mask), attention=attention)
        memory: Memory = self.decoder.prepare_memory(encoded)
        return replace(memory, attention=encoded.attention)

    def _encode(
        self, source: Int[Tensor, ...], layout: Layout, *, attention: bool = False
    ) -> EncoderOutput:
        """Return the output of the encoder; `source`: ids in the given layout."""
        x = self._embed(self.source_embedding, source)
        encoded: EncoderOutput = self.encoder(x, layout, attention=attention)
        return replace(encoded, states=self.encoder_norm(encoded.states))

    def read(
        self,
        source: Int[Tensor, " M"],
        source_layout: Layout,
        target: Int[Tensor, " L"],
        target_layout: Layout,
    ) -> Float[Tensor, "L D"]:
        """Return the hidden states of whole targets (teacher forcing).

        M source tokens and L target tokens lie end to end, as the layouts describe.
        """
        encoded = self._encode(source, source_layout)
        x = self._embed(self.target_embedding, target)
        hidden = self.decoder.read(encoded, x, target_layout)
        return cast(Tensor, self.decoder_norm(hidden))

    def start(self, memory: Memory, beam: int = 1) -> State:
        return cast(State, self.decoder.start(memory, beam))

    def decode(
        self, memory: Memory, state: State, target: TargetIds, *, attention: bool = False
    ) -> Decoded:
        x = self._embed(self.target_embedding, target)  # (N, T, D)
        decoded = self.decoder.decode(memory, state, x, attention=attention)
        return replace(decoded, hidden=self.decoder_norm(decoded.hidden))

    def _embed(self, embedding: nn.Embedding, ids: Tensor) -> Hidden:
        """Return the embedded words of `ids`, scaled to variance 1."""
        # Embeddings that are also output weights have variance 1/D at the start, so that logits are
        # about 1. As inputs they are scaled to variance 1, the size of the positional encodings.
        return cast(Tensor, embedding(ids) * self.settings.d_model**0.5)

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        """The weights of the output projection; shared with embeddings unless `tie` is none."""
        return self.target_embedding.weight if self.output is None else self.output.weight

    def project(self, hidden: Float[Tensor, "... D"]) -> Logits:
        return F.linear(hidden, self.output_weight, self.output_bias)

    def output_factors(
        self, hidden: Float[Tensor, "... D"]
    ) -> tuple[Float[Tensor, "... E"], Float[Tensor, "V E"]]:
        """Return A and W with A W^T = project(hidden).

        Without a bias, E = D. A bias becomes one more column of W, which meets a 1 in A: E = D + 1.
        """
        if self.output_bias is None:
            return hidden, self.output_weight
        ones = hidden.new_ones(*hidden.shape[:-1], 1)
        factor = torch.cat([hidden, ones], dim=-1)
        weight = torch.cat([self.output_weight, self.output_bias.unsqueeze(1)], dim=1)
        return factor, weight


def _embedding(vocab: int, d_model: int) -> nn.Embedding:
    """Return an embedding with variance 1/D, as `_embed` expects; PAD is 0."""
    embedding = nn.Embedding(vocab, d_model)
    nn.init.normal_(embedding.weight, std=d_model**-0.5)
    with torch.no_grad():
        embedding.weight[PAD].zero_()
    return embedding
