"""Several processes: the same step as one, exact resume, and no hang if a process is lost."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import safetensors.torch
import torch
from pytest import MonkeyPatch

from commands import call
from crashes import Loss, output_of, run_processes
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.runs import OWNER
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.checkpoints import recorded_processes
from mtkit.training.metrics_log import MetricsLog
from mtkit.training.train import train
from tasks import Capture, tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
TORCHRUN = ["-m", "torch.distributed.run", "-m"]
OF_MTKIT = (
    "train:",
    "step ",
    "a process was lost",
    "training was interrupted",
    "mean of",
    "without the",
    "  source",
    "  hypothesis",
    "  reference",
)
"""How lines begin that mtkit says."""
STRIKE = Path(__file__).with_name("strike")
"""A folder of modules that Python imports at its start: sitecustomize.py strikes a rank."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    write_reversal_task(folder)
    return folder


def prepared(folder: Path, name: str, **training: object) -> Config:
    """A config, also as NAME.yaml, of a run that has everything but the training."""
    dropout = {"dropout": 0.3}
    settings = {"save_every": 1} | training
    config = tiny_config(folder, "transformer", model=dropout, training=settings)
    config = config.model_copy(update={"run": name})
    train_tokenizer(config)
    build_batches(config)
    (folder / f"{name}.yaml").write_text(dump_config(config), encoding="utf-8")
    return config


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def start(*arguments: str, **environment: str) -> subprocess.Popen[str]:
    """`python ARGUMENTS`; whoever reads all that it says has waited for all that it started."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    """Exit code and lines of `python ARGUMENTS`, when it and all that it started has ended."""
    with start(*arguments, **environment) as process:
        lines, _ = process.communicate()
    return process.returncode, lines.splitlines()


def run_here(capfd: Capture, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of `mtkit ARGUMENTS`, called in this process."""
    code = call(*arguments)
    said = capfd.readouterr()
    return code, [*said.out.splitlines(), *said.err.splitlines()]


def identity(name: str) -> str:
    return open_artifact(Path(name, "model"), "model").identity


@pytest.fixture(scope="module")
def two(folder: Path) -> Config:
    """A quiet, uninterrupted run of two processes that torchrun started."""
    with MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = prepared(folder, "two")
        torchrun = [*TORCHRUN[:2], "--standalone", "--nproc-per-node=2", "-m"]
        code, lines = finish(*torchrun, "mtkit", "train", "-q", "-c", "two.yaml")
    assert code == 0, lines
    assert not [line for line in lines if "train:" in line]
    return config


def test_two_processes_equal_one_with_dropout_if_they_divide_accumulate(folder: Path) -> None:
    for ranks in (1, 2):
        config = prepared(folder, f"accumulated-by-{ranks}", accumulate=2, ranks=ranks)
        train(config)
    one, two = (Path(f"accumulated-by-{ranks}") for ranks in (1, 2))
    ours, theirs = (
        safetensors.torch.load_file(run / "model" / "model.safetensors") for run in (one, two)
    )
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5)
    logs = [MetricsLog(run).read() for run in (one, two)]
    losses = [[record["loss"] for record in log] for log in logs]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    scores = [[record.get("bleu") for record in log] for log in logs]
    assert scores[0] == scores[1]
    models = [open_artifact(run / "model", "model").manifest for run in (one, two)]
    assert models[0]["request"] == models[1]["request"]


def test_processes_started_by_mtkit_and_by_torchrun_give_the_same_model(
    folder: Path, two: Config
) -> None:
    prepared(folder, "own", ranks=2)
    Path("safetensors.py").write_text("raise ImportError('of the directory, not the library')")
    code, lines = finish("-P", "-m", "mtkit", "train", "-c", "own.yaml", OMP_NUM_THREADS="2")
    Path("safetensors.py").unlink()
    assert (code, identity("own")) == (0, identity("two")), lines
    assert sum(line.startswith("train: transformer") for line in lines) == 1
    assert recorded_processes(Path("own/checkpoints")) == 2


def strike(*arguments: str, step: int, victims: str, number: int) -> tuple[int, list[str]]:
    """`finish`, with a signal to `victims` when the main process is about to save after `step`."""
    environment = {"STRIKE_STEP": f"step-{step:08d}", "STRIKE_VICTIMS": victims}
    places = filter(None, (str(STRIKE), os.environ.get("PYTHONPATH")))
    environment |= {"STRIKE_SIGNAL": str(number), "PYTHONPATH": os.pathsep.join(places)}
    environment |= {
        "TORCHINDUCTOR_CACHE_DIR": str(Path("inductor").absolute())
    }  # torch leaves it behind
    with TemporaryDirectory() as temporary:
        ended = finish(*arguments, **environment, TMPDIR=temporary)
        assert not list(Path(temporary).iterdir())
    return ended


def test_a_run_with_killed_and_stopped_processes_equals_an_uninterrupted_one(
    folder: Path, two: Config, capfd: Capture
) -> None:
    prepared(folder, "struck", ranks=2)
    command = ["-m", "mtkit", "train", "-c", "struck.yaml"]
    stopped = "training was interrupted"
    for step, victims, number, code, last in (
        (2, "launcher", signal.SIGKILL, -9, "train:"),
        (4, "first", signal.SIGKILL, 1, "a process was lost"),
        (6, "launcher", signal.SIGINT, 130, stopped),
        (8, "launcher first second", signal.SIGTERM, 143, stopped),
        (10, "launcher first second", signal.SIGHUP, 129, stopped),
    ):
        ended, lines = strike(*command, step=step, victims=victims, number=number)
        assert ended == code, lines
        assert lines[-1].startswith(last), lines
        assert sum("process was lost" in line or stopped in line for line in lines) <= 1, lines
        assert all(line.startswith(OF_MTKIT) for line in lines), lines
        if (owner := Path("struck") / OWNER).exists():  # of those that had no time to clear it away
            assert " ".join(command[2:]) in owner.read_text()
    code, lines = run_here(capfd, "finish", "struck")
    assert (code, identity("struck") == identity("two")) == (0, False), lines
    code, lines = run_here(capfd, *command[2:])
    assert (code, identity("struck")) == (0, identity("two")), lines


def test_an_error_of_processes_is_one_line(folder: Path, capfd: Capture) -> None:
    prepared(folder, "wrong")
    command = ["train", "-q", "-c", "wrong.yaml", "--set", "training.ranks=2"]
    small = 10_000  # bytes, of a file

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (small, small))

    full = subprocess.run(
        [sys.executable, "-B", "-m", "mtkit", *command],
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )
    assert (full.returncode, full.stderr.count("\n")) == (1, 1), full.stderr
    assert "File too large" in full.stderr
    train(prepared(folder, "wrong", steps=1, ranks=1))
    capfd.readouterr()
    code, lines = run_here(capfd, *command, "--set", "training.clip_norm=2")
    assert (code, len(lines)) == (2, 1), lines
    assert "saved with other settings (training.clip_norm was 1.0, now 2.0)" in lines[0]
    _, lines = run_here(capfd, *command, "--set", "training.clip_norm=2", "--debug")
    assert any("in load_last" in line for line in lines), lines


def test_two_launchers_give_the_same_model_as_one(
    folder: Path, two: Config, tmp_path: Path
) -> None:
    prepared(folder, "machines")
    meeting = ["--rdzv-backend=c10d", f"--rdzv-endpoint={tmp_path / 'meeting'}"]
    meeting += ["--rdzv-conf=store_type=file", "--local-addr=127.0.0.1", "--rdzv-id=two"]
    torchrun = [*TORCHRUN[:2], "--nnodes=2", "--nproc-per-node=1", *meeting, "-m"]
    command = [*torchrun, "mtkit", "train", "-q", "-c", "machines.yaml"]
    nodes = [start(*command) for _ in range(2)]
    outputs = [node.communicate()[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], outputs
    assert identity("machines") == identity("two")


@pytest.mark.parametrize(
    ("loss", "checkpoint"),
    [(Loss(1, 7, signal.SIGKILL), 7), (Loss(0, 7, signal.SIGTERM), 8)],
    ids=["killed", "stopped"],
)
def test_a_lost_process_ends_the_run_which_resumes_exactly(
    folder: Path, two: Config, loss: Loss, checkpoint: int, tmp_path: Path
) -> None:
    name = f"lost{loss.rank}"
    config = prepared(folder, name, save_every=5)
    config = config.model_copy(update={"run": str(folder / name)})
    (folder / f"{name}.yaml").write_text(dump_config(config), encoding="utf-8")
    command = absolute(["train", "-c", f"{name}.yaml"], folder)
    assert all(run_processes(command, [tmp_path] * 2, loss))
    assert "checkpoint saved" in output_of(tmp_path)
    saved = Path(name, "checkpoints", f"step-{checkpoint:08d}", "manifest.json")
    assert saved.exists(), output_of(tmp_path)
    assert run_processes(command, [tmp_path] * 2) == [0, 0], output_of(tmp_path)
    assert identity(name) == identity("two")


def absolute(command: Sequence[str], folder: Path) -> list[str]:
    return [str(folder / word) if word.endswith(".yaml") else word for word in command]
