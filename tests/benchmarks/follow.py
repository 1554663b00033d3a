"""Measures a training from outside, by the log that it writes and the memory that it holds."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from mtkit.training.metrics_log import MetricsLog

FULL_SPEED = 0.9
"""Share of the median rate that counts as full speed."""
LOG_SECONDS, MEMORY_SECONDS = 0.2, 2.0
"""How often the log is read, and the memory, which is slower and disturbs the GPU."""


class FailedError(Exception):
    """A command failed; the text is the last line of its stderr."""


@dataclass(frozen=True)
class Speed:
    """The speed from the first logged step on, and the memory."""

    tokens_per_second: float
    step_ms: float
    slowest: float
    """Tokens per second between two logged steps, at least."""
    median: float
    fastest: float
    full_speed_seconds: float
    """From the start of the process to the first logged step at full speed."""
    gib: float
    """Largest memory in use: of the GPU, caches included; without a GPU, of the process."""


def follow(command: list[str], folder: Path, seconds: float) -> Speed:
    """Run a training for so many seconds from its first logged step, or to its end.

    It logs to metrics.jsonl in `folder`, or to stdout; a log that is there is overwritten.

    Raises:
        FailedError: it failed, or logged a single step.
    """
    records = list[dict[str, Any]]()
    errors, log = folder / "stderr.txt", folder / "metrics.jsonl"
    idle = gpu_gib() or 0.0
    began = look = time.perf_counter()
    peak, start = 0.0, float("inf")
    with log.open("w") as output, errors.open("w") as stderr:
        process = subprocess.Popen(command, stdout=output, stderr=stderr, start_new_session=True)
        try:
            while process.poll() is None and (not records or _duration(records) < seconds):
                time.sleep(LOG_SECONDS)
                if (now := time.perf_counter()) > look:
                    look = now + MEMORY_SECONDS
                    used = gpu_gib()
                    peak = max(peak, _resident_gib(process.pid) if used is None else used - idle)
                records = _logged_steps(folder)
                if records:  # the clock of the process began at `start`
                    start = min(start, now - began - records[-1]["seconds"])
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    records = _logged_steps(folder)
    if process.returncode not in (0, -signal.SIGKILL) or len(records) < 2:
        raise FailedError(last_line(errors.read_text(encoding="utf-8")))
    return _summarise(records, start, peak)


def _logged_steps(folder: Path) -> list[dict[str, Any]]:
    return [record for record in MetricsLog(folder).read() if "tokens" in record]


def _duration(records: list[dict[str, Any]]) -> float:
    """Return the seconds from the first logged step to the last."""
    return float(records[-1]["seconds"] - records[0]["seconds"])


def _summarise(records: list[dict[str, Any]], start: float, gib: float) -> Speed:
    first, *others = records
    spans = [max(b["seconds"] - a["seconds"], 1e-3) for a, b in pairwise(records)]
    rates = [record["tokens"] / span for record, span in zip(others, spans, strict=True)]
    at_full_speed = next(
        record["seconds"]
        for record, rate in zip(others, rates, strict=True)
        if rate >= FULL_SPEED * median(rates)
    )
    return Speed(
        tokens_per_second=sum(record["tokens"] for record in others) / sum(spans),
        step_ms=1000 * sum(spans) / (others[-1]["step"] - first["step"]),
        slowest=min(rates),
        median=median(rates),
        fastest=max(rates),
        full_speed_seconds=start + at_full_speed,
        gib=gib,
    )


def finish(command: list[str]) -> str:
    """Run a command and return what it writes to stdout, or raise FailedError."""
    ended = subprocess.run(command, capture_output=True, text=True)
    if ended.returncode:
        raise FailedError(last_line(ended.stderr))
    return ended.stdout


def last_line(text: str) -> str:
    """Return the last line of a text that is not blank."""
    return next(filter(str.strip, reversed(text.splitlines())), "no message")


def ask_gpu(quantity: str) -> str | None:
    """Return what nvidia-smi knows of the first GPU; None without one."""
    command = ["nvidia-smi", f"--query-gpu={quantity}", "--format=csv,noheader,nounits"]
    try:
        return finish(command).splitlines()[0]
    except (FailedError, FileNotFoundError):
        return None


def gpu_gib() -> float | None:
    """Return the memory in use on the first GPU; None without one."""
    used = ask_gpu("memory.used")
    return None if used is None else float(used) / 1024


def _resident_gib(process: int) -> float:
    """Return the largest resident set of a running process."""
    status = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    peaks = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")]
    return peaks[0] / 2**20 if peaks else 0.0
