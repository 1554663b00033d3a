"""What a process may use of its machine, and what it has taken of it; without torch."""

from __future__ import annotations

import os
import re
import resource
import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def processors() -> set[int]:
    """Numbers of those that this process may run on: all, where the system tells no more."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def peak_bytes() -> int:
    """Resident bytes of this process when it held most.

    Linux says it by itself; its `ru_maxrss` is also what the process that started this one held.
    """
    status = STATUS.read_text() if STATUS.exists() else ""
    if told := re.search(r"^VmHWM:\s*(\d+) kB$", status, re.M):
        return int(told[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
