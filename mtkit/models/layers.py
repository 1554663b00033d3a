"""Building blocks that several encoders and decoders share.

Shapes: B sentences, T positions, D the model size, F the width of feed-forward sublayers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config.model import PositionKind, TransformerLayers
from mtkit.shapes import Hidden

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
    """x + Sublayer(LayerNorm(x)), Xiong et al. 2020.

    `EncoderDecoder` adds one more norm after the last layer.
    """

    def before(self, x: Hidden) -> Hidden:
        return cast(Tensor, self.norm(x))

    def after(self, x: Hidden, sublayer: Hidden) -> Hidden:
        return x + cast(Tensor, self.dropout(sublayer))


RESIDUALS: Mapping[str, type[Residual]] = {"post": PostNorm, "pre": PreNorm}


def _swiglu(gates_values: Tensor) -> Tensor:
    """Return swish(gates) * values; the last dimension has the gates, then the values."""
    gate, value = gates_values.chunk(2, dim=-1)
    return F.silu(gate) * value


_ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "relu": nn.Identity(),  # `FeedForward.expand` computes the maximum
    "gelu": F.gelu,
    "swish": F.silu,
    "gated": _swiglu,
}


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, or with GELU or swish(x) = x · sigmoid(x) in place of max.

    Gated: SwiGLU, (swish(x W1 + b1) * (x V + c)) W2 + b2 (Shazeer 2020).
    """

    def __init__(self, settings: TransformerLayers, d_model: int) -> None:
        super().__init__()
        activation = settings.activation
        self.activate = _ACTIVATIONS[activation]
        width = settings.ffn
        if activation == "gated":
            width = 2 * settings.ffn  # gates and values, by one matrix product
        self.expand = build_linear(d_model, width, relu=activation == "relu")
        self.contract = build_linear(settings.ffn, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(settings.activation_dropout)

    def forward(self, x: Hidden) -> Hidden:
        inner = self.activate(self.expand(x))  # (B, T, F)
        return cast(Tensor, self.contract(self.dropout(inner)))


class PositionalEncodings(nn.Module):
    """Encodings that are added to embedded words; the kind "none" adds zeros.

    The table grows on demand, so any length works, even if no sentence of the training was so long.
    """

    table: Tensor

    def __init__(self, kind: PositionKind, d_model: int) -> None:
        super().__init__()
        self.compute = POSITION_TABLES[kind]
        # Not persistent: a model folder does not hold what can be computed.
        self.register_buffer("table", self.compute(256, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Return the encodings of the positions start … start + length - 1."""
        end = start + length
        table = self.table  # read once: another thread may replace it by a shorter one
        if end > len(table):
            longer = self.compute(2 * end, table.shape[1])
            table = longer.to(table.device, table.dtype)
            self.table = table
        return table[start:end]


def compute_sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Compute sin and cos of pos / 10000^(2i/d), all sines before all cosines.

    Vaswani et al. 2017, section 3.5, interleave sines and cosines; only the order of dimensions
    differs. The values are exact even for large positions.
    """
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)  # (T, 1)
    dimension = torch.arange(0, d_model, 2, dtype=torch.float64)  # the values of 2i, (D / 2,)
    # 1 / 10000^(2i/d) = exp(-2i · log 10000 / d)
    exponent = -math.log(10000.0) / d_model
    angle = position * torch.exp(dimension * exponent)  # (T, D / 2)
    encodings = torch.cat([angle.sin(), angle.cos()], dim=1)
    return encodings.float()


def compute_zeros(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Return encodings that change nothing."""
    # Not torch.zeros, which creates no values while a model is built without weights.
    return torch.full((length, d_model), 0.0)


def compute_fairseq_sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Compute sin and cos of (pos + 2) / 10000^(i/(d/2 - 1)), as M2M-100 and NLLB were trained.

    In fairseq the first two rows of a table belong to the padding.
    """
    position = torch.arange(2, length + 2, dtype=torch.float64).unsqueeze(1)  # (T, 1)
    dimension = torch.arange(d_model // 2, dtype=torch.float64)  # the values of i, (D / 2,)
    angle = position * torch.exp(dimension * -math.log(10000.0) / (d_model // 2 - 1))
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


POSITION_TABLES: Mapping[str, Callable[[int, int], Tensor]] = {
    "sinusoidal": compute_sinusoids,
    "fairseq": compute_fairseq_sinusoids,
    "none": compute_zeros,
}
"""For each `PositionKind` the function that computes the encodings."""


class Linear(nn.Linear):
    """x W^T + b, or max(0, x W^T + b).

    `extras/gpu/linear.py` computes the second form by one kernel, so it belongs to this layer.
    """

    def __init__(self, inputs: int, outputs: int, *, relu: bool) -> None:
        super().__init__(inputs, outputs)
        self.relu = relu

    def forward(self, x: Tensor) -> Tensor:
        product = F.linear(x, self.weight, self.bias)
        return F.relu(product) if self.relu else product


def build_linear(inputs: int, outputs: int, gain: float = 1.0, *, relu: bool = False) -> Linear:
    """Return a linear layer; weights: Glorot initialisation times `gain`; bias: 0."""
    layer = Linear(inputs, outputs, relu=relu)
    nn.init.xavier_uniform_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class Dropout(nn.Module):
    """Dropout in training: an element becomes 0 with probability p; others are divided by 1 - p.

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
        if not self.training or self.p <= 0:
            return 0
        return min(max(1, round(self.p * 256)), 255)


def build_dropout(rate: float | None, default: float) -> Dropout:
    """Return dropout at a rate, or at the default rate."""
    return Dropout(default if rate is None else rate)


def draw_bytes(x: Tensor) -> Int[Tensor, " K"]:
    """Draw a random byte, from -128 to 127, for each of the K elements of `x`."""
    count = x.numel()
    words = torch.empty((count + 7) // 8, dtype=torch.int64, device=x.device)  # K / 8, rounded up
    words.random_(-(2**63), None)  # None: up to the largest 64-bit number
    return words.view(torch.int8)[:count]


class _ByteDropout(torch.autograd.Function):
    """Dropout by random bytes, for training on a CPU; see `Dropout`."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        # Bytes range from -128 to 127, so `threshold` of their 256 values drop an element. They are
        # compared in place: bytes 0 and 1 convert to floats many times faster than booleans.
        is_kept = draw_bytes(x).ge_(threshold - 128).view(x.shape)
        ctx.save_for_backward(is_kept)
        ctx.scale = 256 / (256 - threshold)
        return (x * is_kept.to(x.dtype)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (is_kept,) = ctx.saved_tensors
        grad = grads[0]
        return (grad * is_kept.to(grad.dtype)).mul_(ctx.scale), None
