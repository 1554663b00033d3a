"""Linear layers for training on a GPU, with a backward pass of their own."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mtkit.models.device import to_autocast_dtype
from mtkit.models.layers import Linear


class FastLinear(Linear):
    """A linear layer that computes `affine` where gradients are needed."""

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            return super().forward(x)
        return affine(x, self.weight, self.bias, relu=self.relu)


def affine(
    x: Float[Tensor, "... I"],
    weight: Float[Tensor, "O I"],
    bias: Float[Tensor, " O"],
    *,
    relu: bool = False,
) -> Float[Tensor, "... O"]:
    """Return x W^T + b; with `relu`, max(0, x W^T + b). x has at least two dimensions.

    With `relu`, one kernel computes product and maximum. The gradient of b is a matrix product,
    too, which takes a fifth of the time of torch's sum. With autocast, x and W are multiplied in
    the type of autocast, but the gradients of W and b have the type of W: they are not rounded.
    """
    product = _Affine.apply(to_autocast_dtype(x), weight, bias, relu)  # type: ignore[no-untyped-call]
    return cast(Tensor, product)


class _Affine(torch.autograd.Function):
    """The operation of `affine`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, relu: bool) -> Tensor:
        ctx.weight_dtype = weight.dtype
        weight = weight.to(x.dtype)
        bias = bias.to(x.dtype)
        if not relu:
            ctx.save_for_backward(x, weight, None)
            return F.linear(x, weight, bias)
        rows = x.flatten(0, -2)  # (R, I)
        out = torch._addmm_activation(bias, rows, weight.T)  # max(0, x W^T + b), (R, O)
        out = out.view(*x.shape[:-1], -1)
        ctx.save_for_backward(x, weight, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        x, weight, out = ctx.saved_tensors
        rows = grads[0].flatten(0, -2)  # (R, O)
        if out is not None:
            # The maximum lets the gradient pass where its result is positive.
            rows = torch.ops.aten.threshold_backward(rows, out.view(rows.shape), 0)
        ones = rows.new_ones(1, len(rows))  # a product with ones is a sum over rows
        inputs = x.flatten(0, -2)  # (R, I)
        grad_inputs = rows @ weight
        grad_weight = _multiply(rows.T, inputs, ctx.weight_dtype)  # (O, I)
        grad_bias = _multiply(ones, rows, ctx.weight_dtype)  # (1, O)
        return grad_inputs.view(x.shape), grad_weight, grad_bias.squeeze(0), None


def _multiply(a: Tensor, b: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the product of matrices, summed and stored in `dtype`."""
    return a @ b if a.dtype == dtype else torch.mm(a, b, out_dtype=dtype)
