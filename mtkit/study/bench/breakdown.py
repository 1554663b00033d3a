"""Where a training step goes: its time divided among the parts of the model and of the loop.

Hooks put a mark around every module while it computes, and torch.profiler records marks and
operators. An operator of the forward pass belongs to the innermost mark around it; one of the
backward pass to the part whose forward operator made its node, which autograd tells by sequence
number; and what follows the backward pass is the optimizer's. On a CPU an operator's own time
counts; on a GPU that of its kernels, and what the GPU idles is in the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.autograd.profiler_util import FunctionEvent, FunctionEventAvg
from torch.profiler import ProfilerActivity, profile, record_function

from mtkit.study.bench.parts import DATA, OPTIMIZER, PARTS, REST, part_of
from mtkit.study.bench.throughput import DATA_MARK, PREFIX, STEP_MARK, WARM_UPDATES, timed_updates
from mtkit.study.bench.workload import Workload

PROFILED_UPDATES = 5
OPERATORS_SHOWN = 10
SILENT = "6"
"""Or torch writes to stderr of its own accord, in the first profile of a process."""
BACKWARD = "autograd::engine::evaluate_function"


@dataclass(frozen=True)
class Operator:
    """What all calls of one operator take in an update, the operators that it calls left out."""

    name: str
    calls: float
    seconds: float


@dataclass(frozen=True)
class Breakdown:
    """Means per update; under the profiler, which makes small operators dearer than they are."""

    update_seconds: float
    seconds: Mapping[str, float]
    """By part."""
    operators: Sequence[Operator]
    """The costliest, dearest first."""

    def share(self, part: str) -> float:
        return self.seconds[part] / self.update_seconds


def measure_breakdown(workload: Workload) -> Breakdown:
    """Profiles some updates from a fresh state, which is not compiled."""
    state = workload.fresh_state()
    with marked(state.objective), closing(timed_updates(workload, state)) as steps:
        for _ in range(WARM_UPDATES):
            next(steps)
        on_gpu = state.model.output_weight.device.type == "cuda"
        with silent_profile(on_gpu) as profiler:
            for _ in range(PROFILED_UPDATES):
                next(steps)
    return _breakdown(profiler, on_gpu)


def silent_profile(on_gpu: bool) -> profile:
    """A profiler of what the processor does, and a GPU."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENT)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * on_gpu
    return profile(activities=activities, acc_events=True)


@contextmanager
def marked(objective: nn.Module) -> Iterator[None]:
    """Puts marks around the modules of a training objective while the block runs."""
    handles: list[Any] = []
    for name, module in objective.named_modules():
        part = part_of(name, module)
        if part is not None:
            mark = _Mark(part)
            handles.append(module.register_forward_pre_hook(mark.enter))
            handles.append(module.register_forward_hook(mark.leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


class _Mark:
    """Both hooks of one module."""

    def __init__(self, part: str) -> None:
        self._name = PREFIX + part
        self._open: list[record_function] = []

    def enter(self, *_: object) -> None:
        self._open.append(record_function(self._name))
        self._open[-1].__enter__()

    def leave(self, *_: object) -> None:
        self._open.pop().__exit__(None, None, None)


def _breakdown(profiler: profile, on_gpu: bool) -> Breakdown:
    events = [event for event in profiler.events() if event.device_type.name == "CPU"]
    updates = [event for event in events if event.name in (DATA_MARK, STEP_MARK)]
    total = sum(map(_duration, updates)) / PROFILED_UPDATES
    seconds = dict.fromkeys(PARTS, 0.0)
    part = parts_of(events)
    for event in events:
        seconds[part(event)] += _own(event, on_gpu) / PROFILED_UPDATES
    # Python between operators, events of other threads, and a GPU's idleness are in no part.
    seconds[DATA] = sum(_duration(e) for e in updates if e.name == DATA_MARK) / PROFILED_UPDATES
    seconds[REST] = total - sum(taken for name, taken in seconds.items() if name != REST)
    operators = sorted(
        (
            Operator(kind.key, kind.count / PROFILED_UPDATES, _own(kind, on_gpu) / PROFILED_UPDATES)
            for kind in profiler.key_averages()
            if not kind.is_user_annotation
        ),
        key=lambda operator: -operator.seconds,
    )
    return Breakdown(total, seconds, operators[:OPERATORS_SHOWN])


def parts_of(events: Sequence[FunctionEvent]) -> Callable[[FunctionEvent], str]:
    """Event → its part; what belongs to no part is in the rest."""
    backward = [event for event in events if event.name.startswith(BACKWARD)]

    def marked(event: FunctionEvent) -> str:
        mark = _ancestor(event, PREFIX)
        if mark is None:
            return REST
        if mark.name != STEP_MARK:
            return str(mark.name).removeprefix(PREFIX)
        return OPTIMIZER if event.time_range.start > last_backward[id(mark)] else REST

    last_backward = {
        id(step): max(
            event.time_range.end
            for event in backward
            if step.time_range.start < event.time_range.end < step.time_range.end
        )
        for step in events
        if step.name == STEP_MARK
    }
    # An operator makes its node last: of several with one number, the one that started last.
    forward = {
        event.sequence_nr: marked(event)
        for event in sorted(events, key=lambda event: float(event.time_range.start))
        if event.sequence_nr >= 0 and _ancestor(event, BACKWARD) is None
    }

    def part(event: FunctionEvent) -> str:
        root = _ancestor(event, BACKWARD)
        return marked(event) if root is None else forward.get(root.sequence_nr, REST)

    return part


def _ancestor(event: FunctionEvent | None, prefix: str) -> FunctionEvent | None:
    """The innermost event of such a name around `event`, or itself."""
    while event is not None and not event.name.startswith(prefix):
        event = event.cpu_parent
    return event


def _duration(event: FunctionEvent) -> float:
    return float(event.time_range.elapsed_us()) * 1e-6


def _own(event: FunctionEvent | FunctionEventAvg, on_gpu: bool) -> float:
    """Seconds, what it calls left out."""
    own = event.self_device_time_total if on_gpu else event.self_cpu_time_total
    return float(own) * 1e-6
