"""Commands that are measured from outside: what they write, how long they take, what they hold."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finished:
    """A command that has succeeded."""

    text: str
    """What it wrote to stdout."""
    seconds: float
    """From its start to its end."""
    peak_mib: int
    """MiB that were resident at most, of the process that was started."""

    @property
    def record(self) -> dict[str, Any]:
        """What it wrote, as JSON."""
        record: dict[str, Any] = json.loads(self.text)
        return record


def mtkit(*arguments: str) -> list[str]:
    """A command of mtkit, in this interpreter."""
    return [sys.executable, "-m", "mtkit", *arguments]


def run(command: Sequence[str], *, text: str = "", threads: int | None = None) -> Finished:
    """Runs the command on `text`; where it fails this program ends, too."""
    began = time.perf_counter()
    process = start(command, threads=threads)
    assert process.stdin is not None and process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(text)
        process.stdin.close()
        written = process.stdout.read()
    peak = wait(process)
    if process.returncode:
        sys.exit(f"failed: {' '.join(command)}")
    return Finished(written, time.perf_counter() - began, peak)


def start(
    command: Sequence[str],
    *,
    threads: int | None = None,
    stderr: int | None = None,
    is_leader: bool = False,
) -> subprocess.Popen[str]:
    """With as many threads; as the leader of a session, whose processes can be ended together."""
    names = [] if threads is None else ["OMP_NUM_THREADS", "MKL_NUM_THREADS"]
    environment = os.environ | dict.fromkeys(names, str(threads)) | {"PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        errors="replace",
        start_new_session=is_leader,
    )


def wait(process: subprocess.Popen[str]) -> int:
    """Peak resident MiB of an ending process, which Python's own waiting does not tell."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_maxrss * unit >> 20
