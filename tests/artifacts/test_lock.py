"""One process at a time writes to a run; the next one is refused, with the owner named."""

from __future__ import annotations

import errno
import fcntl
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
from mtkit.artifacts.output import open_output
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


@pytest.fixture(params=[errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def without_locks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the file system have no locks, as Lustre without `flock` or NFS without a daemon."""

    def flock(file: object, operation: int) -> None:
        raise OSError(request.param, os.strerror(request.param))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_a_file_system_without_locks_has_markers(tmp_path: Path) -> None:
    run = tmp_path / "run"
    for _ in range(2):
        with locked(run):
            name = rf"process {os.getpid()} on .*; if that process has ended, delete {run}/\S+$"
            with pytest.raises(UserError, match=name), locked(run):
                pass
        assert [entry.name for entry in run.iterdir()] == [LOCK]
    with locked(run), locked(tmp_path):  # another run
        pass


@pytest.mark.usefixtures("without_locks")
def test_the_marker_of_a_killed_process_holds_on_other_machines_only(tmp_path: Path) -> None:
    with locked(tmp_path):
        (marker,) = tmp_path.glob(f"{LOCK}?*")
        ours = marker.read_text()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    process, machine, *_ = ours.splitlines()
    marker.write_text(f"{ended.pid}\n{machine}\n")
    with locked(tmp_path):
        pass
    marker.write_text(f"{ended.pid}\n{machine}-other\n")
    with pytest.raises(UserError, match=f"delete {marker}$"), locked(tmp_path):
        pass
    marker.unlink()
    with locked(tmp_path):
        assert marker.read_text() == ours
    assert process == str(os.getpid())


@pytest.mark.usefixtures("without_locks")
def test_outputs_are_written_without_locks(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    with open_output(path) as (file, _):
        file.write(b"first\n")
        refused = pytest.raises(
            UserError, match=r"by another command.*; if that .* delete .*marker"
        )
        with refused, open_output(path):
            pass
    assert path.read_bytes() == b"first\n"
    assert os.listdir(tmp_path) == ["out.txt"]


def test_another_error_of_a_lock_is_no_lack_of_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="Input/output error"), locked(tmp_path):
        pass
    with pytest.raises(OSError, match="Input/output error"), open_output(tmp_path / "out.txt"):
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
