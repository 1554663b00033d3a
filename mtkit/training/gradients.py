"""The gradients of a model, in one tensor."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import nn

ALIGNMENT = 16
"""Gradients begin at multiples of so many elements: 64 bytes of float32, a line of a cache."""


class Gradients:
    """The gradients of all parameters, end to end; the `.grad` of a parameter is a view of them.

    So one all-reduce sums all gradients, always in the same order. Gradients never move
    in memory, as CUDA graphs require. A backward pass adds to them, because they are never None.
    """

    def __init__(self, parameters: Iterable[nn.Parameter]) -> None:
        """Set the gradients of `parameters`, which share device and type, to zero."""
        self._parameters = list(parameters)
        starts: list[int] = []
        size = 0
        for parameter in self._parameters:
            starts.append(size)
            size += math.ceil(parameter.numel() / ALIGNMENT) * ALIGNMENT
        self.flat = self._parameters[0].detach().new_zeros(size)
        for parameter, start in zip(self._parameters, starts, strict=True):
            part = self.flat[start : start + parameter.numel()]
            parameter.grad = part.view_as(parameter)

    def clear(self) -> None:
        """Set all gradients to zero, before a step adds its own."""
        self.flat.zero_()
