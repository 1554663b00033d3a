"""Commands that a signal ends, and checks of what they leave.

They run as children of a fork server, which has imported everything once: so hundreds of kills take
minutes; or each in a process of its own. A moment is a file operation, counted by Python's audit
events, which come before the operation: the process sends the signal to itself there, so that it is
in the middle of a checkpoint for certain, however fast or busy the machine is.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path
from pkgutil import resolve_name
from typing import Any
from unittest.mock import patch

from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.runs import OWNER
from mtkit.cli.main import main

SERVER = multiprocessing.get_context("forkserver")
STAGES = (
    "mtkit.tokenizer.train_spm",
    "mtkit.batching.build",
    "mtkit.training.train",
    "mtkit.decoding.translate",
)
SERVER.set_forkserver_preload(["mtkit.cli.main", *STAGES])
OPERATIONS = frozenset(
    {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.symlink", "shutil.rmtree"}
)
"""Audit events; `os.replace` is an "os.rename", too."""
TIMES = frozenset({"seconds", "training_seconds", "tokens_per_second"})
NOW = NEVER = -1
OUTPUT = "said.txt"
"""What commands write to stdout and stderr."""
TRANSLATION = "out.txt"
COMMANDS = {
    "train-spm": ["train-spm"],
    "batch": ["batch"],
    "train": ["train"],
    "translate": ["translate", "in.txt", "-o", TRANSLATION, "-m", "run"],
}
"""The four stages, in a folder with mtkit.yaml and in.txt."""


@dataclass(frozen=True)
class Moment:
    """When a command gets which signal."""

    operation: int
    """Number of the file operation before which it comes; 0 is the start of the command."""
    seconds: float | None = None
    """Time after that; None: the signal comes at the operation itself."""
    signal: int = signal.SIGKILL


@dataclass(frozen=True)
class Ending:
    """How a command ended."""

    code: int
    """Exit code; negative: the signal that killed it."""
    operations: int
    """Number of its file operations; NOW if unknown."""
    seconds: float


Contents = dict[str, Any]
"""What files hold, by their names."""
Runner = Callable[[Sequence[str], Path, Moment | None], Ending]


def run(arguments: Sequence[str], home: Path, moment: Moment | None = None) -> Ending:
    """Run `mtkit ARGUMENTS` in the folder `home`, with a signal if it lasts until `moment`."""
    hears, tells = SERVER.Pipe(duplex=False)
    process = SERVER.Process(target=_child, args=(list(arguments), home, moment, tells))
    began = time.monotonic()
    process.start()
    tells.close()
    operations = hears.recv()
    if operations == NOW and moment is not None and moment.seconds is not None:
        time.sleep(moment.seconds)
        assert process.pid is not None
        with suppress(ProcessLookupError):  # it was faster than when it was timed
            os.kill(process.pid, moment.signal)
    process.join()
    assert process.exitcode is not None
    return Ending(process.exitcode, operations, time.monotonic() - began)


def run_alone(arguments: Sequence[str], home: Path, moment: Moment | None = None) -> Ending:
    """Run a command like `run`, in a separate process; moments are file operations."""
    at = moment or Moment(NEVER)
    assert at.seconds is None
    began = time.monotonic()
    with open(home / OUTPUT, "ab") as file:
        command = [sys.executable, __file__, str(at.operation), str(int(at.signal)), *arguments]
        ended = subprocess.run(command, cwd=home, stdout=file, stderr=file)
    return Ending(ended.returncode, NOW, time.monotonic() - began)


def _child(arguments: list[str], home: Path, moment: Moment | None, tells: Connection) -> None:
    """In the child: send the number of file operations, or NOW at the moment."""
    work_in(home)

    def reached() -> None:
        assert moment is not None
        tells.send(NOW)
        if moment.seconds is None:
            os.kill(os.getpid(), moment.signal)

    operations = _Operations(home, NEVER if moment is None else moment.operation, reached)
    sys.addaudithook(operations)
    try:
        main(arguments)
    finally:
        tells.send(operations.count)


@dataclass(frozen=True)
class Loss:
    """A signal to one of several processes."""

    rank: int
    step: int
    """Number of steps that it has done."""
    signal: int
    function: str = "train_step"
    """The function that the signal precedes: `train_step` or `validate`."""


HANG_SECONDS = 300
"""Time after which processes count as hanging: far longer than any command takes."""


def run_processes(
    arguments: Sequence[str], homes: Sequence[Path], loss: Loss | None = None
) -> list[int]:
    """Return the exit codes of processes that run a command as torchrun would.

    Each works in a folder of its own, as on another machine, or in the same. They meet at a store
    of this process, whose port no other process can take.
    """
    count = len(homes)
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    shared = {"MASTER_ADDR": "localhost", "MASTER_PORT": str(store.port), "WORLD_SIZE": str(count)}
    shared |= {"TORCHELASTIC_USE_AGENT_STORE": "True", "TORCHELASTIC_RESTART_COUNT": "0"}
    processes = [
        SERVER.Process(target=_rank, args=(list(arguments), home, rank, shared, loss))
        for rank, home in enumerate(homes)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(HANG_SECONDS)
        process.kill()
        process.join()
    return [process.exitcode or 0 for process in processes]


def _rank(
    arguments: list[str], home: Path, rank: int, shared: dict[str, str], loss: Loss | None
) -> None:
    """In the child of that rank."""
    from mtkit.training.state import TrainState

    os.environ.update(shared, RANK=str(rank), LOCAL_RANK=str(rank))
    work_in(home)

    name = f"mtkit.training.train.{loss.function if loss else 'train_step'}"
    function = resolve_name(name)

    def lost(*positional: Any, **named: Any) -> Any:
        (state,) = (value for value in positional if isinstance(value, TrainState))
        if loss is not None and (rank, state.progress.step) == (loss.rank, loss.step):
            os.kill(os.getpid(), loss.signal)
        return function(*positional, **named)

    with patch(name, lost):
        main(arguments)


VICTIMS = ("launcher", "first worker", "second worker")
"""Processes of a run that starts two workers."""


def run_parallel(arguments: Sequence[str], home: Path, victim: str = "", step: int = 0) -> int:
    """Return the exit code of a command that starts two workers, when all three have ended.

    `victim` is killed once there is a checkpoint of `step` or a later one.
    """
    command = [sys.executable, "-m", "mtkit", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=home, stdout=pipe, stderr=subprocess.STDOUT) as process:
        while victim and process.poll() is None:
            if _last_checkpoint(home) >= f"step-{step:08d}":
                those = dict(zip(VICTIMS, [process.pid, *_workers_of(process.pid)], strict=True))
                with suppress(ProcessLookupError):
                    os.kill(those[victim], signal.SIGKILL)
                break
            time.sleep(0.001)
        text, _ = process.communicate()  # whose end is that of the last process that could write
    with open(home / OUTPUT, "ab") as file:
        file.write(text)
    return process.returncode


def _workers_of(launcher: int) -> list[int]:
    """Return its worker processes in their order."""
    children = Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_text() for child in children}
    return sorted(
        child for child, command in commands.items() if "mtkit.training.worker" in command
    )


def work_in(home: Path) -> None:
    """Work in the folder `home`, and write all output to a file there."""
    os.chdir(home)
    file = os.open(OUTPUT, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(file, descriptor)


def survive_at(moment: int, work: Callable[[], object]) -> bool:
    """Run `work` in a process killed before its `moment`th disk operation; False if it was."""
    if (child := os.fork()) == 0:
        accesses = count()

        def audit(event: str, _: object) -> None:
            if event.startswith(("os.", "open", "shutil.")) and next(accesses) == moment:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(audit)
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    end = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert end in (0, -signal.SIGKILL)
    return end == 0


class _Operations:
    """An audit hook that counts operations on files of `home`, and acts at one of them."""

    def __init__(self, home: Path, at: int, act: Callable[[], None]) -> None:
        self.home, self.at, self.act = f"{home}/", at, act
        self.count = -1
        self._next()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in OPERATIONS and self._is_at_home(arguments[0]):
            self._next()

    def _next(self) -> None:
        self.count += 1
        if self.count == self.at:
            self.act()

    def _is_at_home(self, path: Any) -> bool:
        if not isinstance(path, str | Path):  # of what is open already
            return False
        return not os.path.isabs(path) or str(path).startswith(self.home)


@dataclass(frozen=True)
class Kill:
    """A kill that hit a running command."""

    stage: str
    place: str
    """What it left: a partial checkpoint, another partial output, or neither."""


def kills(
    stage: str, home: Path, moments: Iterable[Moment], finished: Contents, runner: Runner = run
) -> Iterator[Kill]:
    """Run a stage in `home` until it completes, killed at each of `moments` before that.

    After each kill all artifacts must be complete, and no checkpoint be lost. `finished` is what a
    folder holds after all stages.
    """
    last = _last_checkpoint(home)
    for moment in moments:
        before = _unfinished(home)
        ending = runner(COMMANDS[stage], home, moment)
        if ending.code == 0:
            return
        assert ending.code == -signal.SIGKILL, output_of(home)
        check_artifacts(home, finished)
        before_it, last = last, _last_checkpoint(home)
        assert before_it <= last
        left = _unfinished(home) - before
        yield Kill(stage, _place(path for path, _ in left))
    ending = runner(COMMANDS[stage], home, None)
    assert ending.code == 0, output_of(home)


def _place(unfinished: Iterable[Path]) -> str:
    inside = ["checkpoints" in path.parts for path in unfinished]
    return "in a save" if any(inside) else "in another write" if inside else "between"


def output_of(home: Path) -> str:
    """Return the end of what commands in `home` wrote to stdout and stderr."""
    return (home / OUTPUT).read_text(encoding="utf-8")[-2000:]


def check_artifacts(home: Path, finished: Contents) -> None:
    for manifest in (home / "run").rglob("manifest.json"):
        if not manifest.parent.name.startswith("."):
            kind = json.loads(manifest.read_text(encoding="utf-8"))["kind"]
            open_artifact(manifest.parent, kind, verify=True)
    translation = home / TRANSLATION
    assert not translation.exists() or translation.read_bytes() == finished[TRANSLATION]


def _last_checkpoint(home: Path) -> str:
    return max((path.name for path in (home / "run/checkpoints").glob("step-*")), default="")


def _unfinished(home: Path) -> set[tuple[Path, int]]:
    """Return the partial outputs, and when they were last written."""
    paths = [path for pattern in (".*.partial", ".*.old") for path in home.rglob(pattern)]
    return {(path.relative_to(home), path.stat().st_mtime_ns) for path in paths}


def contents(home: Path) -> Contents:
    """Return all contents of `home`, without recorded times and processes."""
    return {
        path.relative_to(home).as_posix(): _content(path)
        for path in home.rglob("*")
        if path.name not in (OUTPUT, OWNER)
    }


def _content(path: Path) -> Any:
    if path.is_symlink():
        return path.readlink()
    if path.is_dir():
        return None
    if path.name == "manifest.json":
        return _timeless(json.loads(path.read_text(encoding="utf-8")))
    if path.name == "metrics.jsonl":
        lines = path.read_text(encoding="utf-8").splitlines()
        return [_timeless(json.loads(line)) for line in lines]
    return path.read_bytes()


def _timeless(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _timeless(inner) for key, inner in value.items() if key not in TIMES}


if __name__ == "__main__":  # a command in a process of its own: OPERATION SIGNAL ARGUMENTS
    operation, number = map(int, sys.argv[1:3])
    sys.addaudithook(_Operations(Path.cwd(), operation, lambda: os.kill(os.getpid(), number)))
    main(sys.argv[3:])
