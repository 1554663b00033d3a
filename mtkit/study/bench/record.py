"""What every report of `mtkit bench` holds, what a figure was measured on, and how it is shown."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from mtkit.artifacts.manifest import VERSION
from mtkit.report import table
from mtkit.training.state import TrainState

Record = dict[str, Any]

MACHINE = "{processor}, {threads} threads, torch {torch}"
"""A line for people of what `describe_machine` knows."""


def listed(records: Iterable[Record], columns: Mapping[str, str]) -> Iterator[str]:
    """A table with a line for each record; a column has a heading and the format of its cells."""
    rows = [[cell.format_map(record) for cell in columns.values()] for record in records]
    return table([list(columns), *rows])


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
    } | describe_machine(state.model.device)


def processor(device: torch.device) -> str:
    """Its name, as well as it is known."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    cpuinfo = Path("/proc/cpuinfo")  # on Linux `platform` knows the family alone
    named = cpuinfo.exists() and re.search(r"^model name\s*: (.*)", cpuinfo.read_text(), re.M)
    return named[1] if named else platform.processor() or platform.machine()
