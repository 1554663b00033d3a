"""Encode several parts at a time, each by `mtkit batch --part K` in a process of its own.

A process that is killed loses one part. If this process is killed by SIGKILL, the others finish the
parts that they are encoding.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from mtkit.artifacts.manifest import Artifact
from mtkit.batching.parts import Parts
from mtkit.config.yaml import dump_config
from mtkit.corpus.files import tell_once
from mtkit.errors import MtkitError, UserError
from mtkit.machine import count_cores
from mtkit.progress import progress
from mtkit.report import WARNING, say, verbosity, warn


def encode_parts(parts: Parts) -> list[Artifact]:
    """Encode all parts that are missing or not up to date, and return all parts.

    Raises:
        UserError: the text of a part cannot be read.
        MtkitError: a process was killed.
    """
    found = {number: parts.find(number) for number in range(1, 1 + len(parts))}
    missing = [number for number, part in found.items() if part is None]
    count = min(count_cores(), len(missing))
    if count > 1:
        _run_processes(parts, missing, count)
    # Without other processes, this one encodes them.
    return [part or parts.encode(number) for number, part in found.items()]


def _run_processes(parts: Parts, numbers: Sequence[int], count: int) -> None:
    """Encode parts in processes, `count` at a time."""
    # -P keeps Python from searching the current directory for modules; PYTHONPATH has all folders
    # that this process searches.
    command = [sys.executable, "-P", "-m", "mtkit", "batch", "--quiet", "-c", "/dev/stdin"]
    _, is_debug = verbosity()
    if is_debug:
        command.append("--debug")
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        # The processes share the cores.
        "OMP_NUM_THREADS": str(max(1, count_cores() // count)),
    }
    config = dump_config(parts.config)
    processes: list[subprocess.Popen[str]] = []

    def encode(number: int) -> tuple[int, str]:
        """Return the exit code of the process that encodes a part, and what it wrote to stderr."""
        process = subprocess.Popen(
            [*command, "--part", str(number)],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            encoding="utf-8",
        )
        processes.append(process)
        _, messages = process.communicate(config)
        return process.returncode, messages

    pairs = sum(len(parts.rows_of(number)) for number in numbers)
    with (
        progress("encoding train", pairs, "pairs") as bar,
        ThreadPoolExecutor(count) as pool,
    ):
        try:
            for number, (code, messages) in zip(numbers, pool.map(encode, numbers), strict=True):
                _pass_on(number, code, messages)
                bar.advance(len(parts.rows_of(number)))
        finally:  # after an error or a stop signal, the others end, too; ended ones ignore it
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()


def _pass_on(number: int, code: int, messages: str) -> None:
    """Write the messages of a process that has ended; raise the error with which it has ended."""
    lines = messages.splitlines()
    error = lines.pop() if code > 0 and lines else ""
    for line in lines:
        if line.startswith(WARNING):
            tell_once(warn, line.removeprefix(WARNING))  # each process may warn of the same
        else:  # a traceback
            say(line)
    if code < 0:
        raise MtkitError(
            f"the process that encoded part {number} was killed ({signal.Signals(-code).name}); "
            "run the same command again, which keeps all finished parts"
        )
    if code == UserError.exit_code:
        raise UserError(error)
    if code:
        raise MtkitError(f"part {number}: {error}")
