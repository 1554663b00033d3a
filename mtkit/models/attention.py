"""Every kind of attention, one class each.

Multi-head attention (Vaswani et al. 2017) for the Transformer, whole or restricted to a
neighbourhood; dot and general (Luong et al. 2015) and additive (Bahdanau et al. 2015) for the LSTM.
All take queries that lead with N = B·K hypotheses against keys that lead with B sentences: the K
hypotheses of a sentence are folded into K·T queries on one memory, which is never copied.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mtkit.models.layers import Dropout, linear
from mtkit.terms import Hidden, SourceMask

MASKED_BIAS = -1e9
"""Added to the score of what must not be seen; finite, so that a wholly masked row is no NaN."""


@dataclass(frozen=True)
class KeyValue:
    """What queries of one layer look at, split by heads."""

    key: Float[Tensor, "B H S Dh"]
    value: Float[Tensor, "B H S Dh"]

    @property
    def length(self) -> int:
        return self.key.shape[2]

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
        self.output = linear(d_model, d_model)
        self.dropout = Dropout(dropout)

    def look_at(self, memory: Float[Tensor, "B S D"]) -> KeyValue:
        """Keys and values of what may be attended to; made once, used by any number of queries."""
        return KeyValue(
            self._split(self.key(memory), memory.shape[0]),
            self._split(self.value(memory), memory.shape[0]),
        )

    def forward(
        self,
        x: Hidden,
        seen: KeyValue,
        bias: Float[Tensor, "*#scores"] | None,
        *,
        weights: bool = False,
    ) -> tuple[Hidden, Float[Tensor, "B H Q S"] | None]:
        """The attended values and, if asked for, weights; `bias` broadcasts to (B, H, K·T, S)."""
        # Scaled while they are queries: there are fewer numbers in them than in the scores.
        query = self._split(self.query(x) * (x.shape[-1] // self.heads) ** -0.5, seen.key.shape[0])
        if has_fused_kernel(x.device) and not weights:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(
                query, seen.key, seen.value, bias, dropout_p=dropout, scale=1.0
            )
            return self._merge(context, x), None
        scores = query @ seen.key.transpose(-2, -1)  # (B, H, K·T, S)
        # The sum is float32 (the bias is), and so is the softmax, whatever the products are in.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(exact) if bias is None else scores + bias
        shares = scores.softmax(dim=-1)
        context = self.dropout(shares.to(seen.value.dtype)) @ seen.value  # (B, H, K·T, D/H)
        return self._merge(context, x), shares if weights else None  # (N, T, D)

    def _merge(self, context: Float[Tensor, "B H Q Dh"], like: Hidden) -> Hidden:
        return cast(Tensor, self.output(context.transpose(1, 2).reshape(like.shape)))

    def _split(self, x: Tensor, sentences: int) -> Float[Tensor, "B H Q Dh"]:
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

    def forward(
        self,
        x: Hidden,
        seen: KeyValue,
        bias: Float[Tensor, "*#scores"] | None,
        *,
        weights: bool = False,
    ) -> tuple[Hidden, Float[Tensor, "B H S S"] | None]:
        """As for whole attention; weights, if asked for, take the quadratic memory saved here."""
        batch, length, d_model = x.shape
        radius, missing = self.radius, -length % self.radius
        query = self._split(self.query(x) * (d_model // self.heads) ** -0.5, batch)
        query = F.pad(query, (0, 0, 0, missing))
        query = query.view(batch, self.heads, -1, radius, query.shape[-1])  # (B, H, S/r, r, D/H)
        key, value = (self._windows(tensor, missing) for tensor in (seen.key, seen.value))
        scores = query @ key  # (B, H, S/r, r, 3r)
        scores = scores + self._band(length, bias, x.device)
        shares = scores.softmax(dim=-1)
        context = self.dropout(shares.to(value.dtype)) @ value.transpose(-2, -1)
        context = context.flatten(2, 3)[:, :, :length]  # (B, H, S, D/H)
        return self._merge(context, x), self._whole(shares, length) if weights else None

    def _windows(self, x: Tensor, missing: int) -> Float[Tensor, "B H C Dh W"]:
        """(B, H, S, D/H) → for each block the 3r positions around it, as a view."""
        padded = F.pad(x, (0, 0, self.radius, self.radius + missing))
        return padded.unfold(2, 3 * self.radius, self.radius)

    def _whole(self, shares: Float[Tensor, "B H C r W"], length: int) -> Float[Tensor, "B H S S"]:
        """Weights of the 3r positions around each block as weights of all positions."""
        radius, blocks = self.radius, shares.shape[2]
        first = radius * torch.arange(blocks, device=shares.device).view(-1, 1, 1)
        position = (first + torch.arange(3 * radius, device=shares.device)).expand_as(shares)
        whole = shares.new_zeros(*shares.shape[:4], (blocks + 2) * radius)
        whole.scatter_(4, position, shares)
        return whole.flatten(2, 3)[:, :, :length, radius : radius + length]

    def _band(self, length: int, bias: Tensor | None, device: torch.device) -> Tensor:
        """Added to scores: MASKED_BIAS beyond the radius and the sentence, and what `bias` says."""
        radius, blocks = self.radius, -(-length // self.radius)
        offset = torch.arange(3 * radius, device=device) - radius  # of a key from its block
        distance = offset - torch.arange(radius, device=device).unsqueeze(1)  # (r, 3r)
        position = offset + radius * torch.arange(blocks, device=device).unsqueeze(1)  # (S/r, 3r)
        inside = (position >= 0) & (position < length)
        band = bias_of((distance.abs() <= radius) & inside.unsqueeze(1))  # (S/r, r, 3r)
        if bias is None:
            return band
        there = bias[..., 0, position.clamp(0, length - 1)]  # (B, 1, S/r, 3r)
        return band + there.unsqueeze(-2)  # (B, 1, S/r, r, 3r)


class RecurrentAttention(nn.Module, ABC):
    """Attention of an LSTM decoder: α = softmax(scores), a = Σ α_i h_i, s̃ = tanh(W_c [a; s])."""

    combine: nn.Linear

    def __init__(self, d_model: int, *, combine_bias: bool) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * d_model, d_model, bias=combine_bias)

    @abstractmethod
    def keys(self, memory: Float[Tensor, "B S D"]) -> Float[Tensor, "B S D"]:
        """What of `scores` depends on the memory alone; computed once per sentence."""

    @abstractmethod
    def scores(
        self, query: Float[Tensor, "B Q D"], keys: Float[Tensor, "B S D"]
    ) -> Float[Tensor, "B Q S"]:
        """How well each query fits each source position."""

    def forward(
        self,
        state: Hidden,
        keys: Float[Tensor, "B S D"],
        memory: Float[Tensor, "B S D"],
        mask: SourceMask,
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

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, combine_bias=True)

    def keys(self, memory: Tensor) -> Tensor:
        return memory

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """w = softmax(h_dec · W_a · h_enc^T), c = w·h_enc, h̃ = tanh([c; h_dec]·W_concat)."""

    def __init__(self, d_model: int) -> None:
        RecurrentAttention.__init__(self, d_model, combine_bias=False)
        self.bilinear = nn.Linear(d_model, d_model, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return cast(Tensor, self.bilinear(memory))


class AdditiveAttention(RecurrentAttention):
    """e_ti = v · tanh(W s_t + U h_i), Bahdanau et al. 2015, appendix A.1.2."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, combine_bias=True)
        self.project_query = nn.Linear(d_model, d_model, bias=False)
        self.project_key = nn.Linear(d_model, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def keys(self, memory: Tensor) -> Tensor:
        return cast(Tensor, self.project_key(memory))

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        mixed = torch.tanh(self.project_query(query).unsqueeze(2) + keys.unsqueeze(1))
        return cast(Tensor, self.score(mixed)).squeeze(-1)  # (B, Q, S, D) → (B, Q, S)
