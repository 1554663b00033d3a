"""The CPUs and memory that this process may use, the memory it has used, and its launcher."""

from __future__ import annotations

import math
import os
import re
import resource
import sys
from pathlib import Path

from mtkit.errors import UserError

STATUS, MEMINFO = Path("/proc/self/status"), Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
LAUNCHER_VARIABLES = {"WORLD_SIZE": 1, "SLURM_NTASKS": 1, "RANK": 0, "LOCAL_RANK": 0}
"""Environment variables of torchrun and Slurm, each with its smallest value.

A process that was started without a launcher has this value.
"""


MAX_DIGITS = 6
"""Largest length of such a value; no cluster starts a million processes."""


def available_cpus() -> set[int]:
    """Return the numbers of the CPUs (hardware threads) that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def count_cores() -> int:
    """Return how many cores this process may use: limited by affinity, quota and OMP_NUM_THREADS.

    The hardware threads of a core count as one core, because they share its arithmetic units.
    """
    siblings = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"
    paths = {(cpu, Path(siblings.format(cpu))) for cpu in available_cpus()}
    cores = len({path.read_text() if path.exists() else cpu for cpu, path in paths})
    threads = os.environ.get("OMP_NUM_THREADS", "")
    limits = [float(threads)] if threads.isdecimal() and int(threads) else []
    return int(max(1, min([cores, cpu_quota(), *limits])))


def cpu_quota(group: Path = CGROUP) -> float:
    """Return the CPU quota of this process's control group, in cores."""
    if not (file := group / "cpu.max").exists():
        return math.inf
    quota, period = file.read_text().split()
    return math.inf if quota == "max" else float(quota) / float(period)


def memory_limit_bytes() -> float:
    """Return how many bytes this process may use: used plus free memory, or a lower limit."""
    limits = [math.inf]
    if MEMINFO.exists():
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        limits.append(float(fields["MemAvailable"].split()[0]) * 1024 + peak_bytes())
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit != resource.RLIM_INFINITY:
        limits.append(limit)
    group = CGROUP / "memory.max"
    if group.exists() and (text := group.read_text().strip()) != "max":
        limits.append(float(text))
    return min(limits)


def peak_bytes() -> int:
    """Return the peak resident memory of this process.

    On Linux read the status file, because `ru_maxrss` also covers the parent process.
    """
    status = STATUS.read_text() if STATUS.exists() else ""
    if match := re.search(r"^VmHWM:\s*(\d+) kB$", status, re.M):
        return int(match[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def launcher_variable(name: str) -> int:
    """Return the value of one of LAUNCHER_VARIABLES.

    Raises:
        UserError: the value is not a number, or too small.
    """
    smallest = LAUNCHER_VARIABLES[name]
    text = os.environ.get(name, "")
    if not text:
        return smallest
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    if is_number and int(text) >= smallest:
        return int(text)
    meaning = "number of processes" if smallest else "rank of a process"
    raise UserError(
        f"{name}: {text!r} is not a {meaning}; start training with torchrun, or unset {name}"
    )


def check_single_process() -> None:
    """Raise UserError if torchrun has started several processes, which would do the same work."""
    if (count := launcher_variable("WORLD_SIZE")) > 1:
        raise UserError(
            f"torchrun has started {count} processes, but only `mtkit train` can use several; run "
            "other commands without torchrun, `mtkit train-spm` and `mtkit batch` before training"
        )
