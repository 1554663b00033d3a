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
from typing import Any

import torch
from torch import Tensor

from mtkit.models.acceleration import Inputs, Launcher
from mtkit.models.interfaces import map_tensors

STEPS_AHEAD = 2
"""Number of steps that the CPU may be ahead of the GPU."""


@dataclass(frozen=True)
class Recording:
    """A graph with the memory that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    output: Tensor


@dataclass
class Graphs(Launcher):
    """The recordings of some functions, one for each combination of shapes of their inputs."""

    _recordings: dict[tuple[object, ...], Recording | None] = field(default_factory=dict)
    """By function name and shapes of the inputs; None after the first call with these shapes."""
    _pool: Any = None
    """The memory that all graphs share, because only one of them runs at a time."""
    _events: deque[torch.cuda.Event] = field(default_factory=deque)
    """The ends of the last steps, on the GPU; see `pace`."""

    def call(self, name: str, function: Callable[[Inputs], Tensor], inputs: Inputs) -> Tensor:
        """Return function(inputs), which the next call with these shapes may overwrite.

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
        recording.graph.replay()
        return recording.output

    def _record(self, function: Callable[[Inputs], Tensor], inputs: Inputs) -> Recording:
        """Record the function on copies of the inputs, whose memory the graph will read."""
        graph = torch.cuda.CUDAGraph()
        recorded_inputs = map_tensors(Tensor.clone, inputs)
        # "thread_local", because another thread pins memory for the next batches meanwhile, which
        # would otherwise be an error.
        with torch.cuda.graph(graph, self._pool, capture_error_mode="thread_local"):
            output = function(recorded_inputs)
        self._pool = graph.pool()
        return Recording(graph, _tensors_of(recorded_inputs), output)

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
