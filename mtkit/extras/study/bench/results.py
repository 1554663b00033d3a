"""The report of a benchmark, and the machine that it ran on.

Torch is imported only where it is needed, as in `translation_speed`.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.manifest import VERSION
from mtkit.machine import available_cpus
from mtkit.report import plural, show, table

if TYPE_CHECKING:
    import torch

TableRows = Sequence[Sequence[str]]


@dataclass(frozen=True)
class BenchReport:
    """What a benchmark has measured."""

    task: str
    record: dict[str, Any]
    """The results as JSON."""
    tables: Sequence[TableRows]
    """The results for people."""
    left: int = 1
    """Number of columns that are aligned left."""

    def write(self, device: torch.device, *, as_json: bool) -> None:
        """Write the report to stdout, with what it ran on."""
        record = {"task": self.task, **self.record, **describe_machine(device)}
        show(record, self._lines, as_json=as_json)

    def _lines(self, record: dict[str, Any]) -> Iterator[str]:
        cores = plural(record["cores"], "core")
        yield record["task"]
        yield f"{record['processor']}, {cores}, torch {record['torch']}"
        for rows in self.tables:
            yield ""
            yield from table(rows, left=self.left)


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
