"""The halves of the Transformer, Vaswani et al. 2017: post-norm as published, or pre-norm.

Every layer is a chain of sublayers, each inside a residual sum: x ← LayerNorm(x + Sublayer(x)), or
x ← x + Sublayer(LayerNorm(x)) as pre-norm (see `layers`). No sublayer but attention lets one
position know of another; hence the positional encodings that are added to the embedded words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import (
    TransformerDecoderSettings,
    TransformerEncoderSettings,
    TransformerLayers,
)
from mtkit.models.attention import (
    Bias,
    KeyValue,
    MultiHeadAttention,
    NeighbourhoodAttention,
    Shares,
    bias_of,
    causal_bias,
)
from mtkit.models.interfaces import Decoded, Decoder, Encoded, Encoder, Memory, State
from mtkit.models.layers import FeedForward, PostNorm, PreNorm, embedding_dropout, for_products
from mtkit.terms import Hidden, SourceHidden, SourceMask


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """The sentences as each decoder layer sees them; leads with B."""

    layers: tuple[KeyValue, ...]
    bias: Float[Tensor, "B 1 1 S"]


@dataclass(frozen=True)
class TransformerState(State):
    """Keys and values of the target read so far, per decoder layer; leads with N.

    So a step computes its own position alone, and attends to those before it as they were.
    """

    layers: tuple[KeyValue, ...]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each inside a residual sum with a norm."""

    def __init__(self, settings: TransformerEncoderSettings, d_model: int) -> None:
        super().__init__()
        self.self_attention = _attention(settings, d_model, settings.neighbourhood)
        self.self_residual = _residual(settings, d_model)
        self.feed_forward = FeedForward(settings, d_model)
        self.feed_forward_residual = _residual(settings, d_model)

    def forward(self, x: Hidden, bias: Bias, *, weights: bool) -> tuple[Hidden, Shares | None]:
        """The new hidden states and, if asked, the weights."""
        # Query, key and value all read the same words: converted once for their three products.
        inner = for_products(self.self_residual.enter(x))  # (B, S, D)
        seen = self.self_attention.look_at(inner)
        attended, shares = self.self_attention(inner, seen, bias, weights=weights)
        x = self.self_residual.leave(x, attended)  # norm(x + attended), or x + attended
        inner = self.feed_forward_residual.enter(x)
        return self.feed_forward_residual.leave(x, self.feed_forward(inner)), shares


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward."""

    def __init__(self, settings: TransformerDecoderSettings, d_model: int) -> None:
        super().__init__()
        self.self_attention = _attention(settings, d_model)
        self.self_residual = _residual(settings, d_model)
        self.cross_attention = _attention(settings, d_model)
        self.cross_residual = _residual(settings, d_model)
        self.feed_forward = FeedForward(settings, d_model)
        self.feed_forward_residual = _residual(settings, d_model)

    def forward(
        self,
        x: Hidden,
        past: KeyValue,
        causal: Float[Tensor, "T P"] | None,
        memory: KeyValue,
        bias: Float[Tensor, "B 1 1 S"],
        *,
        weights: bool,
    ) -> tuple[Hidden, KeyValue, Shares | None, Float[Tensor, "N H T P"] | None]:
        """The new hidden states, the grown cache; if asked, encoder-decoder and own weights."""
        inner = for_products(self.self_residual.enter(x))
        cache = past.followed_by(self.self_attention.look_at(inner))  # P = past + T positions
        attended, own = self.self_attention(inner, cache, causal, weights=weights)
        x = self.self_residual.leave(x, attended)
        # Queries are of the target, keys and values of the source: softmax(Q_dec K_enc^T) V_enc.
        inner = self.cross_residual.enter(x)
        attended, shares = self.cross_attention(inner, memory, bias, weights=weights)
        x = self.cross_residual.leave(x, attended)
        inner = self.feed_forward_residual.enter(x)
        return self.feed_forward_residual.leave(x, self.feed_forward(inner)), cache, shares, own


class TransformerEncoder(Encoder):
    """Every position sees every other, at once."""

    def __init__(
        self, settings: TransformerEncoderSettings, d_model: int, positions: nn.Module
    ) -> None:
        super().__init__()
        self.positions = positions
        self.embedding_dropout = embedding_dropout(settings)
        self.layers = nn.ModuleList(EncoderLayer(settings, d_model) for _ in range(settings.layers))

    def forward(self, x: SourceHidden, mask: SourceMask, *, attention: bool = False) -> Encoded:
        bias = bias_of(mask)[:, None, None, :]  # (B, 1, 1, S): for all heads and queries alike
        x = self.embedding_dropout(x + self.positions(0, x.shape[1]))
        weights = []
        for layer in self.layers:
            x, shares = layer(x, bias, weights=attention)
            weights.append(shares)
        return Encoded(x, mask, attention=tuple(weights) if attention else ())


class TransformerDecoder(Decoder[TransformerMemory, TransformerState]):
    """Position t sees the target up to t, and all of the source.

    In training the whole target is known, and all its positions are computed at once: the causal
    bias hides from each what follows it. In search the keys and values of the past are kept.
    """

    def __init__(
        self, settings: TransformerDecoderSettings, d_model: int, positions: nn.Module
    ) -> None:
        super().__init__()
        self.positions = positions
        self.embedding_dropout = embedding_dropout(settings)
        self.layers = nn.ModuleList(DecoderLayer(settings, d_model) for _ in range(settings.layers))

    def remember(self, encoded: Encoded) -> TransformerMemory:
        # Keys and values of the source are the same at every step: they are made here, once.
        states = for_products(encoded.states)
        layers = [cast(DecoderLayer, layer).cross_attention for layer in self.layers]
        seen = tuple(layer.look_at(states) for layer in layers)
        bias = bias_of(encoded.mask)[:, None, None, :]  # (B, 1, 1, S)
        return TransformerMemory(seen, bias)

    def start(self, memory: TransformerMemory, beam: int) -> TransformerState:
        keys = memory.layers[0].key  # (B, H, S, D/H)
        empty = keys.new_zeros(keys.shape[0] * beam, keys.shape[1], 0, keys.shape[3])
        return TransformerState(tuple(KeyValue(empty, empty) for _ in self.layers))

    def decode(
        self,
        memory: TransformerMemory,
        state: TransformerState,
        x: Hidden,
        *,
        attention: bool = False,
    ) -> Decoded:
        past, length = state.layers[0].key.shape[2], x.shape[1]
        causal = causal_bias(length, past, x.device)  # (T, P)
        x = self.embedding_dropout(x + self.positions(past, length))
        caches, weights, own_weights = [], [], []
        for layer, cache, seen in zip(self.layers, state.layers, memory.layers, strict=True):
            x, grown, shares, own = layer(x, cache, causal, seen, memory.bias, weights=attention)
            caches.append(grown)
            weights.append(shares)
            own_weights.append(own)
        now = TransformerState(tuple(caches))
        if not attention:
            return Decoded(x, now, None)
        # K hypotheses are K·T queries on one memory: (B, H, K·T, S) becomes (N, H, T, S).
        split = [w.unflatten(2, (-1, length)).transpose(1, 2).flatten(0, 1) for w in weights]
        return Decoded(x, now, torch.stack(split, dim=1), torch.stack(own_weights, dim=1))


def _residual(settings: TransformerLayers, d_model: int) -> PostNorm:
    kind = PostNorm if settings.norm == "post" else PreNorm
    return kind(d_model, settings.dropout)


def _attention(
    settings: TransformerLayers, d_model: int, radius: int | None = None
) -> MultiHeadAttention:
    sizes = d_model, settings.heads, settings.attention_dropout
    return MultiHeadAttention(*sizes) if radius is None else NeighbourhoodAttention(*sizes, radius)
