"""One of several processes that train together; `start_processes` starts it.

Its argument is the number of an open file: the connection to the process that has started it, its
launcher. It brings a WorkerTask, takes an error, and closes when the launcher ends.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from threading import Thread
from typing import NoReturn

from mtkit import report
from mtkit.signals import STOP_SIGNALS, exit_on_stop_signals
from mtkit.training.launcher import WorkerTask


def run_task(launcher: Connection) -> NoReturn:
    """Receive a task from the launcher, run it, send its error to the launcher, and exit."""
    stop = exit_on_stop_signals()
    code = 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        task: WorkerTask = launcher.recv()
        Thread(target=_exit_with_launcher, args=[launcher], daemon=True).start()
        report.set_quiet(task.is_quiet)
        report.set_debug(task.is_debug)
        task.function(*task.arguments)
    except SystemExit:
        code = 1
    except Exception as error:
        code = 1
        with suppress(OSError):  # the launcher is gone
            launcher.send_bytes(_pickled(error))
    # Threads of gloo, which torch never frees, can abort an interpreter that shuts down.
    os._exit(128 + stop.received if stop.received else code)


def _exit_with_launcher(launcher: Connection) -> None:
    """Kill this process when the launcher ends, for whatever reason."""
    with suppress(EOFError, OSError):
        launcher.recv()  # no second task comes, so this waits for the end
    os.kill(os.getpid(), signal.SIGKILL)


def _pickled(error: Exception) -> memoryview:
    """Return the pickled error; its traceback is added as a note, which --debug shows."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        data = ForkingPickler.dumps(error)
        ForkingPickler.loads(data)
    except Exception:  # an error of a library that cannot be pickled
        return ForkingPickler.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return data


if __name__ == "__main__":
    run_task(Connection(int(sys.argv[1])))
