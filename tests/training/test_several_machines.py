"""Processes on several machines: they share a run, or end before the first step.

A machine is a folder here. It has run.yaml, and a run that lacks only the training.
"""

from __future__ import annotations

import math
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from pytest import MonkeyPatch
from torch.distributed import HashStore, Store, TCPStore  # type: ignore[attr-defined]

from crashes import HANG_SECONDS, Loss, contents, output_of, run_processes
from mtkit.artifacts.runs import OWNER, locked
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.training import agreement, process_group
from mtkit.training.agreement import check_shared
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.process_group import (
    LostProcess,
    ProcessGroup,
    TorchProcessGroup,
    connect_processes,
)
from mtkit.training.train import train
from steps import train_until
from tasks import tiny_config

TRAIN = ["train", "-q", "-c", "run.yaml"]


@pytest.fixture
def machines(prepared: Path, tmp_path: Path) -> list[Path]:
    """Two machines, each with a copy of the same run."""
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        shutil.copytree(prepared / "run", folder / "run")
        config = tiny_config(prepared, "transformer").model_copy(update={"run": "run"})
        (folder / "run.yaml").write_text(dump_config(config), encoding="utf-8")
    return folders


@pytest.fixture
def first(prepared: Path, machines: list[Path], monkeypatch: MonkeyPatch) -> Config:
    """The config of the first machine, which is the current folder."""
    monkeypatch.chdir(machines[0])
    return tiny_config(prepared, "transformer").model_copy(update={"run": "run"})


@pytest.mark.slow
@pytest.mark.parametrize("unequal", ["checkpoint", "model", "batches", "run directory"])
def test_machines_that_do_not_share_the_run_end_before_the_first_step(
    unequal: str, machines: list[Path], first: Config, prepared: Path
) -> None:
    checkpoints = machines[1] / "run" / "checkpoints"
    if unequal == "checkpoint":
        train_until(first, 8)
        shutil.copytree("run/checkpoints/step-00000005", checkpoints / "step-00000005")
    elif unequal == "model":
        train(first)
        shutil.copytree("run/checkpoints", checkpoints)
    elif unequal == "batches":
        swapped = {"source": str(prepared / "train.tgt"), "target": str(prepared / "train.src")}
        config = tiny_config(prepared, "transformer", data={"train": swapped})
        build_batches(config.model_copy(update={"run": str(machines[1] / "run")}))
    before = [contents(machine) for machine in machines]
    assert run_processes(TRAIN, machines) == [2, 2]
    for machine in machines:
        line = output_of(machine).splitlines()[-1]
        assert f"process 1 does not have the same {unequal} as process 0; " in line
        assert line.endswith("put run on a file system that all machines share")
    assert [contents(machine) for machine in machines] == before


@pytest.mark.slow
def test_torchrun_ends_on_all_machines_if_one_has_no_tokenizer(machines: list[Path]) -> None:
    shutil.rmtree(machines[1] / "run" / "tokenizer")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes=2", "--nproc-per-node=1"]
    torchrun += ["--master-addr=127.0.0.1", f"--master-port={port}"]
    nodes = [
        subprocess.Popen(
            [*torchrun, f"--node-rank={number}", "-m", "mtkit", *TRAIN],
            cwd=machine,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number, machine in enumerate(machines)
    ]
    try:
        outputs = [node.communicate(timeout=HANG_SECONDS)[0].splitlines() for node in nodes]
    finally:
        for node in nodes:
            node.kill()
    error = "run/tokenizer holds no tokenizer; make one with `mtkit train-spm`"
    assert f"process 1 failed: {error}" in outputs[0]
    assert error in outputs[1]
    assert all(node.returncode for node in nodes)


@pytest.mark.slow
def test_a_locked_run_ends_all_processes_with_the_reason(machines: list[Path]) -> None:
    """Only the main process takes the lock."""
    with locked(machines[0] / "run"):
        assert run_processes(TRAIN, [machines[0]] * 2) == [2, 1]
    echo, line = sorted(output_of(machines[0]).splitlines())
    assert line.startswith("run is in use by ")
    assert echo == f"process 0 failed: {line}"


@pytest.mark.slow
def test_a_stop_signal_to_one_process_during_validation_stops_all(machines: list[Path]) -> None:
    whole, stopped = machines
    assert run_processes(TRAIN, [whole] * 2) == [0, 0], output_of(whole)
    loss = Loss(rank=1, step=6, signal=signal.SIGTERM, function="validate")
    assert run_processes(TRAIN, [stopped] * 2, loss) == [143, 143], output_of(stopped)
    assert [record["kind"] for record in MetricsLog(stopped / "run").read()] == ["train"] * 2
    assert (stopped / "run/checkpoints/step-00000006").is_dir()
    assert run_processes(TRAIN, [stopped] * 2) == [0, 0], output_of(stopped)
    assert contents(stopped) == contents(whole)


@pytest.fixture
def store(monkeypatch: MonkeyPatch) -> TCPStore:
    """A store, to which `connect_processes` connects, and which a launcher would keep."""
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    variables = {"RANK": "0", "WORLD_SIZE": "3", "TORCHELASTIC_USE_AGENT_STORE": "True"}
    variables |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return store


def join(*ranks: int) -> list[Store]:
    """Let these ranks of three processes join at the same time; return the store of each."""
    with ThreadPoolExecutor(len(ranks)) as threads:
        return list(threads.map(lambda rank: process_group._join(rank, size=3), ranks))


def test_processes_that_do_not_start_in_time_are_named(
    store: TCPStore, monkeypatch: MonkeyPatch
) -> None:
    store.set("mtkit/word/2", "a process that has joined")
    monkeypatch.setattr(process_group, "JOIN_TIMEOUT", timedelta(seconds=1))
    named = r"^2 of 3 processes did not start within 1 seconds \(rank 1, 2\)"
    with pytest.raises(UserError, match=named), connect_processes(torch.device("cpu")):
        pass
    assert not store.get("mtkit/answer/0")  # a late process does not wait for this one


def test_processes_that_start_again_do_not_take_ended_ones_for_their_own(
    store: TCPStore, monkeypatch: MonkeyPatch
) -> None:
    main, *others = join(0, 1, 2)
    main.set("greeting", "")
    assert all(other.check(["greeting"]) for other in others)
    with monkeypatch.context() as patch:
        patch.setattr(process_group, "JOIN_TIMEOUT", timedelta(milliseconds=200))
        with pytest.raises(UserError, match=r"rank 1, 2\)"):
            join(0)
    assert not any(again.check(["greeting"]) for again in join(0, 1, 2))


class RecordedStore:
    """Records for which keys a process waits."""

    def __init__(self) -> None:
        self.awaited: list[str] = []

    def set(self, key: str, value: str) -> None:
        pass

    def wait(self, keys: list[str]) -> None:
        self.awaited += keys


def test_the_main_process_leaves_last_because_it_may_hold_the_store(
    monkeypatch: MonkeyPatch,
) -> None:
    store = RecordedStore()
    awaited_before_leaving: list[str] = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(process_group, "_join", lambda rank, size: store)
    monkeypatch.setattr(dist, "init_process_group", lambda *_, **__: None)
    monkeypatch.setattr(dist, "get_rank", lambda: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(
        dist, "destroy_process_group", lambda: awaited_before_leaving.extend(store.awaited)
    )
    with connect_processes(torch.device("cpu")):
        pass
    assert {"mtkit/done/1", "mtkit/left/1"} <= set(awaited_before_leaving)


class Second(ProcessGroup):
    """The second of two processes; `record` is what the main process has written."""

    rank, size = 1, 2

    def __init__(self, record: str) -> None:
        self.record = record

    def gather(self, value: Any) -> list[Any]:
        return [self.record if isinstance(value, str) else {"run directory": self.record}, value]


def test_a_process_waits_until_the_lock_of_the_main_process_is_visible(
    tmp_path: Path, monkeypatch: MonkeyPatch
) -> None:
    """Network file systems show new files late."""
    (tmp_path / OWNER).write_text("an earlier process")
    with monkeypatch.context() as patch:
        patch.setattr(agreement, "OWNER_SECONDS", 0.0)
        with pytest.raises(UserError, match="process 1 does not have the same run directory"):
            check_shared(Second("this process"), tmp_path)

    def show_file(_: float) -> None:
        (tmp_path / OWNER).write_text("this process")

    monkeypatch.setattr("mtkit.training.agreement.time.sleep", show_file)
    check_shared(Second("this process"), tmp_path)


def test_processes_do_not_agree_on_a_record_that_nobody_can_read(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot be read by the process that wrote it"):
        check_shared(Second(""), tmp_path)


class Failed(ProcessGroup):
    """The main process, after the second of two processes has failed."""

    size = 2

    def gather(self, value: Any) -> list[Any]:
        return [value, "the disk is full"]


def test_a_process_reports_the_failure_of_another_unless_it_fails_itself() -> None:
    failure = "process 1 failed: the disk is full"
    with pytest.raises(LostProcess, match=failure), Failed().fail_together():
        pass
    with pytest.raises(UserError, match="no tokenizer"), Failed().fail_together():
        raise UserError("no tokenizer")


@pytest.fixture
def alone(monkeypatch: MonkeyPatch) -> Iterator[TorchProcessGroup]:
    """A group of one process that torch.distributed connects with itself."""
    loopback = next(name for _, name in socket.if_nameindex() if name.startswith("lo"))
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", loopback)
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    yield TorchProcessGroup(torch.device("cpu"))
    dist.destroy_process_group()


def test_gathered_values_are_exact_and_never_unpickled(alone: TorchProcessGroup) -> None:
    for value in (None, [1 / 3, -0.0, math.inf, math.nan, 2**70], ["", "ü\n\ud800"], {"a": [None]}):
        (gathered,) = alone.gather(value)
        assert repr(gathered) == repr(value)
    with pytest.raises(TypeError, match="not JSON serializable"):
        alone.gather({1, 2})
