"""Multi-head attention for training on a GPU, on tokens that lie end to end.

A kernel finds the tokens of each row, and hides what a query must not see. So training needs no
padded rows, no mask in memory, and no copy between the two layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

import torch
from torch import Tensor

from mtkit.extras.gpu.linear import affine
from mtkit.models.attention import (
    AttentionWeights,
    KeyValue,
    MultiHeadAttention,
    NeighbourhoodAttention,
)
from mtkit.models.layers import Linear
from mtkit.models.layout import Bias, Layout, Packed
from mtkit.shapes import Hidden

KERNEL_DEPTHS = (16, 32, 64, 128)
"""Head sizes that the attention kernel supports."""
MAX_KERNEL_WIDTH = 128
"""Width of the longest rows that the attention kernel supports."""
MAX_KERNEL_AREA = 128 * 64
"""Largest head size times row width: more does not fit into a small GPU's 99 KiB per block."""


class InPlace(Packed):
    """Tokens end to end that attention reads where they are."""

    @classmethod
    def of(cls, layout: Packed) -> InPlace:
        """Return the same layout as an `InPlace`."""
        return cls(**{field.name: getattr(layout, field.name) for field in fields(layout)})

    def pad(self, x: Tensor) -> Tensor:
        return x

    def unpad(self, x: Tensor) -> Tensor:
        return x

    def bias_for(self, keys: Layout) -> None:
        """Return None, because the kernel itself hides other sentences and padding."""

    def causal_bias(self) -> None:
        """Return None, because the kernel itself hides later words."""


@dataclass(frozen=True)
class PackedKeyValue(KeyValue):
    """Keys and values of M tokens end to end, (M, H, 1, Dh): each token is a sentence."""

    layout: Packed


class FastAttention(MultiHeadAttention):
    """Multi-head attention that reads tokens end to end if the layout is `InPlace`."""

    is_causal = False

    def can_attend_in_place(self, width: int) -> bool:
        """Return whether the kernel can compute this attention, for rows of this width.

        The kernel has no dropout on attention weights.
        """
        depth = self.query.out_features // self.heads
        fits = width <= MAX_KERNEL_WIDTH and depth * width <= MAX_KERNEL_AREA
        return depth in KERNEL_DEPTHS and fits and not self.dropout.p

    def query_keys_values(self, x: Hidden, layout: Layout) -> tuple[Hidden, KeyValue]:
        query, keys_values = super().query_keys_values(x, layout)
        return query, _remember_layout(keys_values, layout)

    def keys_values(self, states: Hidden, layout: Layout) -> KeyValue:
        return _remember_layout(super().keys_values(states, layout), layout)

    def _project(self, x: Hidden, layout: Layout, *parts: Linear) -> Sequence[Hidden]:
        if not self.training:
            return super()._project(x, layout, *parts)
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts])
        product = layout.pad(affine(x, weight, bias))
        return cast(Sequence[Hidden], _Chunk.apply(product, len(parts)))  # type: ignore[no-untyped-call]

    def forward(
        self,
        query: Hidden,
        keys_values: KeyValue,
        bias: Bias | None,
        layout: Layout,
        *,
        with_weights: bool = False,
    ) -> tuple[Hidden, AttentionWeights | None]:
        if not (isinstance(layout, InPlace) and isinstance(keys_values, PackedKeyValue)):
            return super().forward(query, keys_values, bias, layout, with_weights=with_weights)
        from mtkit.extras.gpu.kernels import attend_rows  # a machine without a GPU has no Triton

        attended = attend_rows(
            query=self._split(query, len(query)),  # (M, H, 1, Dh), as the keys
            key=keys_values.key,
            value=keys_values.value,
            queries=layout,
            keys=keys_values.layout,
            is_causal=self.is_causal,
        )
        joined = attended.flatten(1)  # (M, D)
        return self.output(joined), None


class FastCausalAttention(FastAttention):
    """Self-attention of a decoder: a query does not see later words."""

    is_causal = True


class FastNeighbourhoodAttention(FastAttention, NeighbourhoodAttention):
    """Restricted self-attention; only its products are faster, because it shares no rows."""


def _remember_layout(keys_values: KeyValue, layout: Layout) -> KeyValue:
    """Return the keys and values with their layout, if the kernel needs it to find the tokens."""
    if not isinstance(layout, InPlace):
        return keys_values
    return PackedKeyValue(keys_values.key, keys_values.value, layout)


class _Chunk(torch.autograd.Function):
    """Split the last dimension into equal parts; copy gradients only if they are not adjacent.

    The gradient of torch's `chunk` always copies them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        return x.chunk(parts, dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # The attention kernel writes the gradients of all parts into one tensor (`_zeros_like` in
        # kernels.py). This is the case if the parts of that tensor are the gradients.
        first = grads[0]
        *rows, width = first.shape
        memory = first.new_empty(0).set_(first.untyped_storage())  # all that `first` is a view of
        if memory.numel() == sum(grad.numel() for grad in grads):
            whole = memory.view(*rows, len(grads) * width)
            parts = whole.chunk(len(grads), dim=-1)
            are_same = [part.is_set_to(grad) for part, grad in zip(parts, grads, strict=True)]
            if all(are_same):
                return whole, None
        return torch.cat(grads, dim=-1), None
