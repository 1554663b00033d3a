"""Every kind of attention, one class each.

Multi-head attention (Vaswani et al. 2017) for the Transformer, whole or restricted to a
neighbourhood; dot and general (Luong et al. 2015) and additive (Bahdanau et al. 2015) for the LSTM.
All take queries that lead with N = B·K hypotheses against keys that lead with B sentences: the K
hypotheses of a sentence are folded into K·T queries on one memory, which is never copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.models.layers import SUBLAYER_GAIN, Dropout, linear
from mtkit.terms import Hidden, SourceHidden, SourceMask

MASKED_BIAS = -1e9
"""Added to the score of what must not be seen; finite, so that a wholly masked row is no NaN."""


Heads = Float[Tensor, "B H Q Dh"]
Shares = Float[Tensor, "B H Q S"]
Bias = Float[Tensor, "*#scores"]


@dataclass(frozen=True)
class KeyValue:
    """What queries of one layer look at, split by heads."""

    key: Float[Tensor, "B H S Dh"]
    value: Float[Tensor, "B H S Dh"]

    def followed_by(self, later: KeyValue) -> KeyValue:
        """This cache grown by later positions."""
        return KeyValue(
            torch.cat([self.key, later.key.to(self.key.dtype)], dim=2),
            torch.cat([self.value, later.value.to(self.value.dtype)], dim=2),
        )


def bias_of(mask: Bool[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """A mask (True: may be seen) as what is added to scores."""
    return torch.zeros(mask.shape, device=mask.device).masked_fill_(~mask, MASKED_BIAS)


def causal_bias(length: int, past: int, device: torch.device) -> Float[Tensor, "T P"] | None:
    """Position i of `length` new ones sees the `past` ones and the new ones up to itself."""
    if length == 1:
        return None
    seen = torch.ones(length, past + length, dtype=torch.bool, device=device).tril(past)
    return bias_of(seen)


def has_fused_kernel(device: torch.device) -> bool:
    """Whether softmax(Q K^T) V is faster as one kernel: on GPUs.

    PyTorch's kernel for CPUs takes several times as long as plain products for sentences of usual
    length, in bfloat16 above all.
    """
    return device.type == "cuda"


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_head)) V for each head; the heads concatenated, times W^O.

    Each head looks for something else, in d_head = D / H dimensions of its own. Of two vectors with
    entries of variance 1 the product has variance d_head: the root brings scores back to 1, where
    softmax is not yet a choice of one, whose gradient would be 0.
    """

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = linear(d_model, d_model)
        self.key = linear(d_model, d_model)
        self.value = linear(d_model, d_model)
        self.output = linear(d_model, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(dropout)

    def look_at(self, memory: SourceHidden) -> KeyValue:
        """Keys and values of what may be attended to; made once, used by any number of queries."""
        parts = (self._split(part(memory), len(memory)) for part in (self.key, self.value))
        return KeyValue(*parts)

    def forward(
        self, x: Hidden, seen: KeyValue, bias: Bias | None, *, weights: bool = False
    ) -> tuple[Hidden, Shares | None]:
        """The attended values and, if asked for, weights; `bias` broadcasts to (B, H, K·T, S)."""
        # Scaled while they are queries: there are fewer numbers in them than in the scores.
        query = self._split(self.query(x) * (x.shape[-1] // self.heads) ** -0.5, len(seen.key))
        context, shares = self._attend(query, seen, bias, weights=weights)  # (B, H, K·T, D/H)
        return self.output(context.transpose(1, 2).reshape(x.shape)), shares  # (N, T, D)

    def _attend(
        self, query: Heads, seen: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, Shares | None]:
        if has_fused_kernel(query.device) and not weights:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, seen.key, seen.value, bias, dropout_p=dropout, scale=1.0
            )
            return context, None
        scores = query @ seen.key.transpose(-2, -1)  # (B, H, K·T, S)
        # The sum is float32 (the bias is), and so is the softmax, whatever the products are in.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(exact) if bias is None else scores + bias
        shares = scores.softmax(dim=-1)
        context = self.dropout(shares.to(seen.value.dtype)) @ seen.value  # (B, H, K·T, D/H)
        return context, shares if weights else None

    def _split(self, x: Tensor, sentences: int) -> Heads:
        """By heads; K hypotheses of T words each become K·T queries on one sentence's memory."""
        return x.view(sentences, -1, self.heads, x.shape[-1] // self.heads).transpose(1, 2)


class NeighbourhoodAttention(MultiHeadAttention):
    """Self-attention in which positions more than `radius` apart have weight 0: O(r·n·d).

    The sequence is cut into blocks of r positions; a block's queries look at its own keys and those
    of the block on either side, masked to |i - j| <= r (restricted self-attention, Vaswani et al.
    2017, section 4).
    """

    def __init__(self, d_model: int, heads: int, dropout: float, radius: int) -> None:
        super().__init__(d_model, heads, dropout)
        self.radius = radius

    def _attend(
        self, query: Heads, seen: KeyValue, bias: Bias | None, *, weights: bool
    ) -> tuple[Heads, Shares | None]:
        """As for whole attention; weights, if asked for, take the quadratic memory saved here."""
        length, radius = query.shape[2], self.radius
        missing = -length % radius
        blocks = F.pad(query, (0, 0, 0, missing)).unflatten(2, (-1, radius))  # (B, H, S/r, r, D/H)
        # For each block the 3r positions around it, as a view: (B, H, S/r, D/H, 3r).
        padded = (F.pad(x, (0, 0, radius, radius + missing)) for x in (seen.key, seen.value))
        key, value = (x.unfold(2, 3 * radius, radius) for x in padded)
        scores = blocks @ key  # (B, H, S/r, r, 3r)
        offset = torch.arange(3 * radius, device=query.device) - radius  # of a key from its block
        distance = offset - torch.arange(radius, device=query.device).unsqueeze(1)  # (r, 3r)
        position = offset + radius * torch.arange(blocks.shape[2], device=query.device).unsqueeze(1)
        inside = (position >= 0) & (position < length)  # (S/r, 3r)
        band = bias_of((distance.abs() <= radius) & inside.unsqueeze(1))  # (S/r, r, 3r)
        if bias is not None:
            there = bias[..., 0, position.clamp(0, length - 1)]  # (B, 1, S/r, 3r)
            band = band + there.unsqueeze(-2)  # (B, 1, S/r, r, 3r)
        shares = (scores + band).softmax(dim=-1)
        context = self.dropout(shares.to(value.dtype)) @ value.transpose(-2, -1)
        context = context.flatten(2, 3)[:, :, :length]  # (B, H, S, D/H)
        if not weights:
            return context, None
        # Weights of the positions around each block as weights of all positions.
        whole = shares.new_zeros(*shares.shape[:4], length + missing + 2 * radius)
        whole.scatter_(4, (position + radius).unsqueeze(1).expand_as(shares), shares)
        return context, whole.flatten(2, 3)[:, :, :length, radius : radius + length]


class RecurrentAttention(nn.Module):
    """Attention of an LSTM decoder: α = softmax(scores), a = Σ α_i h_i, s̃ = tanh(W_c [a; s])."""

    combine_bias = True

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * d_model, d_model, bias=self.combine_bias)

    def keys(self, memory: SourceHidden) -> SourceHidden:
        """What of `scores` depends on the memory alone; computed once per sentence."""
        return memory

    def scores(self, query: Hidden, keys: SourceHidden) -> Float[Tensor, "B Q S"]:
        """How well each query fits each source position: their dot product, or as a kind has it."""
        return query @ keys.transpose(1, 2)

    def forward(
        self, state: Hidden, keys: SourceHidden, memory: SourceHidden, mask: SourceMask
    ) -> tuple[Hidden, Float[Tensor, "N T S"]]:
        """The attentional hidden state s̃, and the weights α; padding has weight 0."""
        query = state.reshape(memory.shape[0], -1, state.shape[-1])  # (B, K·T, D)
        scores = self.scores(query, keys) + bias_of(mask).unsqueeze(1)
        weights = scores.softmax(dim=-1)  # (B, K·T, S)
        context = (weights.to(memory.dtype) @ memory).view(state.shape)  # (N, T, D)
        combined = torch.tanh(self.combine(torch.cat([context, state.to(context.dtype)], dim=-1)))
        return combined, weights.reshape(*state.shape[:2], -1)


class DotAttention(RecurrentAttention):
    """e_t = [s_t·h_1 … s_t·h_N]; s̃_t = tanh(W_c [a_t; s_t] + b_c)."""


class GeneralAttention(RecurrentAttention):
    """w = softmax(h_dec · W_a · h_enc^T), c = w·h_enc, h̃ = tanh([c; h_dec]·W_concat)."""

    combine_bias = False

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.bilinear = nn.Linear(d_model, d_model, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return cast(Tensor, self.bilinear(memory))


class AdditiveAttention(RecurrentAttention):
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


RECURRENT = {"dot": DotAttention, "general": GeneralAttention, "additive": AdditiveAttention}
"""By their names in the settings."""
