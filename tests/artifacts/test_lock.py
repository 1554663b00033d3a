"""One process at a time writes to a run; the next one is refused, with the owner named."""

from __future__ import annotations

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
from mtkit.artifacts.runs import LOCK, OWNER, config_of, locked
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.finish import finish
from mtkit.training.train import train
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
    """Run another process that holds the lock of a run."""
    command = [sys.executable, "-c", HOLDER, str(run)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.stdin.close()


def test_a_second_process_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with (
        holder(run) as first,
        pytest.raises(UserError, match=f"process {first.pid} on "),
        locked(run),
    ):
        pass
    with locked(run):
        pass


def test_a_killed_process_holds_no_lock(tmp_path: Path) -> None:
    with holder(tmp_path) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert f"process {first.pid} " in (tmp_path / OWNER).read_text()
    with locked(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / OWNER).read_text()


def test_the_lock_holds_without_a_record_of_its_owner(tmp_path: Path) -> None:
    with locked(tmp_path):
        (tmp_path / OWNER).unlink()
        with pytest.raises(UserError, match="another process"), locked(tmp_path):
            pass


def test_an_exception_releases_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), locked(tmp_path):
        raise ZeroDivisionError
    with locked(tmp_path):
        pass
    assert [entry.name for entry in tmp_path.iterdir()] == [LOCK]


def test_a_refused_or_failing_stage_leaves_the_config_of_the_run(tmp_path: Path) -> None:
    write_reversal_task(tmp_path)
    config = tiny_config(tmp_path, "transformer")
    run = Path(config.run)
    with locked(run), pytest.raises(UserError, match="is in use"):
        train_tokenizer(config)
    train_tokenizer(config)
    with locked(run), pytest.raises(UserError, match="is in use"):
        train_tokenizer(config.model_copy(update={"seed": 2}))
    with pytest.raises(UserError, match="too large for the text"):
        train_tokenizer(tiny_config(tmp_path, "transformer", tokenizer={"vocab_size": 5000}))
    assert config_of(run) == config
    with locked(run), pytest.raises(UserError, match="is in use"):
        build_batches(config)
    batches = build_batches(config)
    with locked(run):  # nothing to write, no lock needed
        train_tokenizer(config)
        assert build_batches(config).identity == batches.identity


@pytest.mark.parametrize("stage", [train, finish], ids=["train", "finish"])
def test_a_locked_run_is_not_trained(
    stage: Callable[[Config], Artifact], fresh: Callable[..., Config]
) -> None:
    config = fresh("transformer", training={"steps": 2, "validate_every": 1, "save_every": 1})
    train(config)
    shutil.rmtree("run/model")
    with locked(Path(config.run)), pytest.raises(UserError, match="is in use"):
        stage(config)
    assert stage(config).report["steps"] == 2
