"""A Dask cluster gives the same bytes as this machine, and what it cannot do is one line."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import pytest

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.corpus import store
from mtkit.errors import MtkitError, UserError
from mtkit.extras.cluster import cluster
from mtkit.extras.cluster.cluster import open_cluster, version_of_code
from mtkit.pipeline import run
from mtkit.tokenizer.train_spm import train_tokenizer
from tasks import tiny_config, write_reversal_task

SCHEDULER = """
import asyncio
from distributed import Scheduler

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        print(scheduler.address, flush=True)
        await scheduler.finished()

asyncio.run(main())
"""
WORKER = """
import asyncio, sys
from pathlib import Path
from distributed import Worker

async def main():
    async with Worker(sys.argv[1], nthreads=1, dashboard_address=None) as worker:
        print(worker.address, flush=True)
        await worker.finished()

asyncio.run(main())
"""
"""A worker that is one process, so that a kill ends all of it."""


class Cluster:
    """A scheduler and workers in processes of their own."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder, self._stack = folder, stack
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.scheduler, self.address = self._start(SCHEDULER)

    def _start(
        self, code: str, *arguments: str, path: str = ""
    ) -> tuple[subprocess.Popen[str], str]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path)]),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
        }
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._stack.enter_context(process)
        self._stack.callback(process.kill)
        output: IO[str] | None = process.stdout
        assert output is not None
        return process, output.readline().strip()

    def add_worker(self, path: str = "") -> str:
        """Start a worker, and return its address; `path`: where it looks for modules first."""
        process, address = self._start(WORKER, self.address, path=path)
        self.workers[address] = process
        return address


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster without workers, which work in a folder of their own."""
    folder = tmp_path / "workers"
    folder.mkdir()
    with ExitStack() as stack:
        yield Cluster(folder, stack)


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A run with a tokenizer, and batches that this process has encoded."""
    write_reversal_task(tmp_path)
    monkeypatch.setattr(store, "CHUNK_PAIRS", 10)
    config = tiny_config(tmp_path, "transformer")
    train_tokenizer(config)
    build_batches(config)
    return config


def other_run(config: Config) -> Config:
    """Return the config of a run that has only the tokenizer."""
    run = Path(config.run).with_name("other")
    shutil.rmtree(run, ignore_errors=True)
    shutil.copytree(Path(config.run) / "tokenizer", run / "tokenizer")
    return config.model_copy(update={"run": str(run)})


def identity(config: Config) -> str:
    return open_artifact(Path(config.run) / "batches", "batches").identity


def test_two_workers_give_the_bytes_of_one_process(config: Config, workers: Cluster) -> None:
    for _ in range(2):
        workers.add_worker()
    other = other_run(config)
    build_batches(other, workers.address)
    assert identity(other) == identity(config)


KILLED = "killed"


def _work(item: tuple[int, str]) -> int:
    """In a worker: the first that takes the item 30 notes its number and dies."""
    number, folder = item
    mark = Path(folder) / KILLED
    if number == 30 and not mark.exists():
        mark.write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return 2 * number


@pytest.mark.slow
def test_a_worker_that_dies_costs_only_its_items(workers: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        workers.add_worker()
    shared = tmp_path / "shared"
    shared.write_text("text")
    items = [(number, str(tmp_path)) for number in range(60)]
    with open_cluster(workers.address, shared, batch_items=4) as run_on_workers:
        assert list(run_on_workers(_work, items)) == list(range(0, 120, 2))
    killed = int((tmp_path / KILLED).read_text())
    assert killed in [process.pid for process in workers.workers.values()]


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_an_item_at_which_all_workers_die_is_an_error(workers: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        workers.add_worker()
    shared = tmp_path / "shared"
    shared.write_text("text")
    with (
        pytest.raises(MtkitError, match="workers died again and again"),
        open_cluster(workers.address, shared) as run_on_workers,
    ):
        list(run_on_workers(_die, [1]))


def _wait(_: int) -> None:
    signal.pause()


@pytest.mark.slow
def test_a_lost_scheduler_is_an_error(workers: Cluster, tmp_path: Path) -> None:
    workers.add_worker()
    shared = tmp_path / "shared"
    shared.write_text("text")

    def items() -> Iterator[int]:
        yield 1
        workers.scheduler.kill()

    with (
        pytest.raises(MtkitError, match="the connection was lost"),
        open_cluster(workers.address, shared, batch_items=1) as run_on_workers,
    ):
        list(run_on_workers(_wait, items()))


def test_nobody_at_the_address_is_an_error_of_one_line(
    config: Config, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "mtkit.yaml").write_text(dump_config(other_run(config)), "utf-8")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        addresses = [f"tcp://127.0.0.1:{free.getsockname()[1]}", "nowhere", "tcp://no.invalid:8786"]
        for address in addresses:
            arguments = ["batch", "-c", str(tmp_path / "mtkit.yaml"), "--cluster", address]
            assert call(*arguments) == UserError.exit_code
            line = capsys.readouterr().err.strip().splitlines()[-1]
            assert line.startswith(f"--cluster {address}: no scheduler answers; start one with")


def test_a_cluster_without_workers_is_refused(
    workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 0.1)
    with pytest.raises(UserError, match="has no worker"), open_cluster(workers.address, tmp_path):
        pass


def test_a_worker_that_does_not_see_the_files_is_refused_by_name(
    workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = workers.add_worker()
    shared = tmp_path / "shared"
    shared.write_text("text")
    monkeypatch.setattr(cluster, "hash_file", lambda path: "that of another file")
    with (
        pytest.raises(UserError, match=f"worker {worker} does not see {shared}"),
        open_cluster(workers.address, shared),
    ):
        pass


def test_a_worker_with_another_version_is_refused_by_name(
    workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = workers.add_worker()
    found = version_of_code()
    shared = tmp_path / "shared"
    shared.write_text("text")
    monkeypatch.setattr(cluster, "version_of_code", lambda: "0.0.9-123")
    with (
        pytest.raises(UserError, match=f"worker {worker} has mtkit {found}, .* has 0.0.9-123"),
        open_cluster(workers.address, shared),
    ):
        pass


def test_a_worker_without_mtkit_is_refused_by_name(workers: Cluster, tmp_path: Path) -> None:
    (tmp_path / "mtkit").mkdir()
    (tmp_path / "mtkit" / "__init__.py").write_text("")
    worker = workers.add_worker(str(tmp_path))
    shared = tmp_path / "shared"
    shared.write_text("text")
    with (
        pytest.raises(UserError, match=f"worker {worker} cannot run mtkit"),
        open_cluster(workers.address, shared),
    ):
        pass


@pytest.mark.slow
def test_a_cluster_translates_like_this_machine(
    config: Config, workers: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(config)
    for _ in range(2):
        workers.add_worker()
    text = tmp_path / "in.txt"
    text.write_text("".join(f"ant bee {word}\n" for word in ["cat", "", "dog", "eel"] * 300))
    here, there = tmp_path / "here.txt", tmp_path / "there.txt"
    model = ["-m", config.run, "--beam", "2"]
    assert call("translate", str(text), *model, "-o", str(here)) == 0
    cluster_option = ["--cluster", workers.address]
    assert call("translate", str(text), *model, "-o", str(there), *cluster_option) == 0
    assert there.read_text() == here.read_text()
    assert len(there.read_text().splitlines()) == 1200
