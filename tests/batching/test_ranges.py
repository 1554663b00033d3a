"""Encoding the training corpora: the same bytes, in one process and in several."""

from __future__ import annotations

import errno
import os
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import call
from crashes import survive_at
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.batching import processes, ranges
from mtkit.batching.build import build_batches
from mtkit.batching.encode import Encoded, RowEncoder
from mtkit.config.corpora import Corpus, TableCorpus, TextCorpus
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.corpus import store
from mtkit.errors import MtkitError
from mtkit.tokenizer.train_spm import train_tokenizer

PAIRS = [
    (f"the dog number {number} runs to the old house", f"der Hund {number} rennt zum alten Haus")
    for number in range(150)
]
FAULTY = [("", "leer"), ("a <b>bold</b> dog", "ein fetter Hund"), ("dog", "Hund " * 90)]


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(path)


def write_corpora(folder: Path) -> list[Corpus]:
    """Write a mix of corpora in which pairs are repeated and faulty."""
    pairs = [*PAIRS[:60], *FAULTY, *PAIRS[20:40], *PAIRS[50:], *PAIRS[:3]]
    texts = TextCorpus(
        source=write(folder / "a.en", [source for source, _ in pairs]),
        target=write(folder / "a.de", [target for _, target in pairs]),
    )
    rows = [f'"{source}\nhere","{target}\nhier"' for source, target in PAIRS[:40]]
    table = TableCorpus(
        table=write(folder / "c.csv", ["source,target", *rows, *rows[:5]]),
        source_column="source",
        target_column="target",
        tag="dog",
    )
    return [texts, table]


@pytest.fixture(scope="module")
def corpora(tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A config of a run that has a tokenizer, and batches that were encoded by one process."""
    folder = tmp_path_factory.mktemp("corpora")
    valid = {
        "source": write(folder / "valid.en", [PAIRS[7][0], "a cat"]),
        "target": write(folder / "valid.de", [PAIRS[7][1], "eine Katze"]),
    }
    batching = {"deduplicate": True, "drop": ["markup", "overlap"], "max_length": 60}
    settings = {
        "run": str(folder / "run"),
        "data": {"train": write_corpora(folder), "valid": valid},
        "tokenizer": {"vocab_size": 330},
        "batching": batching,
        "training": {"steps": 1},
    }
    config = Config.model_validate(settings)
    train_tokenizer(config)
    build_batches(config)
    return config


@pytest.fixture
def other_run(corpora: Config, tmp_path: Path) -> Config:
    """The config with a run that has only the tokenizer."""
    run = tmp_path / "run"
    shutil.copytree(Path(corpora.run) / "tokenizer", run / "tokenizer")
    return corpora.model_copy(update={"run": str(run)})


@pytest.fixture
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encode ranges of 40 rows in this process: there are six."""
    monkeypatch.setattr(store, "CHUNK_PAIRS", 20)
    monkeypatch.setattr(ranges, "RANGE_CHUNKS", 2)
    monkeypatch.setattr(processes, "count_cores", lambda: 1)


@pytest.fixture
def two_processes(small_ranges: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "count_cores", lambda: 2)


NEVER = 1000
Watch = Callable[[int], list[int]]
"""Returns a list that gets the first row of each range that is encoded, until a number of them."""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    encode = RowEncoder.encode

    def watch(stop_after: int) -> list[int]:
        encoded: list[int] = []

        def encode_and_count(self: RowEncoder, rows: range) -> Encoded:
            if self.pair_filter is not None:  # as for training pairs only
                if len(encoded) == stop_after:
                    raise KeyboardInterrupt
                encoded.append(rows.start)
            return encode(self, rows)

        monkeypatch.setattr(RowEncoder, "encode", encode_and_count)
        return encoded

    return watch


def leftovers(config: Config) -> list[str]:
    """Return the names of what a command has left in the run that is no complete artifact."""
    return [path.name for path in Path(config.run).glob(".batches*")]


def expected(corpora: Config) -> Artifact:
    return open_artifact(Path(corpora.run) / "batches", "batches")


@pytest.mark.parametrize("size", [1, 11, 64])
def test_the_result_does_not_depend_on_the_size_of_chunks(
    size: int, corpora: Config, other_run: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CHUNK_PAIRS", size)
    assert build_batches(other_run).identity == expected(corpora).identity


@pytest.mark.usefixtures("two_processes")
def test_the_result_does_not_depend_on_the_number_of_processes(
    corpora: Config, other_run: Config, watch: Watch
) -> None:
    encoded_here = watch(0)
    assert build_batches(other_run).identity == expected(corpora).identity
    assert not encoded_here and not leftovers(other_run)


@pytest.mark.usefixtures("small_ranges")
def test_an_interrupted_command_encodes_no_range_twice(
    corpora: Config, other_run: Config, watch: Watch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = watch(2)
    with pytest.raises(KeyboardInterrupt):
        build_batches(other_run)
    second = watch(3)
    with pytest.raises(KeyboardInterrupt):
        build_batches(other_run)
    assert "80 of 231 pairs were encoded before" in capsys.readouterr().err
    third = watch(NEVER)
    assert build_batches(other_run).identity == expected(corpora).identity
    assert [first, second, third] == [[0, 40], [80, 120, 160], [200]]
    assert leftovers(other_run) == []


@pytest.mark.usefixtures("small_ranges")
@pytest.mark.parametrize("stride", [9, pytest.param(1, marks=pytest.mark.campaign)])
def test_kills_at_any_disk_operation_change_no_byte(
    stride: int, corpora: Config, other_run: Config
) -> None:
    moments = count(stride, stride)
    while not survive_at(next(moments), lambda: build_batches(other_run)):
        pass
    assert expected(other_run).identity == expected(corpora).identity
    assert leftovers(other_run) == []


@pytest.mark.usefixtures("small_ranges")
def test_ranges_of_other_settings_are_not_used_and_removed(other_run: Config, watch: Watch) -> None:
    watch(4)
    with pytest.raises(KeyboardInterrupt):
        build_batches(other_run)
    batching = other_run.batching.model_copy(update={"max_length": 12})
    other_settings = other_run.model_copy(update={"batching": batching})
    encoded = watch(2)
    with pytest.raises(KeyboardInterrupt):
        build_batches(other_settings)
    assert encoded == [0, 40]
    watch(NEVER)
    resumed = build_batches(other_settings)
    assert leftovers(other_run) == []
    shutil.rmtree(resumed.path)
    assert build_batches(other_settings).identity == resumed.identity


@pytest.mark.usefixtures("small_ranges")
def test_a_damaged_range_is_encoded_again(corpora: Config, other_run: Config, watch: Watch) -> None:
    watch(3)
    with pytest.raises(KeyboardInterrupt):
        build_batches(other_run)
    folder = Path(other_run.run) / leftovers(other_run)[0]
    (folder / "0-40" / "encoded.npz").write_bytes(b"damaged")
    (folder / "40-80" / "manifest.json").write_text("damaged")
    encoded = watch(NEVER)
    assert build_batches(other_run).identity == expected(corpora).identity
    assert encoded == [0, 40, 120, 160, 200]


@pytest.mark.usefixtures("small_ranges")
def test_a_full_disk_leaves_only_complete_ranges(
    corpora: Config,
    other_run: Config,
    watch: Watch,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    config = tmp_path / "mtkit.yaml"
    config.write_text(dump_config(other_run), "utf-8")
    save, first = np.savez, []

    def save_one(path: Path, **arrays: Any) -> None:
        save(path, **arrays)
        first.append(path)
        if len(first) == 2:
            path.write_bytes(path.read_bytes()[:99])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(np, "savez", save_one)
    assert call("batch", "-c", str(config)) == MtkitError.exit_code
    last_line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "/.batches.ranges/40-80: No space left on device" in last_line
    folder = Path(other_run.run) / ".batches.ranges"
    assert leftovers(other_run) == [folder.name] and os.listdir(folder) == ["0-40"]
    encoded = watch(NEVER)
    assert build_batches(other_run).identity == expected(corpora).identity
    assert encoded == [40, 80, 120, 160, 200]


@pytest.mark.usefixtures("two_processes")
def test_a_killed_process_is_an_error_of_one_line_and_leaves_nothing(
    other_run: Config, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "mtkit.yaml"
    config.write_text(dump_config(other_run), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "_encode", _end_process)
        assert call("batch", "-c", str(config)) == MtkitError.exit_code
    last_line = capsys.readouterr().err.strip().splitlines()[-1]
    assert "a process that encodes pairs was killed" in last_line
    assert not list(Path(other_run.run).glob("*batches*"))
    build_batches(other_run)


def _end_process(rows: range) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


WAITING_COMMAND = """
import os, signal, sys
from mtkit.batching import processes, ranges
from mtkit.cli.main import main
from mtkit.corpus import store

def wait(rows):
    os.write(os.open("pipe", os.O_WRONLY), b"x")
    signal.pause()

store.CHUNK_PAIRS = 10
ranges.RANGE_CHUNKS = 1
processes.count_cores = lambda: 2
processes._encode = wait
main(["batch", "-c", "mtkit.yaml"])
"""
"""A command whose processes open a pipe, and wait."""
MAX_WAIT = 100_000
"""Milliseconds after which a process that has not begun or ended fails the test."""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_processes_end_with_the_command_that_started_them(
    number: signal.Signals, other_run: Config, tmp_path: Path
) -> None:
    (tmp_path / "mtkit.yaml").write_text(dump_config(other_run), "utf-8")
    os.mkfifo(tmp_path / "pipe")
    pipe = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    events = select.poll()
    events.register(pipe, select.POLLIN)
    command = [sys.executable, "-c", WAITING_COMMAND]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        assert events.poll(MAX_WAIT), "no process has begun"
        process.send_signal(number)
    while select.POLLHUP not in (ready := [event for _, event in events.poll(MAX_WAIT)]):
        assert ready, "a process has not ended"
        os.read(pipe, 100)
    os.close(pipe)
