"""Parts that both architectures, or both halves of one, are made of."""

from __future__ import annotations

import math
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from mtkit.config.model import LstmLayers, TransformerLayers
from mtkit.terms import Hidden

SUBLAYER_GAIN = 0.1
"""Weights with which a sublayer ends are so much smaller at first: what it adds to the residual sum
is little until it has learnt something (as Zhang et al. 2019, Fixup, where it is nothing).
"""


class Dropout(nn.Module):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p).

    On a CPU eight masks are cut from every 64-bit random number, twenty times as fast as one
    Bernoulli draw per element; p is rounded to one of 1/256 … 255/256 there, and so is the scale.
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


class _ByteDropout(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, threshold: int) -> Tensor:
        words = torch.empty((x.numel() + 7) // 8, dtype=torch.int64).random_(-(2**63), None)
        # Compared in place: 0 and 1 as bytes are made, and made into numbers, many times as fast
        # as truth values are. From -128 up, 256 - threshold of the 256 bytes are kept.
        keep = words.view(torch.int8)[: x.numel()].ge_(threshold - 128).view(x.shape)
        ctx.save_for_backward(keep)
        ctx.scale = 256 / (256 - threshold)
        return (x * keep.to(x.dtype)).mul_(ctx.scale)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        (keep,) = ctx.saved_tensors
        return (grads[0] * keep.to(grads[0].dtype)).mul_(ctx.scale), None


def embedding_dropout(settings: TransformerLayers | LstmLayers) -> Dropout:
    """On what a half reads: as on its layers, unless the settings say otherwise."""
    p = settings.embedding_dropout
    return Dropout(settings.dropout if p is None else p)


class PostNorm(nn.Module):
    """LayerNorm(x + Sublayer(x)), Vaswani et al. 2017."""

    def __init__(self, d_model: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)

    def enter(self, x: Hidden) -> Hidden:
        """What the sublayer reads."""
        return x

    def leave(self, x: Hidden, sublayer: Hidden) -> Hidden:
        """What the next sublayer gets."""
        return cast(Tensor, self.norm(x + self.dropout(sublayer)))


class PreNorm(PostNorm):
    """x + Sublayer(LayerNorm(x)), Xiong et al. 2020; the stack ends with a norm of its own."""

    def enter(self, x: Hidden) -> Hidden:
        return cast(Tensor, self.norm(x))

    def leave(self, x: Hidden, sublayer: Hidden) -> Hidden:
        return x + cast(Tensor, self.dropout(sublayer))


def _gated(both: Tensor) -> Tensor:
    gate, value = both.chunk(2, dim=-1)
    return F.silu(gate) * value


ACTIVATIONS: dict[str, Any] = {"relu": F.relu, "gelu": F.gelu, "swish": F.silu, "gated": _gated}


class FeedForward(nn.Module):
    """max(0, x W1 + b1) W2 + b2, or GELU or swish for max (swish(x) = x · sigmoid(x)).

    Gated: SwiGLU, (swish(x W1) * x V) W2 (Shazeer 2020).
    """

    def __init__(self, settings: TransformerLayers, d_model: int) -> None:
        super().__init__()
        self.activate = ACTIVATIONS[settings.activation]
        self.expand = linear(d_model, settings.ffn * (2 if settings.activation == "gated" else 1))
        self.contract = linear(settings.ffn, d_model, gain=SUBLAYER_GAIN)
        self.dropout = Dropout(settings.activation_dropout)

    def forward(self, x: Hidden) -> Hidden:
        inner = self.activate(self.expand(x))  # (B, T, F)
        return cast(Tensor, self.contract(self.dropout(inner)))


class SinusoidalPositions(nn.Module):
    """sin and cos of pos / 10000^(2i/d_model) in split halves: all sines, then all cosines.

    The published interleaved form up to a fixed permutation of the dimensions. Computed on demand,
    so that any length works, also beyond the longest of training.
    """

    table: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(256, d_model), persistent=False)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        """Encodings of the positions start … start + length - 1."""
        table = self.table  # another thread may put a shorter one in its place meanwhile
        if start + length > table.shape[0]:
            longer = sinusoids(2 * (start + length), table.shape[1])
            table = self.table = longer.to(table.device, table.dtype)
        return table[start : start + length]


class LearnedPositions(nn.Module):
    """A trained vector per position, as many as `max_positions`."""

    def __init__(self, d_model: int, max_positions: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_positions, d_model))
        nn.init.normal_(self.table, std=d_model**-0.5)

    def forward(self, start: int, length: int) -> Float[Tensor, "T D"]:
        if start + length > self.table.shape[0]:
            raise ValueError(
                f"a sequence of {start + length} symbols, but positions are learned for "
                f"{self.table.shape[0]} (model.max_positions)"
            )
        return self.table[start : start + length]


def sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """Vaswani et al. 2017, section 3.5; float64 inside, so that late positions stay exact."""
    position = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    dimension = torch.arange(0, d_model, 2, dtype=torch.float64)
    angle = position * torch.exp(dimension * (-math.log(10000.0) / d_model))
    return torch.cat([angle.sin(), angle.cos()], dim=1).float()


def for_products(x: Tensor) -> Tensor:
    """`x` in the type that autocast gives to products: converted once for all that read it."""
    device = x.device.type
    return x.to(torch.get_autocast_dtype(device)) if torch.is_autocast_enabled(device) else x


def linear(inputs: int, outputs: int, gain: float = 1.0) -> nn.Linear:
    """A linear layer with Glorot weights, times `gain`, and no initial bias."""
    layer = nn.Linear(inputs, outputs)
    nn.init.xavier_uniform_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer
