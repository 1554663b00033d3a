"""Attention: one class for each kind.

The Transformer uses multi-head attention (Vaswani et al. 2017), over the whole sentence or within a
neighbourhood. The LSTM decoder uses global attention (Luong et al. 2015) with one of three scores:
dot product, general, or additive (Bahdanau et al. 2015).

Shapes: B sentences, K hypotheses of each, N = B·K, H heads of size Dh = D / H, S source positions,
T target positions. The first dimension of queries is N, that of keys is B. The K hypotheses of a
sentence become Q = K·T queries on one encoder memory, which is never copied. In self-attention
every row is a sentence of its own, so there K is 1.
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

from mtkit.models.layers import SUBLAYER_GAIN, Dropout, Linear, build_linear
from mtkit.models.layout import MASKED_BIAS, Bias, Layout, mask_to_bias
from mtkit.shapes import Hidden, SourceHidden, SourceMask

Heads = Float[Tensor, "B H Q Dh"]
AttentionWeights = Float[Tensor, "B H Q S"]


@dataclass(frozen=True)
class KeyValue:
    """Keys and values of one layer, split into heads; S counts the positions of either side."""

    key: Float[Tensor, "B H S Dh"]
    value: Float[Tensor, "B H S Dh"]

    def append(self, later: KeyValue) -> KeyValue:
        """Return this cache with the keys and values of later positions."""
        if self.key.shape[2] == 0:  # saves a copy
            return later
        return KeyValue(
            key=torch.cat([self.key, later.key.to(self.key.dtype)], dim=2),
            value=torch.cat([self.value, later.value.to(self.value.dtype)], dim=2),
        )


class MultiHeadAttention(nn.Module):
    """softmax(Q K^T / sqrt(d_head)) V for each head; the heads concatenated, times W^O.

    The dot product of two vectors with entries of variance 1 has the variance d_head. Divided by
    √d_head, the dot product has the variance 1, so that the softmax does not saturate.
    """

    fused_on: tuple[str, ...] = ("cuda",)
    """Device types on which torch's kernel for the whole formula is faster than separate steps."""

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.query = build_linear(d_model, d_model)
        self.key = build_linear(d_model, d_model)
        self.value = build_linear(d_model, d_model)
        # Only the last layer of a sublayer has a gain: it alone scales what the sum gets.
        self.output = build_linear(d_model, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(dropout)

    def query_keys_values(self, x: Hidden, layout: Layout) -> tuple[Hidden, KeyValue]:
        """Project words to queries, keys and values, for self-attention."""
        query, key, value = self._project(x, layout, self.query, self.key, self.value)
        sentences = len(key)
        return query, KeyValue(self._split(key, sentences), self._split(value, sentences))

    def queries(self, x: Hidden, layout: Layout) -> Hidden:
        """Project words to queries, for attention to another sequence."""
        return layout.pad(self.query(x))

    def keys_values(self, states: Hidden, layout: Layout) -> KeyValue:
        """Project encoder states to keys and values, once for all queries to come."""
        key, value = self._project(states, layout, self.key, self.value)
        sentences = len(key)
        return KeyValue(self._split(key, sentences), self._split(value, sentences))

    def _project(self, x: Hidden, layout: Layout, *parts: Linear) -> Sequence[Hidden]:
        """Return x W^T + b for each of the linear layers `parts`, padded to rows.

        In training the weights are joined for one product; search would join them at every step.
        """
        if not self.training:
            return [layout.pad(part(x)) for part in parts]
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        product = F.linear(x, weight, bias)
        return layout.pad(product).chunk(len(parts), dim=-1)

    def forward(
        self,
        query: Hidden,
        keys_values: KeyValue,
        bias: Bias | None,
        layout: Layout,
        *,
        with_weights: bool = False,
    ) -> tuple[Hidden, AttentionWeights | None]:
        """Return the attended values and, if requested, the weights.

        `query` comes from `queries` or `query_keys_values`. `bias`: (B, H, Q, S), or a shape that
        broadcasts to it. `layout`: that of the queries and of the result.
        """
        split = self._split(query, len(keys_values.key))  # (B, H, Q, Dh)
        context, attention = self._attend(split, keys_values, bias, with_weights=with_weights)
        joined = context.transpose(1, 2).reshape(query.shape)  # (N, T, D)
        return self.output(layout.unpad(joined)), attention

    def _attend(
        self, query: Heads, keys_values: KeyValue, bias: Bias | None, *, with_weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        """Return softmax(Q K^T / sqrt(d_head) + bias) V, and the softmax if requested."""
        key = keys_values.key
        value = keys_values.value
        if query.device.type in self.fused_on and not with_weights:
            dropout = self.dropout.p if self.training else 0.0
            context = F.scaled_dot_product_attention(query, key, value, bias, dropout_p=dropout)
            return context, None
        context, attention = self._attend_in_steps(query, key, value, bias)
        return context, attention if with_weights else None

    def _attend_in_steps(
        self,
        query: Float[Tensor, "*of Q Dh"],
        key: Float[Tensor, "*of S Dh"],
        value: Float[Tensor, "*of S Dh"],
        bias: Tensor | None,
    ) -> tuple[Float[Tensor, "*of Q Dh"], Float[Tensor, "*of Q S"]]:
        """Return softmax(Q K^T / sqrt(d_head) + bias) V, and the softmax."""
        # Scale the queries rather than the scores, because they are fewer numbers.
        scaled = query * query.shape[-1] ** -0.5
        scores = scaled @ key.transpose(-2, -1)  # (..., Q, S)
        # The softmax is in float32; float64 stays float64. Adding the float32 bias converts the
        # scores; without a bias they are converted here.
        exact = torch.promote_types(scores.dtype, torch.float32)
        scores = scores.to(exact) if bias is None else scores + bias
        attention = scores.softmax(dim=-1)
        context = self.dropout(attention.to(value.dtype)) @ value  # (..., Q, Dh)
        return context, attention

    def _split(self, x: Tensor, sentences: int) -> Heads:
        """Split D into heads; the words of the K hypotheses of a sentence become one dimension."""
        head_size = x.shape[-1] // self.heads
        by_head = x.reshape(sentences, -1, self.heads, head_size)  # (B, K·T, H, Dh)
        return by_head.transpose(1, 2)


class NeighbourhoodAttention(MultiHeadAttention):
    """Restricted self-attention: positions more than `radius` apart have weight 0. O(r·n·d).

    The sequence is cut into blocks of r = `radius` positions. The queries of a block attend to the
    keys of the same block and of the two adjacent blocks; keys with |i - j| > r are hidden (Vaswani
    et al. 2017, section 4).
    """

    def __init__(self, d_model: int, heads: int, dropout: float, radius: int) -> None:
        super().__init__(d_model, heads, dropout)
        self.radius = radius

    def _attend(
        self, query: Heads, keys_values: KeyValue, bias: Bias | None, *, with_weights: bool
    ) -> tuple[Heads, AttentionWeights | None]:
        """Return what `MultiHeadAttention` returns, but with weight 0 at a distance above r.

        `bias`: (B or 1, 1, 1, S).
        """
        length = query.shape[2]
        if bias is None:
            bias = torch.zeros(1, 1, 1, length, device=query.device)
        if with_weights:  # the full matrix takes quadratic memory anyway
            position = torch.arange(length, device=query.device)
            offset = position - position.unsqueeze(1)  # (S, S)
            bias = bias.masked_fill(offset.abs() > self.radius, MASKED_BIAS)
            return super()._attend(query, keys_values, bias, with_weights=True)
        return self._attend_in_blocks(query, keys_values, bias), None

    def _attend_in_blocks(self, query: Heads, keys_values: KeyValue, bias: Bias) -> Heads:
        """Return the attended values, computed in blocks of r = `radius` queries.

        `bias`: (B or 1, 1, 1, S). The number of blocks is C = S / r, rounded up.
        """
        r = self.radius
        length = query.shape[2]
        missing = -length % r  # positions that the last block lacks
        padded = F.pad(query, (0, 0, 0, missing))  # (B, H, C·r, Dh)
        blocks = padded.unflatten(2, (-1, r))  # (B, H, C, r, Dh)
        key = self._windows(keys_values.key, fill=0.0).transpose(-2, -1)  # (B, H, C, 3r, Dh)
        value = self._windows(keys_values.value, fill=0.0).transpose(-2, -1)  # (B, H, C, 3r, Dh)
        # Dimension 2 of the bias must be S, too. Positions outside the sequence get weight 0.
        bias = self._windows(bias.transpose(2, 3), fill=MASKED_BIAS)  # (B or 1, 1, C, 1, 3r)

        # A window is wider than the neighbourhood of each of its queries, so hide what is too far.
        # Positions count from the start of the block.
        query_position = torch.arange(r, device=query.device)
        key_position = torch.arange(3 * r, device=query.device) - r
        offset = key_position - query_position.unsqueeze(1)  # (r, 3r)
        bias = bias.masked_fill(offset.abs() > r, MASKED_BIAS)  # (B or 1, 1, C, r, 3r)

        context, _ = self._attend_in_steps(blocks, key, value, bias)  # (B, H, C, r, Dh)
        joined = context.flatten(2, 3)  # (B, H, C·r, Dh)
        return joined[:, :, :length]

    def _windows(self, x: Float[Tensor, "B H S X"], *, fill: float) -> Float[Tensor, "B H C X W"]:
        """Return for each of C blocks the W = 3r positions around it, as the last dimension.

        They are the r positions before the block, its own, and the r after it. Positions outside
        the sequence get the value `fill`.
        """
        r = self.radius
        missing = -x.shape[2] % r
        padded = F.pad(x, (0, 0, r, missing + r), value=fill)  # (B, H, r + C·r + r, X)
        # A view, because windows that overlap would take three times the memory as copies.
        return padded.unfold(2, size=3 * r, step=r)


class GlobalAttention(nn.Module, ABC):
    """Attention of an LSTM decoder: α = softmax(e), a = Σ α_i h_i, s̃ = tanh(W_c [a; s] + b_c).

    s are states of the decoder, h states of the encoder (Luong et al. 2015, section 3.1). A
    subclass defines the scores e; with `bias` False, there is no b_c.
    """

    def __init__(self, d_model: int, *, bias: bool = True) -> None:
        super().__init__()
        self.combine = nn.Linear(2 * d_model, d_model, bias=bias)

    def keys(self, states: SourceHidden) -> SourceHidden:
        """Compute the part of the scores that depends only on the encoder, once per sentence."""
        return states

    @abstractmethod
    def scores(self, query: Hidden, keys: SourceHidden) -> Float[Tensor, "B Q S"]:
        """Score every source position for each query."""

    def forward(
        self, state: Hidden, keys: SourceHidden, source: SourceHidden, mask: SourceMask
    ) -> tuple[Hidden, Float[Tensor, "N T S"]]:
        """Return the attentional hidden states s̃ and the weights α; padding has weight 0.

        `state`: s; `source`: h, the states of the encoder; `keys`: what `keys` returns for them.
        """
        query = state.reshape(source.shape[0], -1, state.shape[-1])  # (B, Q, D)
        bias = mask_to_bias(mask).unsqueeze(1)  # (B, 1, S)
        scores = self.scores(query, keys) + bias  # (B, Q, S)
        weights = scores.softmax(dim=-1)
        context = weights.to(source.dtype) @ source  # (B, Q, D)
        context = context.view(state.shape)  # (N, T, D)
        both = torch.cat([context, state.to(context.dtype)], dim=-1)  # (N, T, 2D)
        combined = torch.tanh(self.combine(both))
        return combined, weights.reshape(*state.shape[:2], -1)


class DotAttention(GlobalAttention):
    """e_ti = s_t · h_i, the score "dot" of Luong et al. 2015."""

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class GeneralAttention(DotAttention):
    """e_ti = s_t · (W_a h_i), the score "general" of Luong et al. 2015; without b_c."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model, bias=False)
        self.bilinear = nn.Linear(d_model, d_model, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        return cast(Tensor, self.bilinear(states))


class AdditiveAttention(GlobalAttention):
    """e_ti = v · tanh(W s_t + U h_i), Bahdanau et al. 2015, appendix A.1.2."""

    def __init__(self, d_model: int) -> None:
        super().__init__(d_model)
        self.project_query = nn.Linear(d_model, d_model, bias=False)
        self.project_key = nn.Linear(d_model, d_model, bias=False)
        self.score = nn.Linear(d_model, 1, bias=False)

    def keys(self, states: Tensor) -> Tensor:
        return cast(Tensor, self.project_key(states))

    def scores(self, query: Tensor, keys: Tensor) -> Tensor:
        projected = self.project_query(query)  # (B, Q, D)
        mixed = torch.tanh(projected.unsqueeze(2) + keys.unsqueeze(1))  # (B, Q, S, D)
        return cast(Tensor, self.score(mixed)).squeeze(-1)  # (B, Q, S)


GLOBAL_ATTENTIONS = {
    "dot": DotAttention,
    "general": GeneralAttention,
    "additive": AdditiveAttention,
}
