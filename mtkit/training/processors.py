"""How many ranks pay on this machine."""

from __future__ import annotations

import math
import os
from pathlib import Path

import torch

from mtkit import machine

WORTH_WHILE = 512
"""Tokens of an update that a rank is to have. Two ranks of so many learn as fast as one process of
two threads where nothing else runs, and where something does keep their share, which threads that
wait for each other do not; from 256 a core learns half as many tokens a second as from 1,024.
"""
PROCESS_BYTES = 1 << 29
"""What a rank holds apart from its model: the program, its libraries and a batch."""
COPIES = 6
"""Of its parameters: gradients, those on their way, two moments, and a mean of checkpoints."""


def ranks_that_pay(processors: int, tokens: int, most: float) -> int:
    """One per processor, as long as each has enough of the `tokens` of an update to work on.

    `most`: how many memory suffices for.
    """
    return int(max(1, min(processors, tokens // WORTH_WHILE, most)))


def bytes_of_rank(parameters: int) -> int:
    """What a rank takes of memory, roughly, with so many parameters in float32."""
    return PROCESS_BYTES + COPIES * 4 * parameters


def processors(device: torch.device) -> int:
    """Number of GPUs, or of cores."""
    return {"cuda": torch.cuda.device_count, "cpu": cores}.get(device.type, lambda: 1)()


def cores() -> int:
    """Number of cores that this process may use, by affinity, quota and OMP_NUM_THREADS.

    Two threads of one core count as one: they share what computes.
    """
    place = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    found = {(cpu, Path(place.format(cpu))) for cpu in machine.processors()}
    allowed = len({path.read_text() if path.exists() else cpu for cpu, path in found})
    given = os.environ.get("OMP_NUM_THREADS", "")
    limits = [float(given)] if given.isdecimal() and int(given) else []
    return int(max(1, min([allowed, quota(), *limits])))


def threads_of(ranks: int) -> int:
    """Number of threads that each of so many ranks has of the cores."""
    return max(1, cores() // ranks)


def quota(group: Path = Path("/sys/fs/cgroup")) -> float:
    """Number of cores whose time the system gives to this process and those grouped with it."""
    if (newer := group / "cpu.max").exists():
        most, period = newer.read_text().split()
    elif (older := group / "cpu" / "cpu.cfs_quota_us").exists():
        most, period = older.read_text(), older.with_name("cpu.cfs_period_us").read_text()
    else:
        return math.inf
    return math.inf if most.strip() in ("max", "-1") else float(most) / float(period)
