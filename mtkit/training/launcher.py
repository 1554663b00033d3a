"""Start processes that train together on this machine, and wait for them.

Each process is `python -m mtkit.training.worker`. A process of our own, rather than one of
`multiprocessing`, imports nothing of a user's script that calls `mtkit.train`, so such a script
needs no `if __name__ == "__main__"`.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from mtkit import report
from mtkit.artifacts.runs import STARTED_BY, this_process
from mtkit.errors import HOW_TO_CONTINUE, Interrupted
from mtkit.signals import STOP_SIGNALS, StopSignals
from mtkit.training.process_group import LostProcess
from mtkit.training.processes import threads_per_process

SECONDS_TO_SAVE = 600
"""Time for processes to save and exit, after a stop signal or when another process has failed."""

SECONDS_BETWEEN_CHECKS = 1.0
"""Time after which the launcher looks whether it has received a stop signal."""


@dataclass(frozen=True)
class WorkerTask:
    """What a worker runs, and how much it reports."""

    function: Callable[..., object]
    """A function of a module, which the worker imports."""
    arguments: Sequence[Any]
    is_quiet: bool
    is_debug: bool


def start_processes(function: Callable[..., object], count: int, *arguments: Any) -> None:
    """Run `function(*arguments)` in `count` new processes, and wait until all have ended.

    They share the cores, and find their ranks in the environment as if torchrun had started them.
    Stop signals of this process are passed on to them. They end when this process ends, even if it
    is killed.

    Raises:
        Exception: the first error of a process; LostProcess if one ended without an error.
        Interrupted: a stop signal ended the processes while they had nothing to save.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    is_quiet, is_debug = report.verbosity()
    task = WorkerTask(function, arguments, is_quiet, is_debug)
    workers: dict[Connection, subprocess.Popen[bytes]] = {}

    def pass_on(number: int) -> None:
        for worker in workers.values():
            worker.send_signal(number)

    with StopSignals(pass_on, pass_on) as stop:
        try:
            with _blocked_signals():
                for rank in range(count):
                    connection, worker = _start_worker(task, _variables(rank, count, store.port))
                    workers[connection] = worker
            failures = _wait_for(workers, stop)
        finally:
            for worker in workers.values():
                worker.kill()
                worker.wait()
    if failures:
        raise _find_cause(failures)
    if stop.received:
        raise Interrupted(128 + stop.received, HOW_TO_CONTINUE)


def _find_cause(failures: Sequence[BaseException]) -> BaseException:
    """Return the failure to report: a lost process is often the consequence of another's error."""
    for failure in failures:
        if not isinstance(failure, LostProcess):
            return failure
    return failures[0]


@contextmanager
def _blocked_signals() -> Iterator[None]:
    """Block stop signals; a worker inherits this, and unblocks them once it can handle them."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _start_worker(
    task: WorkerTask, variables: Mapping[str, str]
) -> tuple[Connection, subprocess.Popen[bytes]]:
    """Start a worker and send it its task; return the connection to it, and its process.

    The connection brings the error of the worker, if it fails. It closes on both sides when one of
    the two processes ends, and so tells the other one.
    """
    ours, theirs = Pipe()
    # -P: the current directory must not be searched for modules, unless this process does so.
    command = [sys.executable, "-P", "-m", "mtkit.training.worker", str(theirs.fileno())]
    worker = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **variables},
        pass_fds=[theirs.fileno()],
    )
    theirs.close()
    with suppress(OSError):  # the worker has been killed, which `_wait_for` reports
        ours.send(task)
    return ours, worker


def _wait_for(
    workers: Mapping[Connection, subprocess.Popen[bytes]], stop: StopSignals
) -> list[Exception]:
    """Wait until all workers have ended; return their errors in the order of arrival."""
    failures: list[Exception] = []
    running = dict(workers)
    while running:
        is_ending = bool(failures or stop.received)
        timeout = SECONDS_TO_SAVE if is_ending else SECONDS_BETWEEN_CHECKS
        ready = wait(list(running), timeout)
        if is_ending and not ready:
            for worker in running.values():
                worker.kill()
        for connection in cast(list[Connection], ready):
            try:
                failures.append(connection.recv())
            except (EOFError, ConnectionResetError):  # the worker has ended
                code = running.pop(connection).wait()
                if code and not stop.received:
                    failures.append(_lost_process(code))
    return failures


def _lost_process(code: int) -> LostProcess:
    """Return the error for a worker that has ended with an exit code, or by a signal (below 0)."""
    how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
    return LostProcess(f"a process was lost ({how}): run the same command again to resume")


def _variables(rank: int, count: int, port: int) -> dict[str, str]:
    """Return the environment variables that torchrun would set, and those of our own."""
    threads = str(threads_per_process(count))
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store exists already
        "TORCHELASTIC_RESTART_COUNT": "0",
        # OpenMP reads its number of threads once, when torch is imported.
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        # Modules are found in the worker where they are found here.
        "PYTHONPATH": os.pathsep.join(sys.path),
        STARTED_BY: this_process(),
    }
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback is not None:  # the name of a machine often has no address
        variables["GLOO_SOCKET_IFNAME"] = loopback
    return variables
