"""Dropout, with a fast path for CPUs."""

from __future__ import annotations

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Dropout(nn.Module):
    """Dropout: elements become zero with probability p, the rest is scaled by 1 / (1 - p).

    On a CPU each 64-bit random number serves eight elements, twenty times as fast as a Bernoulli
    draw per element. There p is rounded to a multiple of 1/256, from 1/256 to 255/256, and the
    scale follows it.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        threshold = min(max(1, round(self.p * 256)), 255)
        return cast(Tensor, _ByteDropout.apply(x, threshold))  # type: ignore[no-untyped-call]


def build_embedding_dropout(p: float | None, default: float) -> Dropout:
    """Return the dropout of embedded words; without a setting of its own, that of the layers."""
    return Dropout(default if p is None else p)


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        # Compare bytes in place: 0 and 1 as bytes convert to floats many times as fast as booleans.
        # Bytes range from -128 to 127, so 256 - threshold of their 256 values are kept.
        keep = words.view(torch.int8)[: x.numel()].ge_(threshold - 128).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - threshold)
        return (x * keep.to(x.dtype)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep.to(grads[0].dtype)).mul_(ctx.scale), None
