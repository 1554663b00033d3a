"""The report of a benchmark, and the machine that it ran on.

Torch is imported only where it is needed, as in `translation_speed`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.manifest import VERSION
from mtkit.machine import available_cpus
from mtkit.report import plural, show, table

if TYPE_CHECKING:
    import torch

TableRows = Sequence[Sequence[str]]


def write_report(
    task: str,
    record: dict[str, Any],
    tables: Sequence[TableRows],
    device: torch.device,
    *,
    as_json: bool,
    left: int = 1,
) -> None:
    """Write to stdout what a benchmark has measured, and on what: `record` as JSON, or `tables`.

    `left`: number of columns that are aligned left.
    """
    machine = describe_machine(device)
    cores = plural(machine["cores"], "core")
    lines = [task, f"{machine['processor']}, {cores}, torch {machine['torch']}"]
    for rows in tables:
        lines += ["", *table(rows, left=left)]
    show({"task": task, **record, **machine}, lambda _: lines, as_json=as_json)


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return processor, cores, threads and versions."""
    import torch

    return {
        "device": device.type,
        "processor": _name_processor(device),
        "cores": len(available_cpus()),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "mtkit": VERSION,
    }


def _name_processor(device: torch.device) -> str:
    """Return the name of the GPU, or of the CPU."""
    import torch

    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")  # on Linux `platform` knows only the family of the CPU
    if cpuinfo.exists():
        model = re.search(r"model name\s*: (.*)", cpuinfo.read_text())
        if model:
            return model[1]
    return platform.processor() or platform.machine()
