"""What every report of `mtkit bench` holds, and what a figure was measured on."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import torch

from mtkit.artifacts import VERSION
from mtkit.training.state import TrainState

Record = dict[str, Any]


def describe_machine(device: torch.device) -> Record:
    """The processor, and what computes on it."""
    return {
        "device": device.type,
        "processor": processor(device),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "mtkit": VERSION,
    }


def describe_training(state: TrainState) -> Record:
    """The size of the model and its batches, its precision, and the machine."""
    return {
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "precision": state.precision,
        "max_tokens": state.max_tokens,
    } | describe_machine(state.model.output_weight.device)


def machine_text(record: Record) -> str:
    """A line for people of what `describe_machine` knows."""
    return f"{record['processor']}, {record['threads']} threads, torch {record['torch']}"


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
