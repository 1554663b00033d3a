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
    """Return what computes: processor, threads and versions."""
    return {
        "device": device.type,
        "processor": processor_name(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "mtkit": VERSION,
    }


def machine_line(record: Record) -> str:
    """Return the same for people."""
    return "{processor}, {threads} threads, torch {torch}".format_map(record)


def processor_name(device: torch.device) -> str:
    """Return the name of the processor or GPU, as far as it is known."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")  # on Linux `platform` knows the family alone
    named = cpuinfo.exists() and re.search(r"^model name\s*: (.*)", cpuinfo.read_text(), re.M)
    return named[1] if named else platform.processor() or platform.machine()


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
    """Disable kernels that hide matrix products.

    These are the LSTMs of oneDNN and cuDNN, compiled modules, and fused attention (which computes
    its scores twice to save memory).
    """
    onednn: Any = torch.backends.mkldnn  # whose `flags` would warn about GPUs
    before, onednn.enabled = onednn.enabled, False
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            torch.backends.cudnn.flags(enabled=False),
            sdpa_kernel(SDPBackend.MATH),
        ):
            yield
    finally:
        onednn.enabled = before


def count_peak_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Return the largest amount of memory that it allocates on the device at once.

    Allocations are counted, not what the system gives for them: the result is reproducible.
    """
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
