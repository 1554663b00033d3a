"""The machine that a benchmark ran on."""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import Any

import torch

from mtkit.artifacts.manifest import VERSION


def describe_machine(device: torch.device) -> dict[str, Any]:
    """Return processor, threads and versions."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")  # on Linux `platform` knows the family alone
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
    elif cpuinfo.exists() and (model := re.search(r"model name\s*: (.*)", cpuinfo.read_text())):
        name = model[1]
    return {
        "device": device.type,
        "processor": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "mtkit": VERSION,
    }
