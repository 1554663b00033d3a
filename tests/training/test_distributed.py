"""Several ranks: the same update as one rank, exact resume, and no hang when a rank is lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from crashes import Loss, run_ranks, said
from mtkit.artifacts import open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.configfile import dump_config
from mtkit.config.settings import Config
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.data import NOTHING
from mtkit.training.run.distributed import ALONE
from mtkit.training.run.metrics import MetricsLog
from mtkit.training.state import new_state
from mtkit.training.step import gradients
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("ranks")
    write_reversal_task(folder)
    return folder


def prepared(folder: Path, name: str, kind: str, **training: object) -> Config:
    dropout = {"dropout": 0.3}
    config = tiny_config(folder, kind, model=dropout, training={"ema": 0.9} | training)
    config = config.model_copy(update={"run": str(folder / name)})
    train_tokenizer(config)
    build_batches(config)
    (folder / f"{name}.yaml").write_text(dump_config(config), encoding="utf-8")
    return config


@pytest.fixture(scope="module")
def two(folder: Path) -> Config:
    """A run of two ranks, never interrupted and told to be quiet, which torchrun started."""
    config = prepared(folder, "two", "transformer")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "-m", "mtkit", "train", "-q", "-c", "two.yaml"],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "train:" not in done.stderr
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
@pytest.mark.parametrize(
    ("loss", "checkpoint"),
    [(Loss(1, 7, signal.SIGKILL), 7), (Loss(0, 7, signal.SIGTERM), 8)],
    ids=["killed", "told to stop"],
)
def test_a_lost_rank_ends_the_run_and_rerunning_it_equals_a_run_that_lost_none(
    folder: Path, two: Config, loss: Loss, checkpoint: int, tmp_path: Path
) -> None:
    config = prepared(folder, f"lost{loss.rank}", "transformer")
    command = ["train", "-c", str(folder / f"lost{loss.rank}.yaml")]
    assert all(run_ranks(command, tmp_path, 2, loss))
    assert "checkpoint saved" in said(tmp_path)
    saved = Path(config.run, "checkpoints", f"step-{checkpoint:08d}", "manifest.json")
    assert saved.exists(), said(tmp_path)
    assert run_ranks(command, tmp_path, 2) == [0, 0], said(tmp_path)
    identities = [open_artifact(Path(c.run) / "model", "model").identity for c in (config, two)]
    assert identities[0] == identities[1]


def test_a_rank_without_a_batch_adds_nothing(folder: Path) -> None:
    config = tiny_config(folder, "transformer")
    state = new_state(EncoderDecoder(config.model, 20, 20), config.training, "float32")
    assert gradients(state, [NOTHING], 5, config.seed, ALONE) == (0.0, 0.0)
    for parameter in state.model.parameters():
        assert parameter.grad is not None  # or the other ranks would wait for it
        assert not parameter.grad.any()
