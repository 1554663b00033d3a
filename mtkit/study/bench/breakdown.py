"""Where the time of an update goes: to parts of the model and the loop, and to operators."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from itertools import pairwise
from typing import Any

import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.profiler import profile

from mtkit.study.bench.parts import part_names, telling
from mtkit.study.bench.profiling import profiling
from mtkit.study.bench.record import Record
from mtkit.study.bench.throughput import timed_updates
from mtkit.study.bench.workload import Workload

DATA, OPTIMIZER = "data", "optimizer"
"""What of an update is before the forward pass, and what is after the backward pass."""
UPDATES = 5
"""Number that is divided among the parts, and as many again among operators."""
SMALLEST_SHARE = 0.0005
"""Share of an update below which a part is left out."""
OPERATORS_SHOWN = 10


class Clock:
    """Divides time: what lies between one name told and the next is of the first."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._told: list[tuple[str, Any]] = []

    def tell(self, name: str) -> None:
        moment: float | torch.Event = time.perf_counter()
        if self._device.type != "cpu":  # which works off later what it is given now
            moment = torch.Event(self._device, enable_timing=True)
            moment.record()
        self._told.append((name, moment))

    def milliseconds(self) -> dict[str, float]:
        """By name; the name that was told last has none."""
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        taken = dict.fromkeys((name for name, _ in self._told), 0.0)
        for (name, start), (_, end) in pairwise(self._told):
            is_event = isinstance(start, torch.Event)
            taken[name] += start.elapsed_time(end) if is_event else 1e3 * (end - start)
        return taken


def measure_breakdown(workload: Workload, limits: Mapping[str, float]) -> Record:
    """Milliseconds of an update, by part and by operator; the means of some.

    `limits` are the seconds that the products of a part take by themselves. The state is fresh and
    not compiled; operators are timed by the profiler, which makes small ones dearer than they are.
    """
    state = workload.fresh_state()
    device = state.model.output_weight.device
    clock = Clock(device)
    with closing(timed_updates(workload, state)) as steps:
        next(steps)
        parameters = list(state.model.parameters())
        after = register_multi_grad_hook(parameters, lambda _: clock.tell(OPTIMIZER))
        with after, telling(state.objective, clock.tell):
            for _ in range(UPDATES):
                clock.tell(DATA)
                next(steps)
            clock.tell(DATA)
        with profiling(device) as profiler:
            for _ in range(UPDATES):
                next(steps)
    parts = part_names(state.objective) | {DATA: DATA, OPTIMIZER: OPTIMIZER}
    taken = dict.fromkeys(parts.values(), 0.0)
    for name, ms in clock.milliseconds().items():
        taken[parts[name]] += ms / UPDATES
    total = sum(taken.values())
    return {
        "divided_update_ms": round(total, 2),
        "breakdown": {
            part: {
                "ms": round(ms, 2),
                "share": round(ms / total, 4),
                "limit_ms": round(1e3 * limits.get(part, 0.0), 2),
            }
            for part, ms in Counter(taken).most_common()
            if ms > SMALLEST_SHARE * total
        },
        "operators": _operators(profiler, device),
    }


def _operators(profiler: profile, device: torch.device) -> list[Record]:
    """The costliest, what they call left out, and their shares of all."""
    own = "self_cpu_time_total" if device.type == "cpu" else "self_device_time_total"
    kinds = [kind for kind in profiler.key_averages() if not kind.is_user_annotation]
    kinds.sort(key=lambda kind: -getattr(kind, own))
    total = sum(getattr(kind, own) for kind in kinds)
    return [
        {
            "name": kind.key,
            "calls": round(kind.count / UPDATES, 1),
            "ms": round(getattr(kind, own) / UPDATES / 1e3, 2),
            "share": round(getattr(kind, own) / total, 4),
        }
        for kind in kinds[:OPERATORS_SHOWN]
    ]
