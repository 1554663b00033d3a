"""Several ranks: the same update as one rank, exact resume, and no hang when a rank is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.torch
import torch
import yaml

from mtkit.artifacts import open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.models.build import build_model
from mtkit.report import MetricsLog
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.data.updates import NOTHING
from mtkit.training.run.distributed import ALONE
from mtkit.training.state import new_state
from mtkit.training.step import gradients
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task

Launch = Callable[..., subprocess.CompletedProcess[str]]

TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]

FATAL = """
import os, signal, sys
from mtkit.cli.main import main
from mtkit.training import step

train_step = step.train_step
rank, at, number = (int(x) for x in os.environ["LOSE"].split())

def lost(state, *rest, **settings):
    if int(os.environ["RANK"]) == rank and state.step == at:
        os.kill(os.getpid(), number)
    return train_step(state, *rest, **settings)

step.train_step = lost
main(sys.argv[1:])
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    write_reversal_task(folder)
    (folder / "fatal.py").write_text(FATAL, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def launch(folder: Path) -> Launch:
    """Trains a run under torchrun; `lose`: "rank step signal" ends a rank before that update."""

    def launch(config: Config, *, lose: str | None = None) -> subprocess.CompletedProcess[str]:
        path = folder / f"{Path(config.run).name}.yaml"
        path.write_text(yaml.safe_dump(config.model_dump()), encoding="utf-8")
        program = ["-m", "mtkit"] if lose is None else [str(folder / "fatal.py")]
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "torch.distributed.run",
                "--standalone",
                "--nproc-per-node=2",
                *program,
                "train",
                "-c",
                str(path),
            ],
            cwd=folder,
            env=os.environ
            | {"LOSE": lose or "", "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=600,
        )

    return launch


def prepared(folder: Path, name: str, kind: str, **training: object) -> Config:
    dropout = {"dropout": 0.3}
    config = tiny_config(folder, kind, model=dropout, training={"ema": 0.9} | training)
    config = config.model_copy(update={"run": str(folder / name)})
    train_tokenizer(config)
    build_batches(config)
    return config


@pytest.fixture(scope="module")
def two(folder: Path, launch: Launch) -> Config:
    """A run of two ranks, never interrupted."""
    config = prepared(folder, "two", "transformer")
    done = launch(config)
    assert done.returncode == 0, done.stderr
    return config


@pytest.mark.slow
def test_two_ranks_equal_two_accumulated_batches_with_dropout_on(
    folder: Path, two: Config, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    one = prepared(folder, "one", "transformer", accumulate=2)
    train(one)
    ours, theirs = (
        safetensors.torch.load_file(Path(config.run) / "model" / "model.safetensors")
        for config in (one, two)
    )
    for name in ours:
        torch.testing.assert_close(ours[name], theirs[name], rtol=1e-3, atol=1e-5)
    losses = [
        [record["loss"] for record in MetricsLog(Path(c.run) / "metrics.jsonl").read()]
        for c in (one, two)
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)
    assert (
        open_artifact(Path(one.run) / "model", "model").manifest["request"]
        == (open_artifact(Path(two.run) / "model", "model").manifest["request"])
    )


@pytest.mark.slow
@pytest.mark.parametrize("lose", [f"1 7 {signal.SIGKILL:d}", f"0 7 {signal.SIGTERM:d}"])
def test_a_lost_rank_ends_the_run_and_rerunning_it_equals_a_run_that_lost_none(
    folder: Path, two: Config, launch: Launch, lose: str
) -> None:
    config = prepared(folder, f"lost{lose[0]}", "transformer")
    done = launch(config, lose=lose)
    assert done.returncode != 0
    assert (Path(config.run) / "checkpoints" / "step-00000007" / "manifest.json").exists() or (
        lose[0] == "0"
        and (Path(config.run) / "checkpoints" / "step-00000008" / "manifest.json").exists()
    ), done.stderr
    assert "checkpoint saved" in done.stderr
    done = launch(config)
    assert done.returncode == 0, done.stderr
    identities = [open_artifact(Path(c.run) / "model", "model").identity for c in (config, two)]
    assert identities[0] == identities[1]


def test_a_rank_without_a_batch_adds_nothing(folder: Path) -> None:
    config = tiny_config(folder, "transformer")
    state = new_state(build_model(config.model, 20, 20), config.training, "float32")
    assert gradients(state, [NOTHING], 5, config.seed, ALONE) == (0.0, 0.0)
    for parameter in state.model.parameters():
        assert parameter.grad is not None  # or the other ranks would wait for it
        assert not parameter.grad.any()
