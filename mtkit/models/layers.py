"""Building blocks that several encoders and decoders share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config.model import LstmLayers, PositionKind, TransformerLayers
from mtkit.terms import Hidden

SUBLAYER_GAIN = 0.1
"""Initial gain of the last linear layer of each sublayer.

So a new sublayer adds little to its residual sum. Fixup (Zhang et al. 2019) starts with gain 0.
"""


class Residual(nn.Module, ABC):
    """A residual sum with a norm around a sublayer: y = after(x, sublayer(before(x)))."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    @abstractmethod
    def before(self, x: Hidden) -> Hidden:
        """Return the input of the sublayer."""

    @abstractmethod
    def after(self, x: Hidden, sublayer: Hidden) -> Hidden:
        """Return the residual sum of `x` and the sublayer's output."""


class PostNorm(Residual):
    """LayerNorm(x + Sublayer(x)), Vaswani et al. 2017."""

    def before(self, x: Hidden) -> Hidden:
        return x

    def after(self, x: Hidden, sublayer: Hidden) -> Hidden:
        return cast(Tensor, self.norm(x + self.dropout(sublayer)))


class PreNorm(Residual):
    """x + Sublayer(LayerNorm(x)), Xiong et al. 2020; after the last layer comes one more norm."""

    def before(self, x: Hidden) -> Hidden:
        return cast(Tensor, self.norm(x))

    def after(self, x: Hidden, sublayer: Hidden) -> Hidden:
        return x + cast(Tensor, self.dropout(sublayer))


RESIDUALS: Mapping[str, type[Residual]] = {"post": PostNorm, "pre": PreNorm}


def _swiglu(both: Tensor) -> Tensor:
    gate, value = both.chunk(2, dim=-1)
    return F.silu(gate) * value


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.Identity(),  # the linear layer before it computes the maximum
    "gelu": F.gelu,
    "swish": F.silu,
    "gated": _swiglu,
}


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, or with GELU or swish(x) = x · sigmoid(x) in place of max.

    Gated: SwiGLU, (swish(x W1) * x V) W2 (Shazeer 2020).
    """

    def __init__(self, settings: TransformerLayers, d_model: int) -> None:
        super().__init__()
        activation = settings.activation
        self.activate = _ACTIVATIONS[activation]
        width = settings.ffn * (2 if activation == "gated" else 1)
        self.expand = linear(d_model, width, relu=activation == "relu")
        self.contract = linear(settings.ffn, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(settings.activation_dropout)

    def forward(self, x: Hidden) -> Hidden:
        inner = self.activate(self.expand(x))  # (B, T, F)
        return cast(Tensor, self.contract(self.dropout(inner)))


class PositionalEncodings(nn.Module):
    """Encodings that are added to embedded words; "none" adds zeros.

    The table grows on demand, so any length works, even beyond the lengths in training.
    """

    table: Tensor

    def __init__(self, kind: PositionKind, d_model: int) -> None:
        super().__init__()
        self.compute = compute_sinusoids if kind == "sinusoidal" else compute_zeros
        self.register_buffer("table", self.compute(256, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Return the encodings of the positions start … start + length - 1."""
        table = self.table  # read once: another thread may replace it by a shorter one
        if start + length > table.shape[0]:
            longer = self.compute(2 * (start + length), table.shape[1])
            table = self.table = longer.to(table.device, table.dtype)
        return table[start : start + length]


def compute_sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Compute sin and cos of pos / 10000^(2i/d), all sines before all cosines.

    Vaswani et al. 2017, section 3.5, interleave sines and cosines; only the order of dimensions
    differs. The values are exact even for large positions.
    """
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    dimension = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position * torch.exp(dimension * (-math.log(10000.0) / d_model))
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def compute_zeros(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Return encodings that change nothing."""
    # Not torch.zeros, which creates no values while a model is built without weights.
    return torch.full((length, d_model), 0.0)


class Linear(nn.Linear):
    """x W^T + b, or max(0, x W^T + b)."""

    def __init__(self, inputs: int, outputs: int, *, relu: bool) -> None:
        super().__init__(inputs, outputs)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        product = F.linear(x, self.weight, self.bias)
        return F.relu(product) if self.relu else product


def linear(inputs: int, outputs: int, gain: float = 1.0, *, relu: bool = False) -> Linear:
    """Return a linear layer; weights: Glorot initialisation times `gain`; bias: 0."""
    layer = Linear(inputs, outputs, relu=relu)
    nn.init.xavier_uniform_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Dropout(nn.Module):
    """Dropout: elements become zero with probability p, the rest is scaled by 1 / (1 - p).

    On a CPU one 64-bit random number serves eight elements, which is twenty times as fast as a
    Bernoulli draw per element. There p is rounded to a multiple of 1/256 (at least 1/256, at most
    255/256), and the scale uses the rounded p.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.threshold:
            return x
        if x.device.type != "cpu":
            return F.dropout(x, self.p)
        return cast(Tensor, _ByteDropout.apply(x, self.threshold))  # type: ignore[no-untyped-call]

    @property
    def threshold(self) -> int:
        """How many of the 256 values of a random byte drop an element; 0: no dropout."""
        return min(max(1, round(self.p * 256)), 255) if self.training and self.p > 0 else 0


def build_embedding_dropout(settings: TransformerLayers | LstmLayers) -> Dropout:
    """Return the dropout for embedded words; if it is not set, it is that of the layers."""
    p = settings.embedding_dropout
    return Dropout(settings.dropout if p is None else p)


def draw_bytes(x: Tensor) -> Int[Tensor, " K"]:
    """Draw a random byte, from -128 to 127, for each element of `x`."""
    words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64, device=x.device)
    return words.random_(-(2**63), None).view(torch.int8)[: x.numel()]


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        # Compare bytes in place: bytes 0 and 1 convert to floats many times faster than booleans.
        # Bytes range from -128 to 127, so 256 - threshold of their 256 values are kept.
        keep = draw_bytes(x).ge_(threshold - 128).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - threshold)
        return (x * keep.to(x.dtype)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep.to(grads[0].dtype)).mul_(ctx.scale), None
