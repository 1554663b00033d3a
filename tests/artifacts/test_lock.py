"""One process at a time writes to a run; the second is told which one, the next one is let in."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import LOCK, OWNER, locked
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.train import finish, train
from tasks import tiny_config, write_reversal_task

HOLDER = """
import sys
from pathlib import Path
from mtkit.artifacts.runs import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def holder(run: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has locked `run`."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(run)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


def test_the_second_process_is_refused_and_told_which_is_the_first(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with holder(run) as first:
        with pytest.raises(UserError) as refused, locked(run):
            pass
        line = str(refused.value)
        assert str(run) in line
        assert f"process {first.pid} on {os.uname().nodename} (`-c {run}`, since 20" in line
        assert "\n" not in line
        assert first.poll() is None
    with locked(run):
        pass


def test_a_process_that_died_holds_nothing(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert json.loads((tmp_path / OWNER).read_text())["pid"] == first.pid
    with locked(tmp_path):
        assert json.loads((tmp_path / OWNER).read_text())["pid"] == os.getpid()


def test_a_record_of_a_living_process_is_no_lock(tmp_path: Path) -> None:
    """As when the number of a dead process has been given to another one."""
    (tmp_path / LOCK).touch()
    (tmp_path / OWNER).write_text(json.dumps({"pid": os.getppid()}))
    with locked(tmp_path):
        assert json.loads((tmp_path / OWNER).read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("record", ["", "{", "[]", '{"pid": 1}', '{"pid": {}}', "\x00"])
def test_a_broken_record_still_means_that_somebody_is_there(tmp_path: Path, record: str) -> None:
    with locked(tmp_path):
        (tmp_path / OWNER).write_text(record)
        with pytest.raises(UserError, match="another process is writing there"), locked(tmp_path):
            pass


def test_an_exception_gives_the_lock_back(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == [LOCK]


def test_a_command_that_is_refused_leaves_the_config_of_the_run(tmp_path: Path) -> None:
    write_reversal_task(tmp_path)
    config = tiny_config(tmp_path, "transformer")
    train_tokenizer(config)
    with locked(Path(config.run)), pytest.raises(UserError, match="is writing there"):
        train_tokenizer(config.model_copy(update={"seed": 2}))
    assert load_config(Path(config.run) / "config.yaml") == config


def test_a_stage_that_fails_leaves_the_settings_of_what_lies_there(tmp_path: Path) -> None:
    write_reversal_task(tmp_path)
    config = tiny_config(tmp_path, "transformer")
    train_tokenizer(config)
    with pytest.raises(UserError, match="too large for the text"):
        train_tokenizer(tiny_config(tmp_path, "transformer", tokenizer={"vocab_size": 5000}))
    assert load_config(Path(config.run) / "config.yaml") == config


@pytest.mark.parametrize("stage", [train, finish], ids=["train", "finish"])
def test_a_run_that_is_written_is_not_trained(
    stage: Callable[[Config], Artifact], fresh: Callable[..., Config]
) -> None:
    config = fresh("transformer", training={"steps": 2, "validate_every": 1, "save_every": 1})
    train(config)
    shutil.rmtree("run/model")
    with locked(Path(config.run)), pytest.raises(UserError, match="is writing there"):
        stage(config)
    assert stage(config).report["steps"] == 2


def test_stages_at_work_in_one_run_exclude_each_other(tmp_path: Path) -> None:
    write_reversal_task(tmp_path)
    config = tiny_config(tmp_path, "transformer")
    with locked(Path(config.run)), pytest.raises(UserError, match="is writing there"):
        train_tokenizer(config)
    train_tokenizer(config)
    with locked(Path(config.run)), pytest.raises(UserError, match="is writing there"):
        build_batches(config)
    batches = build_batches(config)
    with locked(Path(config.run)):  # up to date: nothing to write, nothing to lock
        train_tokenizer(config)
        assert build_batches(config).identity == batches.identity
