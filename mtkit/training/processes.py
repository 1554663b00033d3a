"""Choose how many processes train, and start them on this machine."""

from __future__ import annotations

import multiprocessing
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from threading import Thread
from types import ModuleType
from typing import Any, NoReturn, cast

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from mtkit import report
from mtkit.artifacts.runs import CHECKPOINTS, STARTED_BY, this_process
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.machine import count_cores, launcher_variable, memory_limit_bytes
from mtkit.models.device import pick_device
from mtkit.models.weights import build_without_weights
from mtkit.signals import STOP_SIGNALS, StopSignals, exit_on_stop_signals
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.checkpoints import recorded_processes
from mtkit.training.process_group import LostProcess

PROCESSES_PER_BATCH = 4
"""Most GPUs for each batch of a step; with less than a quarter of a batch, a GPU is hardly used."""
MIN_STEP_TOKENS = 512
"""Fewest tokens per step and process; with 256, a core trains half as fast as with 1,024."""
WEIGHTS_PER_TOKEN = 40_000
"""Most weights per token on a CPU; in larger models threads are as fast, and need less memory."""
PROCESS_BYTES = 1 << 29
"""Memory of a process without its model: the program, its libraries and a batch."""
MEMORY_SHARE = 0.7
"""Share of the memory for training; the rest is for validation and other programs."""
COPIES = 6
"""Copies of the parameters: weights, gradients (also while exchanged), two moments, a mean."""

SECONDS_TO_SAVE = 600
"""Time for processes to save and exit, after a stop signal or when another process has failed."""


def count_processes(config: Config, tokenizer: Tokenizer) -> int:
    """Return how many processes to start for this run; 1 if this process does the training.

    A resumed run gets as many processes as before, because another number changes rounding.

    Raises:
        UserError: more processes are requested than there are GPUs, or a variable of torchrun or
            Slurm is not a number.
    """
    training, device = config.training, pick_device(config.training.device)
    devices = count_devices(device)
    if os.environ.get("RANK") or os.environ.get("WORLD_SIZE"):  # of torchrun, or of a worker
        launched = launcher_variable("WORLD_SIZE")
        if training.ranks not in ("auto", launched):
            report.warn(f"training.ranks is {training.ranks}, but torchrun started {launched}")
        return 1
    if training.ranks != "auto":
        if device.type != "cpu" and training.ranks > devices:
            raise UserError(
                f"training.ranks is {training.ranks}, but the number of {device.type} devices is "
                f"{devices}"
            )
        return training.ranks
    if launcher_variable("SLURM_NTASKS") > 1:  # Slurm starts this command several times
        return 1
    if recorded := recorded_processes(Path(config.run) / CHECKPOINTS):
        return min(recorded, devices)
    limits: list[float] = [devices]
    if device.type == "cpu":
        model = build_without_weights(config.model, tokenizer.source_vocab, tokenizer.target_vocab)
        weights = sum(parameter.numel() for parameter in model.parameters())
        limits.append(MEMORY_SHARE * memory_limit_bytes() / (PROCESS_BYTES + COPIES * 4 * weights))
        min_tokens = max(MIN_STEP_TOKENS, weights / WEIGHTS_PER_TOKEN)
    else:
        min_tokens = max(MIN_STEP_TOKENS, config.batching.max_tokens / PROCESSES_PER_BATCH)
    if training.accumulate != "auto":
        limits.append(training.accumulate * config.batching.max_tokens / min_tokens)
    elif config.batching.max_tokens < min_tokens:  # each process would have too little to do
        return 1
    return int(max(1, min(limits)))


def count_devices(device: torch.device) -> int:
    """Return the number of GPUs, or of cores."""
    return {"cuda": torch.cuda.device_count, "cpu": count_cores}.get(device.type, lambda: 1)()


def threads_per_process(count: int) -> int:
    """Return the number of threads of each of `count` processes that share the cores."""
    return max(1, count_cores() // count)


def start_processes(function: Callable[..., object], count: int, *arguments: Any) -> None:
    """Run `function(*arguments)` in `count` new processes, and wait until all have ended.

    They share the cores, and find their ranks in the environment as if torchrun had started them.
    Stop signals of this process are passed on to them. They end when this process ends, even if it
    is killed.

    Raises:
        Exception: the first error of a process; LostProcess if one ended without an error.
        SystemExit: a stop signal ended the processes before there was anything to save.
    """
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    workers: dict[Connection, SpawnProcess] = {}

    def pass_on(number: int) -> None:
        for process in workers.values():
            if process.is_alive():
                os.kill(process.pid or 0, number)

    with StopSignals(pass_on, pass_on) as stop:
        try:
            with _starting_workers(count):
                for rank in range(count):
                    ours, theirs = multiprocessing.Pipe(duplex=False)
                    settings = os.getcwd(), _variables(rank, count, store.port), report.verbosity()
                    process = multiprocessing.get_context("spawn").Process(
                        target=_run_worker, args=(theirs, settings, function, arguments)
                    )
                    process.start()
                    theirs.close()
                    workers[ours] = process
            errors = _wait_for(workers, stop)
        finally:
            for process in workers.values():
                process.kill()
                process.join()
    for error in sorted(errors, key=lambda error: isinstance(error, LostProcess)):
        raise error
    if stop.received:
        raise SystemExit(128 + stop.received)


def _wait_for(workers: Mapping[Connection, SpawnProcess], stop: StopSignals) -> list[Exception]:
    """Wait until all workers have ended; return their errors in the order of arrival."""
    errors: list[Exception] = []
    running = dict(workers)
    while running:
        is_ending = bool(errors or stop.received)
        ready = wait(list(running), SECONDS_TO_SAVE if is_ending else 1.0)
        if is_ending and not ready:
            for process in running.values():
                process.kill()
        for connection in cast(list[Connection], ready):
            try:
                errors.append(connection.recv())
            except EOFError:
                process = running.pop(connection)
                process.join()
                if (code := process.exitcode) and not stop.received:
                    how = f"exit code {code}" if code > 0 else signal.Signals(-code).name
                    again = "run the same command again to resume"
                    errors.append(LostProcess(f"a process was lost ({how}): {again}"))
    return errors


@contextmanager
def _starting_workers(count: int) -> Iterator[None]:
    """Prepare what new processes inherit: number of threads, blocked signals, no main script.

    Workers unblock the signals when they can handle them. Without the main script workers start
    faster, and a user's script that trains needs no `if __name__ == "__main__"`.
    """
    threads = str(threads_per_process(count))
    # OpenMP reads its number of threads when torch is imported. The current directory must not
    # be searched for modules before multiprocessing has set the path of this process.
    environment = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads)
    environment["PYTHONSAFEPATH"] = "1"
    before = {name: os.environ.get(name) for name in environment}
    resource_tracker.ensure_running()  # first, as its start unblocks signals
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
    os.environ.update(environment)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _variables(rank: int, count: int, port: int) -> dict[str, str]:
    """Return the environment variables that torchrun would set, and STARTED_BY."""
    variables = {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # the store exists already
        "TORCHELASTIC_RESTART_COUNT": "0",
        STARTED_BY: this_process(),
    }
    loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), None)
    if loopback is not None:  # the name of a machine often has no address
        variables["GLOO_SOCKET_IFNAME"] = loopback
    return variables


def _run_worker(
    connection: Connection,
    settings: tuple[str, Mapping[str, str], tuple[bool, bool]],
    function: Callable[..., object],
    arguments: Sequence[Any],
) -> NoReturn:
    """Run the function in a worker, send its error to the parent process, and exit."""
    Thread(target=_exit_with_parent, daemon=True).start()
    stop = exit_on_stop_signals()
    code = 0
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        folder, variables, verbosity = settings
        os.chdir(folder)
        os.environ.update(variables)
        report.set_quiet(verbosity[0])
        report.set_debug(verbosity[1])
        function(*arguments)
    except SystemExit:
        code = 1
    except Exception as error:
        code = 1
        with suppress(OSError):  # the parent process is gone
            connection.send_bytes(_pickled(error))
    # Threads of gloo, which torch never frees, can abort an
    # interpreter that shuts down.
    os._exit(128 + stop.received if stop.received else code)


def _exit_with_parent() -> None:
    """Kill this process when its parent process ends, for whatever reason."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
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
