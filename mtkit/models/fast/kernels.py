"""Training operations that a GPU computes with our own kernels (see `triton_kernels`).

A GPU waits for memory longer than for arithmetic. Torch reads and writes hidden states once per
operation; each of these kernels joins several operations. On other devices `layers`, `attention`
and `training.loss` compute the same. Results are reproducible: the order of sums is fixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import torch
import triton
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models.fast.triton_kernels import (
    add_norm_backward,
    add_norm_forward,
    attention_backward,
    attention_forward,
    softmax_minus_targets,
)
from mtkit.models.layout import RowMask

PARTIAL_SUMS = 1056
"""Number of sums over tokens that run at the same time: eight for each multiprocessor of an H100.

With two per multiprocessor, the gradients of a norm take twice as long.
"""


def add_and_norm(
    x: Float[Tensor, "... D"],
    sublayer: Float[Tensor, "... D"],
    random: Int[Tensor, " K"] | None,
    threshold: int,
    norm: nn.LayerNorm,
) -> Float[Tensor, "... D"]:
    """Return LayerNorm(x + dropout(sublayer)), in the type of `sublayer`.

    Dropout sets threshold/256 of the elements to 0: those whose random byte, from -128 to 127, is
    below threshold - 128. If `random` is None, nothing is dropped.
    """
    weights = norm.weight, norm.bias, norm.eps
    arguments = x.contiguous(), sublayer.contiguous(), random, threshold, *weights
    return cast(Tensor, _AddAndNorm.apply(*arguments))  # type: ignore[no-untyped-call]


class _AddAndNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, sublayer: Tensor, *rest: Any) -> Tensor:
        random, threshold, weight, bias, eps = rest
        width, out = x.shape[-1], torch.empty_like(sublayer)
        tokens = x.numel() // width
        scale = 256 / (256 - threshold) if random is not None else 1.0
        shared = threshold - 128, scale, width, random is not None, triton.next_power_of_2(width)
        moments = x.new_empty(2, tokens, dtype=torch.float32)
        add_norm_forward[(tokens,)](x, sublayer, random, weight, bias, out, moments, eps, *shared)
        ctx.save_for_backward(x, sublayer, random, weight, moments)
        ctx.shared = shared
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, sublayer, random, weight, moments = ctx.saved_tensors
        grad_x, grad_sublayer = torch.empty_like(x), torch.empty_like(sublayer)
        programs, tokens = PARTIAL_SUMS, moments.shape[1]
        sums = weight.new_empty(2, programs, len(weight), dtype=torch.float32)
        inputs = grads[0].contiguous(), x, sublayer, random, weight, moments
        outputs = grad_x, grad_sublayer, sums
        add_norm_backward[(programs,)](*inputs, *outputs, tokens, programs, *ctx.shared)
        grad_weight, grad_bias = sums.sum(dim=1).to(weight.dtype)
        return grad_x, grad_sublayer, None, None, grad_weight, grad_bias, None


def attend_rows(
    query: Float[Tensor, "M H 1 D"],
    key: Float[Tensor, "K H 1 D"],
    value: Float[Tensor, "K H 1 D"],
    mask: RowMask,
) -> Float[Tensor, "M H 1 D"]:
    """Return softmax(Q K^T / sqrt(D)) V for each head, over the keys that `mask` shows.

    The result is 0 for padding. D and the row width are limited: see
    `MultiHeadAttention.can_attend_rows`.
    """
    queries, keys = mask.queries, mask.keys
    places = queries.token, queries.sentence, keys.token, keys.sentence
    arguments = query, key, value, *places, mask.is_causal
    return cast(Tensor, _AttendRows.apply(*arguments))  # type: ignore[no-untyped-call]


class _AttendRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Tensor:
        *places, ctx.is_causal = rest
        out = query.new_zeros(query.shape)
        _launch(attention_forward, (query, key, value, out), places, ctx.is_causal)
        ctx.save_for_backward(query, key, value, *places)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *places = ctx.saved_tensors
        made = _zeros_like((query, key, value))
        tensors = query, key, value, grads[0].contiguous(), *made
        _launch(attention_backward, tensors, places, ctx.is_causal)
        return (*made, *[None] * 5)


def _zeros_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return zeros with the strides of `tensors`; views of one tensor stay views of one tensor."""
    zeros = dict[int, Tensor]()
    for tensor in tensors:
        memory = tensor.untyped_storage()
        count = memory.nbytes() // tensor.itemsize
        zeros.setdefault(memory.data_ptr(), tensor.new_zeros(count))
    return [
        zeros[it.untyped_storage().data_ptr()].as_strided(
            it.shape, it.stride(), it.storage_offset()
        )
        for it in tensors
    ]


def _launch(kernel: Any, tensors: Sequence[Tensor], places: Sequence[Tensor], causal: bool) -> None:
    """Start one GPU program for each row and head."""
    (rows, width), (_, heads, _, depth) = places[0].shape, tensors[0].shape
    strides = [tensor.stride(0) for tensor in tensors[:3]]
    block = max(16, triton.next_power_of_2(width))
    shared = *places, *strides, width, depth**-0.5, int(causal), block, depth
    kernel[(rows, heads)](*tensors, *shared, num_warps=4 if block <= 64 else 8)


def subtract_targets(
    logits: Float[Tensor, "R V"], gold: Int[Tensor, "R 1"], smoothing: float
) -> Float[Tensor, "R 2"]:
    """Turn logits into softmax(logits) - (1 - smoothing) · onehot(gold), in place.

    Return log Σ exp(logits) and the gold logit of each row.
    """
    rows, width = logits.shape
    terms = logits.new_empty(rows, 2, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    warps = 16 if block > 4096 else 4
    softmax_minus_targets[(rows,)](
        logits, gold, terms, 1 - smoothing, width, block, num_warps=warps
    )
    return terms
