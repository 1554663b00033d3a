"""Starts the ranks of a run on this machine, on torch's elastic launcher, and says how they ended.

They are the processes that torchrun would start. But they end with the one that started them,
however it ends, and what they fail from is said once.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from fcntl import LOCK_EX, LOCK_SH, flock
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory
from threading import Thread, current_thread, main_thread

from mtkit import report
from mtkit.errors import Interrupted, MtkitError, UserError

LAUNCHER = "MTKIT_LAUNCHER"
"""The variable that tells a rank the folder of whoever started it."""
ALIVE, VERDICT, CONFIG = "alive", "verdict", "config.yaml"
"""Files there: locked for as long as the launcher lives; why the first rank that failed did; what
all of them do.
"""
VERDICT_BYTES = 4096
"""Taken beforehand: a disk that is full has no room for the news."""
SECONDS_TO_SAVE = 600
"""That ranks have when they are told to stop."""
SIGNALS = [signal.SIGINT, signal.SIGTERM]
"""That a process is to stop: Ctrl-C, somebody, and, but for nohup, a terminal that is gone."""
if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
    SIGNALS.append(signal.SIGHUP)
MOMENT = 1.0
"""Seconds in which a second signal is the same wish: told to a process, and by who started it."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Where ranks read how many threads they have; of both, torch takes the latter."""


def ranks_started() -> int | None:
    """How many ranks torchrun, or `launch`, started this process among; None: it is no rank."""
    if {"RANK", "WORLD_SIZE"}.isdisjoint(os.environ):
        return None
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_one_of_slurm() -> bool:
    """Whether Slurm runs the same command several times, or is going to."""
    return int(os.environ.get("SLURM_NTASKS", "1")) > 1


def launch(arguments: Sequence[str], count: int, config: str | None = None) -> None:
    """Runs `mtkit ARGUMENTS` as `count` ranks that share the cores, until all of them have ended.

    `config`: the text of the file that they read. Raises what ended them, as the first of them
    said it; with their checkpoint saved, Interrupted after one of SIGNALS.
    """
    from torch.distributed.elastic.multiprocessing.api import DefaultLogsSpecs, SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    from mtkit.training.processors import threads_of

    with TemporaryDirectory(prefix="mtkit-ranks-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / VERDICT).write_bytes(b" " * VERDICT_BYTES)
        settings = LaunchConfig(
            min_nodes=1,
            max_nodes=1,
            nproc_per_node=count,
            run_id=folder.name,
            rdzv_backend="c10d",
            rdzv_endpoint="127.0.0.1:0",
            local_addr="127.0.0.1",
            max_restarts=0,
            signals_to_handle=",".join(number.name for number in SIGNALS),
            shutdown_timeout=SECONDS_TO_SAVE,
            logs_specs=DefaultLogsSpecs(str(folder)),
        )
        command = ["-P", "-m", "mtkit", *arguments, *report.options()]
        if config is not None:
            (folder / CONFIG).write_text(config, encoding="utf-8")
            command += ["-c", str(folder / CONFIG)]
        with (folder / ALIVE).open("w") as alive, _surroundings(folder, threads_of(count)):
            flock(alive, LOCK_EX)
            try:
                elastic_launch(settings, sys.executable)(*command)
            except SignalException as stopped:
                raise _verdict(folder) or SystemExit(128 + stopped.sigval) from None
            except ChildFailedError as failed:
                first = failed.get_first_failure()[1]
                code = first.exitcode
                which = f"exit code {code}" if code >= 0 else first.signal_name()
                lost = f"a rank was lost ({which}): run the same command again to go on"
                raise _verdict(folder) or MtkitError(lost) from failed


@contextmanager
def _surroundings(folder: Path, threads: int) -> Iterator[None]:
    """What ranks inherit; on the way out, what torch changed in this process is as it was."""
    from mtkit.artifacts.runs import STARTED_BY, this_process  # which every command would wait for

    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    told = {LAUNCHER: str(folder), **dict.fromkeys(THREADS, str(threads))}
    told[STARTED_BY] = json.dumps(this_process())
    told["PYTHONPATH"] = os.pathsep.join(sys.path)  # not the directory, unless this one does
    if loopback is not None:  # the name of a machine often leads nowhere
        told["GLOO_SOCKET_IFNAME"] = loopback
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    if "--debug" not in report.options():  # torch tells of its part in it, as it goes on
        noise = logging.getLogger("torch.distributed.elastic")
        noise.addHandler(logging.NullHandler())
        noise.propagate = False
    before = dict(os.environ)
    os.environ.update(told)
    try:
        yield
    finally:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
        if current_thread() is main_thread():
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _verdict(folder: Path) -> MtkitError | None:
    """The error that the first rank to fail handed over."""
    text = (folder / VERDICT).read_text("utf-8").strip()
    if not text:
        return None
    line, code = json.loads(text)
    match code:
        case 2:
            return UserError(line)
        case 129 | 130 | 143:
            return Interrupted(code, line)
    return MtkitError(line)


def follow() -> None:
    """In a rank: it ends at once, without a word, when its launcher is gone."""
    if folder := os.environ.get(LAUNCHER):
        Thread(target=_end_with, args=[Path(folder) / ALIVE], daemon=True).start()


def _end_with(alive: Path) -> None:
    with suppress(FileNotFoundError), alive.open() as file:
        flock(file, LOCK_SH)  # returns when the launcher's lock is gone
    rmtree(alive.parent, ignore_errors=True)  # which a launcher that is killed leaves
    os.kill(os.getpid(), signal.SIGKILL)


def hand_over(line: str, code: int) -> bool:
    """In a rank: keeps for its launcher why it ends, where it is the first; False elsewhere."""
    folder = os.environ.get(LAUNCHER)
    if folder is None:
        return False
    with suppress(OSError), (Path(folder) / VERDICT).open("r+b") as file:
        flock(file, LOCK_EX)
        if not file.read().strip():
            file.seek(0)
            file.write(json.dumps([line, code]).encode())
    return True
