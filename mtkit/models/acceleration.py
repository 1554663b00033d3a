"""The interface by which extras speed up training on a device. The core has plain PyTorch.

Training asks `find_acceleration` for the modules, the row width, the softmax and the launcher of
its device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TypeVar

from jaxtyping import Float
from torch import Tensor, nn

from mtkit import plugins
from mtkit.models.encoder_decoder import EncoderDecoder

Inputs = TypeVar("Inputs")
Output = TypeVar("Output")
FusedSoftmax = Callable[[Tensor, Tensor, float], Tensor]
"""A function of logits (C, V), gold symbols (C, 1) and smoothing.

It turns the logits into softmax(logits) - (1 - smoothing) · onehot(gold), in place, and returns
log Σ exp(logits) and the gold logit of each row (C, 2).
"""


class Launcher:
    """Calls the functions of a step of training or search, such as the pass over a micro-batch."""

    def call(self, name: str, function: Callable[[Inputs], Output], inputs: Inputs) -> Output:
        """Return function(inputs); the next call with inputs of these shapes may overwrite it.

        Use a name for one function only, and with inputs of the same types in every call. If the
        result has an input to which the function wrote, the next call may overwrite this input.
        """
        return function(inputs)

    def pace(self) -> None:
        """Keep the CPU from running far ahead of the device; call this after every step."""


class Acceleration:
    """What speeds up training on one type of device; this class computes with plain PyTorch."""

    def accelerate(self, model: EncoderDecoder) -> None:
        """Swap modules of the model for faster ones, which have the same weights."""

    def accelerate_search(self, model: nn.Module) -> None:
        """Swap modules of a model that translates for faster ones, which have the same weights."""

    def shared_row_width(self, model: EncoderDecoder) -> int:
        """Return the width of the rows in which training packs several sentences.

        0: each sentence has its own row.
        """
        return 0

    def find_softmax(self, logits: Float[Tensor, "C V"]) -> FusedSoftmax | None:
        """Return a fused softmax for logits of this shape and device; None if there is none."""
        return None

    def new_launcher(self) -> Launcher:
        """Return a new object that calls the functions of a training step."""
        return Launcher()


@cache
def find_acceleration(device_type: str) -> Acceleration:
    """Return what an extra knows of this type of device, such as "cuda"; else plain PyTorch."""
    if device_type in plugins.find_plugins("accelerations"):
        acceleration: Acceleration = plugins.load_plugin("accelerations", device_type)()
        return acceleration
    return Acceleration()
