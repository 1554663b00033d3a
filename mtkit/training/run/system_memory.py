"""How much memory this process holds, and may hold, by the word of the operating system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path


def peak_bytes() -> int:
    """Resident bytes of this process when it held most."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def limit_bytes() -> float:
    """Bytes that this process may hold: what is free now and what it has, unless bounded lower."""
    bound = resource.getrlimit(resource.RLIMIT_AS)[0]
    limits = [float("inf") if bound == resource.RLIM_INFINITY else float(bound)]
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        text = Path(path).read_text() if Path(path).exists() else "max"
        limits.append(float("inf") if text.strip() == "max" else float(text))
    return min(_free_bytes() + peak_bytes(), *limits)


def _free_bytes() -> float:
    meminfo = Path("/proc/meminfo")
    if not meminfo.exists():
        return float("inf")
    fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
    return float(fields["MemAvailable"].split()[0]) * 1024
