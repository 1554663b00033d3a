"""What a benchmark ran on, what a computation takes, and how results are shown."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

from mtkit.artifacts.manifest import VERSION
from mtkit.report import table

Record = dict[str, Any]
"""A result as it is written to JSON."""


def describe_machine(device: torch.device) -> Record:
    """Return processor, threads and versions."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")  # on Linux `platform` knows the family alone
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    elif cpuinfo.exists() and (found := re.search(r"model name\s*: (.*)", cpuinfo.read_text())):
        name = found[1]
    versions = {"torch": torch.__version__, "mtkit": VERSION}
    return {
        "device": device.type,
        "processor": name,
        "threads": torch.get_num_threads(),
        **versions,
    }


def record_table(records: Iterable[Record], columns: Mapping[str, str]) -> Iterator[str]:
    """Yield a table with a row per record; `columns`: the format of each cell, by heading."""
    rows = [[cell.format_map(record) for cell in columns.values()] for record in records]
    yield from table([list(columns), *rows])


def count_operations(compute: Callable[[], object]) -> int:
    """Return the additions and multiplications of its matrix products and convolutions."""
    with _plain_kernels(), FlopCounterMode(display=False) as counter:
        compute()
    return int(counter.get_total_flops())


@contextmanager
def _plain_kernels() -> Iterator[None]:
    """Disable fused kernels, compiled modules and LSTMs of oneDNN and cuDNN: they hide products."""
    onednn: Any = torch.backends.mkldnn  # whose `flags` would warn about GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        eager, cudnn = torch.compiler.set_stance("force_eager"), torch.backends.cudnn
        with eager, cudnn.flags(enabled=False), sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        onednn.enabled = before


def count_peak_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Return the largest amount of memory that it allocates on the device at once; reproducible."""
    # Without it torch writes to stderr of its own accord, in the first profile of a process.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        compute()
    results: Any = profiler.profiler
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    events = [event for event in events if event.device_type().name.lower() == device.type]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate((int(event.nbytes()) for event in events), initial=0))
