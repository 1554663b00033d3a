"""The CPUs and memory that this process may use, the memory it has used, and its launcher."""

from __future__ import annotations

import math
import os
import re
import resource
import sys
from pathlib import Path

from mtkit.errors import UserError

STATUS = Path("/proc/self/status")
MEMINFO = Path("/proc/meminfo")
CGROUP = Path("/sys/fs/cgroup")
LAUNCHER_VARIABLES = {"WORLD_SIZE": 1, "SLURM_NTASKS": 1, "RANK": 0, "LOCAL_RANK": 0}
"""Environment variables of torchrun and Slurm, each with its smallest value.

The smallest value is that of a process that was started without a launcher.
"""
MAX_DIGITS = 6
"""Largest length of a launcher variable; no cluster starts a million processes."""


def available_cpus() -> set[int]:
    """Return the numbers of the CPUs (hardware threads) that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def count_cores() -> int:
    """Return how many cores this process may use: limited by affinity, quota and OMP_NUM_THREADS.

    The hardware threads of a core count as one core, because they share its arithmetic units.
    """
    # Hardware threads of a core have the same list of siblings, such as "0,4". Without such a file,
    # a CPU counts as a core.
    cores: set[str] = set()
    for cpu in available_cpus():
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(path.read_text() if path.exists() else str(cpu))
    limits = [len(cores), cpu_quota()]
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal() and int(threads):
        limits.append(int(threads))
    return int(max(1, min(limits)))  # a quota may be below one core


def describe_load() -> str | None:
    """Say how busy the machine is, such as "load 5.1 on 2 cores"; None if a core is free.

    The load is the mean number of running processes in the last minute.
    """
    load, _, _ = os.getloadavg()
    cores = count_cores()
    if load < cores:
        return None
    return f"load {load:.1f} on {cores} core{'s' if cores > 1 else ''}"


def cpu_quota(group: Path = CGROUP) -> float:
    """Return the CPU quota of this process's control group, in cores; infinite without a quota."""
    file = group / "cpu.max"
    if not file.exists():
        return math.inf
    quota, period = file.read_text().split()  # microseconds of CPU time per period
    return math.inf if quota == "max" else float(quota) / float(period)


def memory_limit_bytes() -> float:
    """Return how many bytes this process may use: its peak plus free memory, or a lower limit.

    Limits come from the control group and from `ulimit -v`.
    """
    limits = [math.inf]
    if MEMINFO.exists():
        fields = dict(line.split(":", 1) for line in MEMINFO.read_text().splitlines())
        available_kib, _ = fields["MemAvailable"].split()  # such as "1024 kB"
        limits.append(float(available_kib) * 1024 + peak_bytes())
    address_space = resource.getrlimit(resource.RLIMIT_AS)[0]
    if address_space != resource.RLIM_INFINITY:
        limits.append(address_space)
    limit_file = CGROUP / "memory.max"
    if limit_file.exists():
        limit = limit_file.read_text().strip()
        if limit != "max":
            limits.append(float(limit))
    return min(limits)


def peak_bytes() -> int:
    """Return the peak resident memory of this process.

    On Linux read VmHWM (the high water mark) from the status file: `ru_maxrss` starts at the peak
    of the process that started this one.
    """
    status = STATUS.read_text() if STATUS.exists() else ""
    high_water_mark = re.search(r"^VmHWM:\s*(\d+) kB$", status, re.M)
    if high_water_mark:
        return int(high_water_mark[1]) * 1024
    bytes_per_unit = 1 if sys.platform == "darwin" else 1024  # macOS counts in bytes, others in KiB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * bytes_per_unit


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
    count = launcher_variable("WORLD_SIZE")
    if count > 1:
        raise UserError(
            f"torchrun has started {count} processes, but only `mtkit train` can use several; run "
            "other commands without torchrun, `mtkit train-spm` and `mtkit batch` before training"
        )
