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

from mtkit.models.attention import (
    AttentionWeights,
    KeyValue,
    MultiHeadAttention,
    NeighbourhoodAttention,
)
from mtkit.models.fast.linear import affine
from mtkit.models.layers import Linear
from mtkit.models.layout import Bias, Layout, Packed
from mtkit.terms import Hidden

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

    def mask_for(self, keys: Layout) -> None:
        """Return None, because the kernel itself hides other sentences and padding."""

    def causal_mask(self) -> None:
        """Return None, because the kernel itself hides later words."""


@dataclass(frozen=True)
class PackedKeyValue(KeyValue):
    """Keys and values of tokens end to end: each token is a sentence of one word."""

    layout: Packed


class FastAttention(MultiHeadAttention):
    """Multi-head attention that reads tokens end to end if the layout is `InPlace`."""

    is_causal = False

    def can_attend_in_place(self, width: int) -> bool:
        """Return whether the kernel can compute this attention, for rows of this width."""
        depth = self.query.out_features // self.heads
        fits = width <= MAX_KERNEL_WIDTH and depth * width <= MAX_KERNEL_AREA
        return depth in KERNEL_DEPTHS and fits and not self.dropout.p

    def query_keys_values(self, x: Hidden, layout: Layout) -> tuple[Hidden, KeyValue]:
        query, memory = super().query_keys_values(x, layout)
        return query, _remember_layout(memory, layout)

    def keys_values(self, memory: Hidden, layout: Layout) -> KeyValue:
        return _remember_layout(super().keys_values(memory, layout), layout)

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
        memory: KeyValue,
        mask: Bias | None,
        layout: Layout,
        *,
        weights: bool = False,
    ) -> tuple[Hidden, AttentionWeights | None]:
        if not (isinstance(layout, InPlace) and isinstance(memory, PackedKeyValue)):
            return super().forward(query, memory, mask, layout, weights=weights)
        from mtkit.models.fast.kernels import attend_rows  # a machine without a GPU has no Triton

        attended = attend_rows(
            query=self._split(query, len(query)),  # (M, H, 1, D/H), as the keys
            key=memory.key,
            value=memory.value,
            queries=layout,
            keys=memory.layout,
            is_causal=self.is_causal,
        )
        return self.output(attended.flatten(1)), None


class FastCausalAttention(FastAttention):
    """Self-attention of a decoder: a query does not see later words."""

    is_causal = True


class FastNeighbourhoodAttention(FastAttention, NeighbourhoodAttention):
    """Restricted self-attention; only its products are faster."""

    def can_attend_in_place(self, width: int) -> bool:
        return False


def _remember_layout(memory: KeyValue, layout: Layout) -> KeyValue:
    """Return the keys and values with their layout, if attention needs it to find them."""
    if not isinstance(layout, InPlace):
        return memory
    return PackedKeyValue(memory.key, memory.value, layout)


class _Chunk(torch.autograd.Function):
    """Split the last dimension into equal parts; copy gradients only if they are not adjacent."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, parts: int) -> tuple[Tensor, ...]:
        return x.chunk(parts, dim=-1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        # The attention kernel writes the gradients of all parts into one tensor, as the parts lie.
        whole = grads[0].new_empty(0).set_(grads[0].untyped_storage())
        if whole.numel() == sum(grad.numel() for grad in grads):
            whole = whole.view(*grads[0].shape[:-1], len(grads) * grads[0].shape[-1])
            if all(map(Tensor.is_set_to, whole.chunk(len(grads), dim=-1), grads)):
                return whole, None
        return torch.cat(grads, dim=-1), None
