"""Training on a GPU: other modules with the same weights, which compute faster.

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

from mtkit.extras.gpu.attention import (
    FastAttention,
    FastCausalAttention,
    FastNeighbourhoodAttention,
    InPlace,
)
from mtkit.extras.gpu.graphs import Graphs
from mtkit.extras.gpu.linear import FastLinear
from mtkit.extras.gpu.search import accelerate_search
from mtkit.models.acceleration import Acceleration, FusedSoftmax, Launcher
from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import to_autocast_dtype
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.layers import Linear, PostNorm
from mtkit.models.layout import Layout, Packed
from mtkit.models.recurrent import LstmDecoder, LstmEncoder
from mtkit.models.transformer import DecoderLayer

MAX_FUSED = 1 << 16
"""Largest vocabulary for the fused softmax: logits of one token that fit into a GPU's registers."""
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
        from mtkit.extras.gpu import norm  # a machine without a GPU has no Triton

        swaps |= {PostNorm: norm.FastPostNorm, EncoderDecoder: FastEncoderDecoder}
        norm.fuse_pre_norms(model.encoder, model.encoder_norm)
        norm.fuse_pre_norms(model.decoder, model.decoder_norm)
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


class GpuAcceleration(Acceleration):
    """What speeds up training on an NVIDIA GPU."""

    def accelerate(self, model: EncoderDecoder) -> None:
        accelerate(model)

    def accelerate_search(self, model: nn.Module) -> None:
        accelerate_search(model, self.new_launcher)

    def shared_row_width(self, model: EncoderDecoder) -> int:
        return SHARED_ROW_WIDTH if can_share_rows(model) else 0

    def find_softmax(self, logits: Float[Tensor, "C V"]) -> FusedSoftmax | None:
        if not runs_triton(logits.device) or logits.shape[1] > MAX_FUSED:
            return None
        from mtkit.extras.gpu.kernels import subtract_targets  # without a GPU there is no Triton

        return subtract_targets

    def new_launcher(self) -> Launcher:
        return Graphs()


def can_share_rows(model: EncoderDecoder) -> bool:
    """Return whether several sentences can share a row, separated only by attention biases.

    An LSTM would read from one sentence into the next, and restricted attention has biases for
    padding only.
    """
    kinds = (LstmEncoder, LstmDecoder, NeighbourhoodAttention)
    return not any(isinstance(module, kinds) for module in model.modules())


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
