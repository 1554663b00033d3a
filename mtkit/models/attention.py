"""Attention: one class for each kind.

The Transformer uses multi-head attention (Vaswani et al. 2017), over the whole sentence or within a
neighbourhood. The LSTM decoder uses global attention (Luong et al. 2015) with one of three scores:
dot product, general, or additive (Bahdanau et al. 2015).

The first dimension of queries is N = B·K (hypotheses), that of keys is B (sentences). The K
hypotheses of a sentence become K·T queries on one encoder memory, which is never copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.models.layers import SUBLAYER_GAIN, Dropout, Linear, linear
from mtkit.models.layout import MASKED_BIAS, Bias, Layout, mask_to_bias
from mtkit.terms import Hidden, SourceHidden, SourceMask

Heads = Float[Tensor, "B H Q Dh"]
AttentionWeights = Float[Tensor, "B H Q S"]


@dataclass(frozen=True)
class KeyValue:
    """Keys and values of one layer, split into heads."""

    key: Float[Tensor, "B H S Dh"]
    value: Float[Tensor, "B H S Dh"]

    def append(self, later: KeyValue) -> KeyValue:
        """Return this cache with the keys and values of later positions."""
        if self.key.shape[2] == 0:
            return later
        return KeyValue(
            torch.cat([self.key, later.key.to(self.key.dtype)], dim=2),
            torch.cat([self.value, later.value.to(self.value.dtype)], dim=2),
        )


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_head)) V for each head; the heads concatenated, times W^O.

    d_head = D / H. The dot product of two vectors with entries of variance 1 has variance d_head;
    dividing by its root makes the variance 1, so that the softmax does not saturate.
    """

    fused_on: tuple[str, ...] = ("cuda",)
    """Device types with a fast kernel for the whole formula; on CPUs separate steps are faster."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(d_model, d_model)
        self.key = linear(d_model, d_model)
        self.value = linear(d_model, d_model)
        self.output = linear(d_model, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(dropout)

    def query_keys_values(self, x: Hidden, layout: Layout) -> tuple[Hidden, KeyValue]:
        """Project words to queries, keys and values, for self-attention."""
        query, key, value = self._project(x, layout, self.query, self.key, self.value)
        return query, KeyValue(self._split(key, len(key)), self._split(value, len(value)))

    def queries(self, x: Hidden, layout: Layout) -> Hidden:
        """Project words to queries, for attention to another sequence."""
        return layout.pad(self.query(x))

    def keys_values(self, memory: Hidden, layout: Layout) -> KeyValue:
        """Project a memory to keys and values, once for all queries to come."""
        key, value = self._project(memory, layout, self.key, self.value)
        return KeyValue(self._split(key, len(key)), self._split(value, len(value)))

    def _project(self, x: Hidden, layout: Layout, *parts: Linear) -> Sequence[Hidden]:
        """Return the product of `x` with each of the weights, padded to rows.

        In training the weights are joined for one product; search would join them at every step.
        """
        if not self.training:
            return [layout.pad(part(x)) for part in parts]
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        return layout.pad(F.linear(x, weight, bias)).chunk(len(parts), dim=-1)

    def forward(
        self,
        query: Hidden,
        memory: KeyValue,
        mask: Bias | None,
        layout: Layout,
        *,
        weights: bool = False,
    ) -> tuple[Hidden, AttentionWeights | None]:
        """Return the attended values and, if requested, the weights; `mask`: (B, H, K·T, S)."""
        split = self._split(query, len(memory.key))
        context, attention = self._attend(split, memory, mask, weights=weights)  # (B, H, K·T, D/H)
        joined = context.transpose(1, 2).reshape(query.shape)
        return self.output(layout.unpad(joined)), attention

    def _attend(
        self, query: Heads, memory: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        if query.device.type in self.fused_on and not weights:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, memory.key, memory.value, bias, dropout_p=dropout
            )
            return context, None
        # Scale the queries rather than the scores, because they are fewer numbers.
        scores = (query * query.shape[-1] ** -0.5) @ memory.key.transpose(-2, -1)  # (B, H, K·T, S)
        # The bias is float32, so sum and softmax are in float32, whatever the type of the products.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(exact) if bias is None else scores + bias
        attention = scores.softmax(dim=-1)
        context = self.dropout(attention.to(memory.value.dtype)) @ memory.value  # (B, H, K·T, D/H)
        return context, attention if weights else None

    def _split(self, x: Tensor, sentences: int) -> Heads:
        """Split into heads; the K·T words of a sentence's K hypotheses become its queries."""
        return x.reshape(sentences, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class NeighbourhoodAttention(MultiHeadAttention):
    """Restricted self-attention: positions more than `radius` apart have weight 0. O(r·n·d).

    The sequence is cut into blocks of r positions. The queries of a block attend to the keys of the
    same block and of the two adjacent ones, masked to |i - j| <= r (Vaswani et al. 2017,
    section 4).
    """

    def __init__(self, d_model: int, heads: int, dropout: float, radius: int) -> None:
        super().__init__(d_model, heads, dropout)
        self.radius = radius

    def _attend(
        self, query: Heads, memory: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        length = query.shape[2]
        if bias is None:
            bias = torch.zeros(1, 1, 1, length, device=query.device)
        if weights:  # the full matrix takes quadratic memory anyway
            position = torch.arange(length, device=query.device)
            is_far = (position - position.unsqueeze(1)).abs() > self.radius
            bias = bias.masked_fill(is_far, MASKED_BIAS)
            return super()._attend(query, memory, bias, weights=True)
        return self._attend_in_blocks(query, memory, bias), None

    def _attend_in_blocks(self, query: Heads, memory: KeyValue, bias: Bias) -> Heads:
        """Return the attended values, computed in blocks of r = `radius` queries."""
        r = self.radius
        length = query.shape[2]
        padding = -length % r  # to a whole number of blocks
        query = query * query.shape[-1] ** -0.5
        blocks = F.pad(query, (0, 0, 0, padding)).unflatten(2, (-1, r))  # (B, H, S/r, r, D/H)

        # The 3r positions around each block, as views, because copies would take three times the
        # memory: (B, H, S/r, D/H, 3r) and (B, 1, S/r, 1, 3r).
        key = F.pad(memory.key, (0, 0, r, r + padding)).unfold(2, 3 * r, r)
        value = F.pad(memory.value, (0, 0, r, r + padding)).unfold(2, 3 * r, r)
        bias = F.pad(bias, (r, r + padding), value=MASKED_BIAS).unfold(3, 3 * r, r).transpose(2, 3)

        # The first of a block's 3r positions is r places before the block.
        key_position = torch.arange(3 * r, device=query.device) - r
        query_position = torch.arange(r, device=query.device)
        distance = key_position - query_position.unsqueeze(1)  # (r, 3r)
        scores = blocks @ key + bias.masked_fill(distance.abs() > r, MASKED_BIAS)
        attention = scores.softmax(dim=-1)  # (B, H, S/r, r, 3r)
        context = self.dropout(attention.to(value.dtype)) @ value.transpose(-2, -1)
        return cast(Tensor, context.flatten(2, 3)[:, :, :length])  # (B, H, S, D/H)


class GlobalAttention(nn.Module, ABC):
    """Attention of an LSTM decoder: α = softmax(scores), a = Σ α_i h_i, s̃ = tanh(W_c [a; s]).

    Luong et al. 2015, section 3.1.
    """

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * d_model, d_model, bias=bias)

    def keys(self, memory: SourceHidden) -> SourceHidden:
        """Compute the part of the scores that depends only on the memory, once per sentence."""
        return memory

    @abstractmethod
    def scores(self, query: Hidden, keys: SourceHidden) -> Float[Tensor, "B Q S"]:
        """Score every source position for each query."""

    def forward(
        self, state: Hidden, keys: SourceHidden, memory: SourceHidden, mask: SourceMask
    ) -> tuple[Hidden, Float[Tensor, "N T S"]]:
        """Return the attentional hidden states s̃ and the weights α; padding has weight 0."""
        query = state.reshape(memory.shape[0], -1, state.shape[-1])  # (B, K·T, D)
        scores = self.scores(query, keys) + mask_to_bias(mask).unsqueeze(1)
        weights = scores.softmax(dim=-1)  # (B, K·T, S)
        context = (weights.to(memory.dtype) @ memory).view(state.shape)  # (N, T, D)
        combined = torch.tanh(self.combine(torch.cat([context, state.to(context.dtype)], dim=-1)))
        return combined, weights.reshape(*state.shape[:2], -1)


class DotAttention(GlobalAttention):
    """e_t = [s_t·h_1 … s_t·h_N]; s̃_t = tanh(W_c [a_t; s_t] + b_c)."""

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """w = softmax(h_dec · W_a · h_enc^T), c = w·h_enc, h̃ = tanh([c; h_dec]·W_concat)."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, bias=False)
        self.bilinear = nn.Linear(d_model, d_model, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return cast(Tensor, self.bilinear(memory))


class AdditiveAttention(GlobalAttention):
    """e_ti = v · tanh(W s_t + U h_i), Bahdanau et al. 2015, appendix A.1.2."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.project_query = nn.Linear(d_model, d_model, bias=False)
        self.project_key = nn.Linear(d_model, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return cast(Tensor, self.project_key(memory))

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        mixed = torch.tanh(self.project_query(query).unsqueeze(2) + keys.unsqueeze(1))
        return cast(Tensor, self.score(mixed)).squeeze(-1)  # (B, Q, S, D) → (B, Q, S)


GLOBAL_ATTENTIONS = {
    "dot": DotAttention,
    "general": GeneralAttention,
    "additive": AdditiveAttention,
}
