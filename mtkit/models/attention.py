"""Attention: one class for each kind.

The Transformer uses multi-head attention (Vaswani et al. 2017), over the whole sentence or within a
neighbourhood. The LSTM decoder uses global attention (Luong et al. 2015) with one of three scores:
dot product, general, or additive (Bahdanau et al. 2015).

Queries lead with N = B·K hypotheses, keys with B sentences. The K hypotheses of a sentence become
K·T queries on one memory, which is never copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.models.layers import SUBLAYER_GAIN, Dropout, linear
from mtkit.terms import Hidden, SourceHidden, SourceMask

MASKED_BIAS = -1e9
"""Added to masked scores; finite, so that a fully masked row does not become NaN."""

Heads = Float[Tensor, "B H Q Dh"]
AttentionWeights = Float[Tensor, "B H Q S"]
Bias = Float[Tensor, "*#scores"]


@dataclass(frozen=True)
class KeyValue:
    """Keys and values of one layer, split into heads."""

    key: Float[Tensor, "B H S Dh"]
    value: Float[Tensor, "B H S Dh"]

    def append(self, later: KeyValue) -> KeyValue:
        """Return this cache with the keys and values of later positions."""
        return KeyValue(
            torch.cat([self.key, later.key.to(self.key.dtype)], dim=2),
            torch.cat([self.value, later.value.to(self.value.dtype)], dim=2),
        )


def mask_to_bias(mask: Bool[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Return what to add to scores: 0 where the mask is True, MASKED_BIAS elsewhere."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, MASKED_BIAS)


def build_causal_bias(length: int, past: int, device: torch.device) -> Float[Tensor, "T P"] | None:
    """Return the causal mask of `length` new positions after `past` earlier ones, as a bias."""
    if length == 1:
        return None
    visible = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
    return mask_to_bias(visible)


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_head)) V for each head; the heads concatenated, times W^O.

    d_head = D / H. The product of two vectors with entries of variance 1 has variance d_head; the
    root scales it back to 1, where the softmax does not saturate.
    """

    fused_on: tuple[str, ...] = ("cuda",)
    """Device types with a fast kernel for all of it; on CPUs separate products are faster."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(d_model, d_model)
        self.key = linear(d_model, d_model)
        self.value = linear(d_model, d_model)
        self.output = linear(d_model, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(dropout)

    def keys_values(self, memory: SourceHidden) -> KeyValue:
        """Project a memory to keys and values, once for all its queries."""
        parts = (self._split(part(memory), len(memory)) for part in (self.key, self.value))
        return KeyValue(*parts)

    def forward(
        self, x: Hidden, memory: KeyValue, bias: Bias | None, *, weights: bool = False
    ) -> tuple[Hidden, AttentionWeights | None]:
        """Return the attended values and, if requested, the weights; `bias`: (B, H, K·T, S)."""
        # Scale the queries: they are fewer numbers than the scores.
        query = self._split(self.query(x) * (x.shape[-1] // self.heads) ** -0.5, len(memory.key))
        context, attention = self._attend(query, memory, bias, weights=weights)  # (B, H, K·T, D/H)
        return self.output(context.transpose(1, 2).reshape(x.shape)), attention  # (N, T, D)

    def _attend(
        self, query: Heads, memory: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        if query.device.type in self.fused_on and not weights:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, memory.key, memory.value, bias, dropout_p=dropout, scale=1.0
            )
            return context, None
        scores = query @ memory.key.transpose(-2, -1)  # (B, H, K·T, S)
        # The bias is float32, so the sum and the softmax are too, whatever the products are in.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(exact) if bias is None else scores + bias
        attention = scores.softmax(dim=-1)
        context = self.dropout(attention.to(memory.value.dtype)) @ memory.value  # (B, H, K·T, D/H)
        return context, attention if weights else None

    def _split(self, x: Tensor, sentences: int) -> Heads:
        """Split into heads; the K·T words of a sentence's K hypotheses become its queries."""
        return x.view(sentences, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class NeighbourhoodAttention(MultiHeadAttention):
    """Restricted self-attention: positions more than `radius` apart have weight 0. O(r·n·d).

    The sequence is cut into blocks of r positions. The queries of a block attend to the keys of
    their own and of the two adjacent blocks, masked to |i - j| <= r (Vaswani et al. 2017,
    section 4).
    """

    def __init__(self, d_model: int, heads: int, dropout: float, radius: int) -> None:
        super().__init__(d_model, heads, dropout)
        self.radius = radius

    def _attend(
        self, query: Heads, memory: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        length, r = query.shape[2], self.radius
        position = torch.arange(max(length, 3 * r), device=query.device)
        if bias is None:
            bias = torch.zeros(1, 1, 1, length, device=query.device)
        if weights:  # all of them take quadratic memory anyway
            i = position[:length]
            far = (i - i.unsqueeze(1)).abs() > r
            return super()._attend(query, memory, bias.masked_fill(far, MASKED_BIAS), weights=True)
        padding = -length % r
        blocks = F.pad(query, (0, 0, 0, padding)).unflatten(2, (-1, r))  # (B, H, S/r, r, D/H)
        # The 3r positions around each block, as views: (B, H, S/r, D/H, 3r) and (B, 1, S/r, 1, 3r).
        padded = (F.pad(x, (0, 0, r, r + padding)) for x in (memory.key, memory.value))
        key, value = (x.unfold(2, 3 * r, r) for x in padded)
        near = F.pad(bias, (r, r + padding), value=MASKED_BIAS).unfold(3, 3 * r, r).transpose(2, 3)
        distance = position[: 3 * r] - position[:r].unsqueeze(1) - r  # (r, 3r)
        scores = blocks @ key + near.masked_fill(distance.abs() > r, MASKED_BIAS)
        attention = scores.softmax(dim=-1)  # (B, H, S/r, r, 3r)
        context = self.dropout(attention.to(value.dtype)) @ value.transpose(-2, -1)
        return context.flatten(2, 3)[:, :, :length], None  # (B, H, S, D/H)


class GlobalAttention(nn.Module, ABC):
    """Attention of an LSTM decoder: α = softmax(scores), a = Σ α_i h_i, s̃ = tanh(W_c [a; s]).

    Luong et al. 2015, section 3.1.
    """

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * d_model, d_model, bias=bias)

    def keys(self, memory: SourceHidden) -> SourceHidden:
        """Compute, once per sentence, what the scores need of the memory."""
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
