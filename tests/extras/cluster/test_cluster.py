"""A Dask cluster gives the same bytes as this machine, and what it cannot do is one line."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching import ranges
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
from distributed import Scheduler, SchedulerPlugin

class Removals(SchedulerPlugin):
    def remove_worker(self, scheduler, worker, **_):
        print(worker, flush=True)

async def main():
    async with Scheduler(host="127.0.0.1", port=0, dashboard_address=None) as scheduler:
        scheduler.add_plugin(Removals())
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
    """A scheduler and workers in processes of their own, which work in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.workers: dict[str, subprocess.Popen[str]] = {}
        self.scheduler, self.address = self._start(SCHEDULER)

    def _start(
        self, code: str, *arguments: str, path: str = ""
    ) -> tuple[subprocess.Popen[str], str]:
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([path, *filter(None, sys.path)]),
            "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "1",
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s",  # to a worker that has died
        }
        process = subprocess.Popen(
            [sys.executable, "-c", code, *arguments],
            cwd=self._folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        return process, _read_line(process)

    def add_worker(self, path: str = "") -> str:
        """Start a worker, and return its address; `path`: where it looks for modules first."""
        process, address = self._start(WORKER, self.address, path=path)
        self.workers[address] = process
        return address

    def end_workers(self) -> None:
        """Kill the workers, and wait until the scheduler has removed them."""
        for process in self.workers.values():
            _end(process)
        for _ in self.workers:
            _read_line(self.scheduler)
        self.workers.clear()

    def close(self) -> None:
        self.end_workers()
        _end(self.scheduler)


def _read_line(process: subprocess.Popen[str]) -> str:
    output: IO[str] | None = process.stdout
    assert output is not None
    return output.readline().strip()


def _end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


@pytest.fixture(scope="module")
def scheduler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster without workers, for all tests that leave its scheduler alive."""
    with closing(Cluster(tmp_path_factory.mktemp("workers"))) as cluster:
        yield cluster


@pytest.fixture
def workers(scheduler: Cluster) -> Iterator[Cluster]:
    """A cluster whose workers end with the test."""
    yield scheduler
    scheduler.end_workers()


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """A run with a tokenizer, and batches that this process has encoded."""
    write_reversal_task(tmp_path)
    config = tiny_config(tmp_path, "transformer")
    train_tokenizer(config)
    build_batches(config)
    # Of the 400 pairs, a cluster gets ten ranges.
    monkeypatch.setattr(store, "CHUNK_PAIRS", 20)
    monkeypatch.setattr(ranges, "RANGE_CHUNKS", 2)
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


def test_a_worker_that_dies_changes_no_byte(
    config: Config, workers: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, _ = [workers.add_worker() for _ in range(2)]
    save = np.savez
    saved: list[Path] = []

    def kill_at_first(path: Path, **arrays: Any) -> None:
        if not saved:
            workers.workers[victim].kill()
        saved.append(path)
        save(path, **arrays)

    monkeypatch.setattr(np, "savez", kill_at_first)
    other = other_run(config)
    build_batches(other, workers.address)
    assert len(saved) == 10
    assert identity(other) == identity(config)


def _die(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_an_item_at_which_all_workers_die_is_an_error(workers: Cluster, tmp_path: Path) -> None:
    for _ in range(2):
        workers.add_worker()
    shared = tmp_path / "shared"
    shared.write_text("text")
    with (
        pytest.raises(MtkitError, match="several workers died at the same task"),
        open_cluster(workers.address, shared) as run_on_workers,
    ):
        list(run_on_workers(_die, [1]))


def _wait(_: int) -> None:
    signal.pause()


@pytest.mark.slow
def test_a_lost_scheduler_is_an_error(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.write_text("text")

    def items() -> Iterator[int]:
        yield 1
        own_cluster.scheduler.kill()

    with closing(Cluster(tmp_path)) as own_cluster:
        own_cluster.add_worker()
        with (
            pytest.raises(MtkitError, match="the connection was lost"),
            open_cluster(own_cluster.address, shared) as run_on_workers,
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
    with (
        pytest.raises(UserError, match="has no worker"),
        open_cluster(workers.address, tmp_path),
    ):
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
    config: Config,
    workers: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
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
