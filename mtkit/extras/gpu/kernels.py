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

from mtkit.extras.gpu.triton_kernels import (
    add_norm_backward,
    add_norm_forward,
    attention_backward,
    attention_forward,
    softmax_minus_targets,
)
from mtkit.models.layers import draw_bytes
from mtkit.models.layout import Packed

PARTIAL_SUMS = 1056
"""Number of sums over tokens that run at the same time: eight for each multiprocessor of an H100.

With two per multiprocessor, the gradients of a norm take twice as long.
"""


def add_and_norm(
    x: Float[Tensor, "... D"],
    sublayer: Float[Tensor, "... D"],
    threshold: int,
    norm: nn.LayerNorm,
) -> tuple[Float[Tensor, "... D"], Float[Tensor, "... D"]]:
    """Return total = x + dropout(sublayer), in the type of `x`, and norm(total), of `sublayer`.

    Dropout works as on a CPU: a random byte for each element, from -128 to 127, drops those below
    threshold - 128, which are threshold/256 of all.
    """
    random = draw_bytes(x) if threshold else None
    result = _AddAndNorm.apply(  # type: ignore[no-untyped-call]
        x.contiguous(), sublayer.contiguous(), random, threshold, norm.weight, norm.bias, norm.eps
    )
    return cast(tuple[Tensor, Tensor], result)


class _AddAndNorm(torch.autograd.Function):
    """The operation of `add_and_norm`; all rows of D elements are tokens."""

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        sublayer: Tensor,
        random: Tensor | None,
        threshold: int,
        weight: Tensor,
        bias: Tensor,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        width = x.shape[-1]
        tokens = x.numel() // width  # all rows, whatever the leading dimensions are
        total = torch.empty_like(x)
        normed = torch.empty_like(sublayer)
        moments = x.new_empty(2, tokens, dtype=torch.float32)
        ctx.constants = {
            "lowest_kept": threshold - 128,  # the smallest byte is -128
            "scale": 256 / (256 - threshold),
            "width": width,
            "block": triton.next_power_of_2(width),
        }
        programs = (tokens,)
        add_norm_forward[programs](
            x, sublayer, random, weight, bias, total, normed, moments, eps, **ctx.constants
        )
        ctx.save_for_backward(total, random, weight, moments)
        ctx.set_materialize_grads(False)  # after post-norm, nothing reads `total`
        return total, normed

    @staticmethod
    def backward(
        ctx: Any, grad_total: Tensor | None, grad_normed: Tensor
    ) -> tuple[Tensor | None, ...]:
        total, random, weight, moments = ctx.saved_tensors
        grad_x = torch.empty_like(total)
        grad_sublayer = torch.empty_like(total, dtype=grad_normed.dtype)
        # Gradients of weight and bias: each program sums over its own tokens, in a fixed order.
        sums = weight.new_empty(2, PARTIAL_SUMS, len(weight), dtype=torch.float32)
        programs = (PARTIAL_SUMS,)
        add_norm_backward[programs](
            None if grad_total is None else grad_total.contiguous(),
            grad_normed.contiguous(),
            total,
            random,
            weight,
            moments,
            grad_x,
            grad_sublayer,
            sums,
            moments.shape[1],
            PARTIAL_SUMS,
            **ctx.constants,
        )
        grad_weight, grad_bias = sums.sum(dim=1).to(weight.dtype)
        # In the order of `forward`: random bytes, threshold and eps have no gradients.
        return grad_x, grad_sublayer, None, None, grad_weight, grad_bias, None


def attend_rows(
    query: Float[Tensor, "M H 1 Dh"],
    key: Float[Tensor, "K H 1 Dh"],
    value: Float[Tensor, "K H 1 Dh"],
    queries: Packed,
    keys: Packed,
    *,
    is_causal: bool,
) -> Float[Tensor, "M H 1 Dh"]:
    """Return softmax(Q K^T / sqrt(Dh)) V for each head, over the keys that a query may see.

    M and K count the tokens of the two layouts, with padding; Dh is the size of a head. Dimension 2
    is 1, because each token lies like a sentence of its own (see `PackedKeyValue`). Queries see the
    keys of their sentence; with `is_causal`, no later positions. The result is 0 for padding. Dh
    and the row width are limited: see `FastAttention.can_attend_in_place`.

    `queries` and `keys` need a `sentence`. For place i of row r, `token[r, i]` is the index of its
    vector in dimension 0, and `sentence[r, i]` the number of its sentence; 0 marks padding.
    """
    query_places = queries.token, queries.sentence  # (rows, width) each
    key_places = keys.token, keys.sentence
    attended = _AttendRows.apply(  # type: ignore[no-untyped-call]
        query, key, value, *query_places, *key_places, is_causal
    )
    return cast(Tensor, attended)


class _AttendRows(torch.autograd.Function):
    """The operation of `attend_rows`."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, *places_and_causal: Any
    ) -> Tensor:
        *places, ctx.is_causal = places_and_causal
        out = query.new_zeros(query.shape)  # zeros, because no program writes results of padding
        _launch(attention_forward, (query, key, value, out), places, ctx.is_causal)
        ctx.save_for_backward(query, key, value, *places)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, *places = ctx.saved_tensors
        grad_inputs = _zeros_like((query, key, value))
        tensors = query, key, value, grads[0].contiguous(), *grad_inputs
        _launch(attention_backward, tensors, places, ctx.is_causal)
        return (*grad_inputs, *[None] * 5)  # the four tensors of places, and `is_causal`


def _zeros_like(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return zeros with the strides of `tensors`; views of one tensor stay views of one tensor.

    So the gradients of query, key and value lie side by side, as the three do, and `_Chunk` in
    attention.py need not copy them.
    """
    zeros_by_address: dict[int, Tensor] = {}
    zeros: list[Tensor] = []
    for tensor in tensors:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in zeros_by_address:
            zeros_by_address[address] = tensor.new_zeros(storage.nbytes() // tensor.itemsize)
        whole = zeros_by_address[address]
        zeros.append(whole.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()))
    return zeros


def _launch(
    kernel: Any, tensors: Sequence[Tensor], places: Sequence[Tensor], is_causal: bool
) -> None:
    """Start one GPU program for each row and head.

    `tensors`: query, key, value, then those that only this kernel has. `places`: the tokens and the
    sentences at the places of the queries, then at those of the keys, (rows, width) each.
    """
    query, key, value, *_ = tensors
    rows, width = places[0].shape
    _, heads, _, depth = query.shape
    block = max(16, triton.next_power_of_2(width))  # a product on tensor cores needs 16
    programs = (rows, heads)
    kernel[programs](
        *tensors,
        *places,
        query_stride=query.stride(0),
        key_stride=key.stride(0),
        value_stride=value.stride(0),
        width=width,
        scale=depth**-0.5,
        is_causal=int(is_causal),
        block=block,
        depth=depth,
        num_warps=4 if block <= 64 else 8,  # more threads for the products of longer rows
    )


def subtract_targets(
    logits: Float[Tensor, "R V"], gold: Int[Tensor, "R 1"], smoothing: float
) -> Float[Tensor, "R 2"]:
    """Turn logits into softmax(logits) - (1 - smoothing) · onehot(gold), in place.

    Return log Σ exp(logits) and the gold logit of each row.
    """
    rows, width = logits.shape
    terms = logits.new_empty(rows, 2, dtype=torch.float32)
    block = triton.next_power_of_2(width)
    programs = (rows,)
    softmax_minus_targets[programs](
        logits,
        gold,
        terms,
        gold_share=1 - smoothing,
        width=width,
        block=block,
        num_warps=16 if block > 4096 else 4,  # more threads for long rows
    )
    return terms
