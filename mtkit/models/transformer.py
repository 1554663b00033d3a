"""The Transformer encoder and decoder (Vaswani et al. 2017), post-norm as published or pre-norm.

Every layer is a chain of sublayers, each inside a residual sum with a norm (see `layers`).
Positions see each other in attention only. Attention knows no order, so positional encodings are
added to the embedded words. With `positions: none` the encoder treats a sentence as a set of words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import TransformerDecoderSettings, TransformerEncoderSettings
from mtkit.models.attention import (
    AttentionWeights,
    KeyValue,
    MultiHeadAttention,
    NeighbourhoodAttention,
)
from mtkit.models.device import to_autocast_dtype
from mtkit.models.interfaces import Decoded, Decoder, Encoder, EncoderOutput, Memory, State
from mtkit.models.layers import RESIDUALS, FeedForward, PositionalEncodings, build_dropout
from mtkit.models.layout import Bias, Layout, build_causal_bias
from mtkit.shapes import Hidden


@dataclass(frozen=True)
class TransformerMemory(Memory):
    """Keys and values of the source for each decoder layer, and the bias that hides padding."""

    layers: tuple[KeyValue, ...]
    bias: Bias | None


@dataclass(frozen=True)
class TransformerState(State):
    """The cache: for each decoder layer, keys and values of the target so far; dimension 0: N."""

    layers: tuple[KeyValue, ...]


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward."""

    def __init__(self, settings: TransformerEncoderSettings, d_model: int) -> None:
        super().__init__()
        heads = settings.heads
        dropout = settings.attention_dropout
        radius = settings.neighbourhood
        self.self_attention = (
            MultiHeadAttention(d_model, heads, dropout)
            if radius is None
            else NeighbourhoodAttention(d_model, heads, dropout, radius)
        )
        self.self_residual = RESIDUALS[settings.norm](d_model, settings.dropout)
        self.feed_forward = FeedForward(settings, d_model)
        self.feed_forward_residual = RESIDUALS[settings.norm](d_model, settings.dropout)

    def forward(
        self, x: Hidden, padding_bias: Bias | None, layout: Layout, *, with_weights: bool
    ) -> tuple[Hidden, AttentionWeights | None]:
        """Return the new hidden states and, if requested, the attention weights."""
        # `before` computes the norm with pre-norm, and nothing with post-norm. `after` adds the
        # sublayer's output to x, and computes the norm with post-norm.
        inputs = self.self_residual.before(x)
        query, keys_values = self.self_attention.query_keys_values(inputs, layout)
        attended, weights = self.self_attention(
            query, keys_values, padding_bias, layout, with_weights=with_weights
        )
        x = self.self_residual.after(x, attended)

        inputs = self.feed_forward_residual.before(x)
        x = self.feed_forward_residual.after(x, self.feed_forward(inputs))
        return x, weights


class DecoderLayer(nn.Module):
    """Masked self-attention, encoder-decoder attention, feed-forward."""

    def __init__(self, settings: TransformerDecoderSettings, d_model: int) -> None:
        super().__init__()
        heads = settings.heads
        dropout = settings.attention_dropout
        self.self_attention = MultiHeadAttention(d_model, heads, dropout)
        self.self_residual = RESIDUALS[settings.norm](d_model, settings.dropout)
        self.cross_attention = MultiHeadAttention(d_model, heads, dropout)
        self.cross_residual = RESIDUALS[settings.norm](d_model, settings.dropout)
        self.feed_forward = FeedForward(settings, d_model)
        self.feed_forward_residual = RESIDUALS[settings.norm](d_model, settings.dropout)

    def forward(
        self,
        x: Hidden,
        cache: KeyValue,
        causal_bias: Bias | None,
        source: KeyValue,
        source_bias: Bias | None,
        layout: Layout,
        *,
        with_weights: bool,
    ) -> tuple[Hidden, KeyValue, AttentionWeights | None, Float[Tensor, "N H T P"] | None]:
        """Return hidden states, the cache with T more positions, and cross and self-attention.

        `source`: keys and values of the encoder memory. P counts the positions of the cache.
        """
        inputs = self.self_residual.before(x)
        query, later = self.self_attention.query_keys_values(inputs, layout)
        cache = cache.append(later)
        attended, self_weights = self.self_attention(
            query, cache, causal_bias, layout, with_weights=with_weights
        )
        x = self.self_residual.after(x, attended)

        # Queries from the target, keys and values from the source: softmax(Q_dec K_enc^T) V_enc.
        inputs = self.cross_residual.before(x)
        query = self.cross_attention.queries(inputs, layout)
        attended, cross_weights = self.cross_attention(
            query, source, source_bias, layout, with_weights=with_weights
        )
        x = self.cross_residual.after(x, attended)

        inputs = self.feed_forward_residual.before(x)
        x = self.feed_forward_residual.after(x, self.feed_forward(inputs))
        return x, cache, cross_weights, self_weights


class TransformerEncoder(Encoder):
    """The encoder: every position attends to all positions, or to those near it."""

    def __init__(self, settings: TransformerEncoderSettings, d_model: int) -> None:
        super().__init__()
        self.needs_norm = settings.norm == "pre"
        self.positions = PositionalEncodings(settings.positions, d_model)
        self.embedding_dropout = build_dropout(settings.embedding_dropout, settings.dropout)
        self.layers = nn.ModuleList(EncoderLayer(settings, d_model) for _ in range(settings.layers))

    def forward(self, x: Hidden, layout: Layout, *, attention: bool = False) -> EncoderOutput:
        padding_bias = layout.bias_for(layout)
        x = self.embedding_dropout(x + layout.positions(self.positions))
        weights: list[Tensor] = []
        for layer in self.layers:
            x, layer_weights = layer(x, padding_bias, layout, with_weights=attention)
            weights.append(layer_weights)
        return EncoderOutput(x, layout, attention=tuple(weights) if attention else ())


class TransformerDecoder(Decoder[TransformerMemory, TransformerState]):
    """The decoder: position t attends to the target up to t, and to the whole source.

    Training computes all positions of the known target together; the causal bias hides later
    positions. Search caches the keys and values of earlier positions and computes only new ones.

    T counts the positions that `decode` reads, P all positions so far. The batch has N = B·K rows,
    where K counts the hypotheses of a sentence.
    """

    def __init__(self, settings: TransformerDecoderSettings, d_model: int) -> None:
        super().__init__()
        self.needs_norm = settings.norm == "pre"
        self.positions = PositionalEncodings(settings.positions, d_model)
        self.embedding_dropout = build_dropout(settings.embedding_dropout, settings.dropout)
        self.layers = nn.ModuleList(DecoderLayer(settings, d_model) for _ in range(settings.layers))

    def prepare_memory(self, encoded: EncoderOutput) -> TransformerMemory:
        layout = encoded.layout
        # Convert once: all layers multiply these states, and add up their gradients.
        states = to_autocast_dtype(encoded.states)
        layers: list[KeyValue] = []
        for layer in self.layers:
            attention = cast(DecoderLayer, layer).cross_attention
            layers.append(attention.keys_values(states, layout))
        # In search every sentence has a row of its own; `read` replaces this bias.
        rows = Layout(layout.mask)
        return TransformerMemory(tuple(layers), rows.bias_for(rows))

    def start(self, memory: TransformerMemory, beam: int) -> TransformerState:
        keys = memory.layers[0].key  # (B, H, S, Dh)
        sentences, heads, _, head_size = keys.shape
        empty = keys.new_zeros(sentences * beam, heads, 0, head_size)
        return TransformerState(tuple(KeyValue(empty, empty) for _ in self.layers))

    def decode(
        self,
        memory: TransformerMemory,
        state: TransformerState,
        x: Hidden,
        *,
        attention: bool = False,
    ) -> Decoded:
        past = state.layers[0].key.shape[2]
        length = x.shape[1]
        causal_bias = build_causal_bias(length, past, x.device)  # (T, P)
        x = x + self.positions(past, length)
        return self._run(memory, state, x, causal_bias, Layout.full(x), attention=attention)

    def read(self, encoded: EncoderOutput, x: Hidden, target_layout: Layout) -> Hidden:
        # Training: all positions of the known target at once (teacher forcing).
        source_bias = target_layout.bias_for(encoded.layout)  # hides other sentences of a row
        memory = replace(self.prepare_memory(encoded), bias=source_bias)
        x = x + target_layout.positions(self.positions)
        state = self.start(memory, 1)
        causal_bias = target_layout.causal_bias()
        return self._run(memory, state, x, causal_bias, target_layout).hidden

    def _run(
        self,
        memory: TransformerMemory,
        state: TransformerState,
        x: Hidden,
        causal_bias: Bias | None,
        layout: Layout,
        *,
        attention: bool = False,
    ) -> Decoded:
        """Run the layers on embedded words to which positions have been added."""
        x = self.embedding_dropout(x)
        caches: list[KeyValue] = []
        cross_weights: list[AttentionWeights] = []
        self_weights: list[Tensor] = []
        for layer, cache, source in zip(self.layers, state.layers, memory.layers, strict=True):
            x, longer_cache, of_source, of_target = layer(
                x, cache, causal_bias, source, memory.bias, layout, with_weights=attention
            )
            caches.append(longer_cache)
            cross_weights.append(of_source)
            self_weights.append(of_target)
        state = TransformerState(tuple(caches))
        if not attention:
            return Decoded(x, state, None)
        # The K hypotheses of a sentence were its K·T queries; they become rows again.
        by_layer: list[Tensor] = []
        for layer_weights in cross_weights:  # (B, H, K·T, S)
            by_hypothesis = layer_weights.unflatten(2, (-1, x.shape[1]))  # (B, H, K, T, S)
            rows = by_hypothesis.transpose(1, 2).flatten(0, 1)  # (N, H, T, S)
            by_layer.append(rows)
        return Decoded(
            hidden=x,
            state=state,
            attention=torch.stack(by_layer, dim=1),  # (N, L, H, T, S)
            self_attention=torch.stack(self_weights, dim=1),  # (N, L, H, T, P)
        )
