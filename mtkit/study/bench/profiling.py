"""torch's profiler, and how much memory it sees a computation need."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

SILENT = "6"
"""Or torch writes to stderr of its own accord, in the first profile of a process."""


def profiling(device: torch.device, *, memory: bool = False) -> profile:
    """A profiler of what the processor does and a GPU."""
    os.environ.setdefault("KINETO_LOG_LEVEL", SILENT)
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    return profile(activities=activities, profile_memory=memory, acc_events=True)


def peak_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Of the memory that `compute` claims on the device, the most that it holds at once.

    Claims are counted, not what the system gives for them: equal whenever it is counted.
    """
    with profiling(device, memory=True) as profiler:
        compute()
    results: Any = profiler.profiler
    claims = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    claims = [event for event in claims if event.device_type().name.lower() == device.type]
    claims.sort(key=lambda event: event.start_ns())
    return max(accumulate((int(event.nbytes()) for event in claims), initial=0))
