"""The Transformer, Vaswani et al. 2017: post-norm as published, pre-norm as an option."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import TransformerSettings
from mtkit.models.attention import (
    KeyValue,
    MultiHeadAttention,
    NeighbourhoodAttention,
    bias_of,
    causal_bias,
)
from mtkit.models.base import Decoded, Memory, TranslationModel
from mtkit.models.layers import (
    Dropout,
    FeedForward,
    LearnedPositions,
    PostNorm,
    PreNorm,
    SinusoidalPositions,
    for_products,
)
from mtkit.terms import Hidden, SourceIds, SourceMask, TargetIds


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """The sentences as each decoder layer sees them; leads with B."""

    layers: tuple[KeyValue, ...]
    bias: Float[Tensor, "B 1 1 S"]


@dataclass(frozen=True)
class TransformerState:
    """Keys and values of the target read so far, per decoder layer; leads with N."""

    layers: tuple[KeyValue, ...]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual sum with a norm."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = _self_attention(settings)
        self.self_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(
        self, x: Hidden, bias: Tensor, *, weights: bool
    ) -> tuple[Hidden, Float[Tensor, "B H S S"] | None]:
        """The new hidden states and, if asked, the weights."""
        inner = for_products(self.self_residual.enter(x))
        attended, shares = self.self_attention(
            inner, self.self_attention.look_at(inner), bias, weights=weights
        )
        x = self.self_residual.leave(x, attended)
        inner = self.feed_forward_residual.enter(x)
        return self.feed_forward_residual.leave(x, self.feed_forward(inner)), shares


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward."""

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = _attention(settings)
        self.self_residual = _residual(settings)
        self.cross_attention = _attention(settings)
        self.cross_residual = _residual(settings)
        self.feed_forward = _feed_forward(settings)
        self.feed_forward_residual = _residual(settings)

    def forward(
        self,
        x: Hidden,
        past: KeyValue,
        causal: Tensor | None,
        memory: KeyValue,
        bias: Tensor,
        *,
        weights: bool,
    ) -> tuple[Hidden, KeyValue, Float[Tensor, "B H Q S"] | None, Float[Tensor, "N H T P"] | None]:
        """The new hidden states, the grown cache; if asked, encoder-decoder and own weights."""
        inner = for_products(self.self_residual.enter(x))
        cache = past.followed_by(self.self_attention.look_at(inner))
        attended, own = self.self_attention(inner, cache, causal, weights=weights)
        x = self.self_residual.leave(x, attended)
        attended, shares = self.cross_attention(
            self.cross_residual.enter(x), memory, bias, weights=weights
        )
        x = self.cross_residual.leave(x, attended)
        inner = self.feed_forward_residual.enter(x)
        return self.feed_forward_residual.leave(x, self.feed_forward(inner)), cache, shares, own


class Transformer(TranslationModel):
    """Encoder and decoder stacks behind the contract of `TranslationModel`."""

    def __init__(self, settings: TransformerSettings, source_vocab: int, target_vocab: int) -> None:
        super().__init__(
            source_vocab,
            target_vocab,
            settings.d_model,
            settings.tie,
            output_bias=settings.output_bias,
        )
        self.settings = settings
        if settings.positions == "sinusoidal":
            self.positions: nn.Module = SinusoidalPositions(settings.d_model)
        else:
            self.positions = LearnedPositions(settings.d_model, settings.max_positions)
        dropout = settings.embedding_dropout
        self.embedding_dropout = Dropout(settings.dropout if dropout is None else dropout)
        encoder_depth = settings.encoder_layers or settings.layers
        decoder_depth = settings.decoder_layers or settings.layers
        self.encoder = nn.ModuleList(EncoderLayer(settings) for _ in range(encoder_depth))
        self.decoder = nn.ModuleList(DecoderLayer(settings) for _ in range(decoder_depth))
        final = nn.LayerNorm if settings.norm == "pre" else nn.Identity
        self.encoder_norm = final(settings.d_model)
        self.decoder_norm = final(settings.d_model)

    def encode(
        self, source: SourceIds, source_mask: SourceMask, *, attention: bool = False
    ) -> TransformerMemory:
        bias = bias_of(source_mask)[:, None, None, :]
        x = self._embed(self.source_embedding, source, 0)
        weights = []
        for layer in self.encoder:
            x, shares = layer(x, bias, weights=attention)
            weights.append(shares)
        memory = for_products(self.encoder_norm(x))
        layers = [cast(DecoderLayer, layer).cross_attention for layer in self.decoder]
        seen = tuple(layer.look_at(memory) for layer in layers)
        return TransformerMemory(seen, bias, attention=tuple(weights) if attention else ())

    def start(self, memory: TransformerMemory, beam: int = 1) -> TransformerState:
        keys = memory.layers[0].key
        empty = keys.new_zeros(keys.shape[0] * beam, keys.shape[1], 0, keys.shape[3])
        return TransformerState(tuple(KeyValue(empty, empty) for _ in self.decoder))

    def decode(
        self,
        memory: TransformerMemory,
        state: TransformerState,
        target: TargetIds,
        *,
        attention: bool = False,
    ) -> Decoded:
        past = state.layers[0].length
        causal = causal_bias(target.shape[1], past, target.device)
        x = self._embed(self.target_embedding, target, past)
        caches, weights, own_weights = [], [], []
        for layer, cache, seen in zip(self.decoder, state.layers, memory.layers, strict=True):
            x, grown, shares, own = layer(x, cache, causal, seen, memory.bias, weights=attention)
            caches.append(grown)
            weights.append(shares)
            own_weights.append(own)
        return Decoded(
            self.decoder_norm(x),
            TransformerState(tuple(caches)),
            _unfold(weights, target) if attention else None,
            torch.stack(own_weights, dim=1) if attention else None,
        )

    def _embed(self, embedding: nn.Embedding, ids: Tensor, start: int) -> Hidden:
        scaled = embedding(ids) * self.settings.d_model**0.5
        return cast(Tensor, self.embedding_dropout(scaled + self.positions(start, ids.shape[1])))


def _unfold(
    layers: list[Float[Tensor, "B H Q S"]], target: TargetIds
) -> Float[Tensor, "N L H T S"]:
    split = [weights.unflatten(2, (-1, target.shape[1])) for weights in layers]  # (B, H, K, T, S)
    return torch.stack([weights.transpose(1, 2).flatten(0, 1) for weights in split], dim=1)


def _residual(settings: TransformerSettings) -> PostNorm:
    kind = PostNorm if settings.norm == "post" else PreNorm
    return kind(settings.d_model, settings.dropout)


def _feed_forward(settings: TransformerSettings) -> FeedForward:
    return FeedForward(
        settings.d_model, settings.ffn, settings.activation, settings.activation_dropout
    )


def _attention(settings: TransformerSettings) -> MultiHeadAttention:
    return MultiHeadAttention(settings.d_model, settings.heads, settings.attention_dropout)


def _self_attention(settings: TransformerSettings) -> MultiHeadAttention:
    if settings.neighbourhood is None:
        return _attention(settings)
    return NeighbourhoodAttention(
        settings.d_model, settings.heads, settings.attention_dropout, settings.neighbourhood
    )
