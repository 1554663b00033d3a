"""What a figure was measured on, and how much memory it took."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch

from mtkit.artifacts import VERSION
from mtkit.training.run.system_memory import peak_bytes
from mtkit.training.state import TrainState


def describe(state: TrainState) -> dict[str, Any]:
    """The model's size and precision, the processor, and the versions."""
    device = state.model.output_weight.device
    return {
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "precision": state.precision,
        "max_tokens": state.max_tokens,
        "device": device.type,
        "processor": processor(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "mtkit": VERSION,
    }


def peak_memory(device: torch.device) -> dict[str, int]:
    """MiB that this process held at most so far: resident, and allocated on a GPU."""
    peak = {"resident": peak_bytes() >> 20}
    if device.type == "cuda":
        peak["gpu"] = torch.cuda.max_memory_allocated(device) >> 20
    return peak


def processor(device: torch.device) -> str:
    """Its name, as well as it is known."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():  # on Linux `platform` knows the family alone
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
