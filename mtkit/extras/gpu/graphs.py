"""CUDA graphs: the kernels of a function, recorded once per shape and launched together.

A step of a small model runs thousands of kernels, and Python takes longer to launch a kernel than
the GPU takes to run it. A graph launches all of them together. It reads and writes the same memory
every time, so inputs are copied into the recorded inputs, and gradients stay where they are.

The random numbers of a replayed graph follow from the seed that is set before the replay. They are
the same as those that the kernels draw without a graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, cast

import torch
from torch import Tensor

from mtkit.models.acceleration import Inputs, Launcher, Output
from mtkit.models.interfaces import map_tensors

STEPS_AHEAD = 2
"""Number of steps that the CPU may be ahead of the GPU."""


@dataclass(frozen=True)
class Recording:
    """A graph with the memory that it reads and writes."""

    replay: Callable[[], None]
    inputs: list[Tensor]
    output: Any


@dataclass
class Graphs(Launcher):
    """The recordings of some functions, one for each combination of shapes of their inputs."""

    _recordings: dict[tuple[object, ...], Recording | None] = field(default_factory=dict)
    """By function name and shapes of the inputs; None after the first call with these shapes."""
    _pool: Any = None
    """The memory that all graphs share, because only one of them runs at a time."""
    _input_memory: dict[int, Tensor] = field(default_factory=dict)
    """The memory of the inputs, in bytes, by their order; graphs share it for the same reason."""
    _events: deque[torch.cuda.Event] = field(default_factory=deque)
    """The ends of the last steps, on the GPU; see `pace`."""

    def call(self, name: str, function: Callable[[Inputs], Output], inputs: Inputs) -> Output:
        """Return function(inputs), which the next call may overwrite; see `Launcher.call`.

        The first call runs the function, the second records and replays it, later ones replay it.
        """
        tensors = _tensors_of(inputs)
        shapes = [tensor.shape for tensor in tensors]
        key = (name, *shapes)
        if key not in self._recordings:
            # At the first call, libraries initialise themselves, which cannot be recorded.
            self._recordings[key] = None
            return function(inputs)
        recording = self._recordings[key]
        if recording is None:
            recording = self._record(function, inputs)
            self._recordings[key] = recording
        torch._foreach_copy_(recording.inputs, tensors)
        recording.replay()
        return cast(Output, recording.output)

    def _record(self, function: Callable[[Inputs], Output], inputs: Inputs) -> Recording:
        """Record the function on copies of the inputs, whose memory the graph will read."""
        order = count()
        recorded_inputs = map_tensors(lambda tensor: self._place(next(order), tensor), inputs)
        replay, output = self._capture(function, recorded_inputs)
        return Recording(replay, _tensors_of(recorded_inputs), output)

    def _capture(
        self, function: Callable[[Inputs], Output], inputs: Inputs
    ) -> tuple[Callable[[], None], Output]:
        """Return what replays the kernels of function(inputs), and the result, not yet computed."""
        graph = torch.cuda.CUDAGraph()
        # "thread_local", because another thread pins memory for the next batches meanwhile, which
        # would otherwise be an error.
        with torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            output = function(inputs)
        self._pool = graph.pool()
        return graph.replay, output

    def _place(self, order: int, tensor: Tensor) -> Tensor:
        """Return a copy of an input in the memory of all inputs with this order."""
        memory = self._input_memory.get(order)
        if memory is None or len(memory) < tensor.nbytes:
            memory = tensor.new_empty(tensor.nbytes, dtype=torch.uint8)
            self._input_memory[order] = memory
        place = memory[: tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        return place.copy_(tensor)

    def pace(self) -> None:
        """Wait until the GPU is at most STEPS_AHEAD steps behind the CPU; call this every step."""
        event = torch.cuda.Event()
        event.record()  # it occurs when the GPU has done all work so far
        self._events.append(event)
        if len(self._events) > STEPS_AHEAD:
            self._events.popleft().synchronize()


def _tensors_of(inputs: object) -> list[Tensor]:
    """Return the tensors in nested tuples and dataclasses, always in the same order."""
    tensors: list[Tensor] = []

    def collect(tensor: Tensor) -> Tensor:
        tensors.append(tensor)
        return tensor

    map_tensors(collect, inputs)
    return tensors
