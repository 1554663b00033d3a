"""The door to all that only a GPU needs: training with other modules of the same weights.

`accelerate` changes the class of a module and nothing else. So the modules keep their weights and
the names of their weights, and compute the same up to rounding. Outside of training they compute
exactly what the plain modules compute.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config.model import TransformerDecoderSettings, TransformerEncoderSettings
from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import to_autocast_dtype
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.fast.attention import (
    FastAttention,
    FastCausalAttention,
    FastNeighbourhoodAttention,
    InPlace,
)
from mtkit.models.fast.linear import FastLinear
from mtkit.models.layers import Linear, PostNorm
from mtkit.models.layout import Layout, Packed
from mtkit.models.transformer import DecoderLayer

SHARED_ROW_WIDTH = 64
"""Width, in tokens, of a row that several sentences share on a GPU.

The attention kernel takes as long for a short row as for a row of 64 tokens.
"""


def accelerate(model: EncoderDecoder) -> EncoderDecoder:
    """Swap the modules of `model`, which is on a GPU, for those that train fast; return it."""
    swaps: dict[type[nn.Module], type[nn.Module]] = {
        Linear: FastLinear,
        MultiHeadAttention: FastAttention,
        NeighbourhoodAttention: FastNeighbourhoodAttention,
    }
    if runs_triton(model.device):
        from mtkit.models.fast.norm import FastPostNorm  # a machine without a GPU has no Triton

        swaps |= {PostNorm: FastPostNorm, EncoderDecoder: FastEncoderDecoder}
    for module in model.modules():
        module.__class__ = swaps.get(type(module), type(module))
    # Plain attention gets a causal bias; the kernel of the fast attention must know it by itself.
    for module in model.modules():
        if isinstance(module, DecoderLayer):
            module.self_attention.__class__ = FastCausalAttention
    return model


@cache
def runs_triton(device: torch.device) -> bool:
    """Return whether the kernels in Triton run on this device: a GPU since Ampere."""
    if device.type != "cuda" or find_spec("triton") is None:
        return False
    return torch.cuda.get_device_capability(device) >= (8, 0)


def can_share_rows(model: EncoderDecoder) -> bool:
    """Return whether several sentences can share a row, separated only by attention biases.

    An LSTM would read from one sentence into the next, and restricted attention has biases for
    padding only.
    """
    pair = model.settings.as_pair()
    return (
        isinstance(pair.encoder, TransformerEncoderSettings)
        and pair.encoder.neighbourhood is None
        and isinstance(pair.decoder, TransformerDecoderSettings)
    )


def shared_row_width(model: EncoderDecoder) -> int:
    """Return the width of rows that sentences share in training; 0: each has its own row."""
    is_useful = model.device.type == "cuda" and can_share_rows(model)
    return SHARED_ROW_WIDTH if is_useful else 0


class FastEncoderDecoder(EncoderDecoder):
    """A model whose attention reads tokens end to end in training, if the kernel suits all layers.

    M source tokens and L target tokens.
    """

    def read(
        self,
        source: Int[Tensor, " M"],
        source_layout: Layout,
        target: Int[Tensor, " L"],
        target_layout: Layout,
    ) -> Float[Tensor, "L D"]:
        return super().read(
            source, self._in_place(source_layout), target, self._in_place(target_layout)
        )

    def _in_place(self, layout: Layout) -> Layout:
        """Return the layout as an `InPlace` if the kernel can serve it; else unchanged.

        The kernel serves training in 16-bit numbers, with rows that sentences share.
        """
        is_shared = isinstance(layout, Packed) and layout.sentence is not None
        # In float32 the kernel would need twice the memory per block. An empty slice of the weights
        # shows the type of matrix products, which autocast may change.
        is_half = to_autocast_dtype(self.output_weight[:0]).itemsize == 2
        if not (self.training and is_shared and is_half):
            return layout
        width = layout.mask.shape[1]
        for module in self.modules():
            if isinstance(module, FastAttention) and not module.can_attend_in_place(width):
                return layout
        return InPlace.of(cast(Packed, layout))
