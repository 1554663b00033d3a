"""Differences since an artifact was made are explained in words, and never ignored."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import call
from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.corpora import TextCorpus
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.errors import UserError
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.train import train

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def with_own_corpus(fresh: Callable[..., Config], prepared: Path, tmp_path: Path) -> Config:
    """Prepare a run on a copy of the corpus, which a test may change."""
    for path in prepared.glob("*.*"):
        shutil.copy(path, tmp_path)
    data = {
        name: {"source": f"{name}.src", "target": f"{name}.tgt"}
        for name in ("train", "valid", "test")
    }
    config = fresh("transformer", data=data)
    shutil.rmtree(config.run)
    train_tokenizer(config)
    build_batches(config)
    return config


def test_a_renamed_corpus_is_unchanged_until_its_text_changes(
    with_own_corpus: Config, capsys: Capture
) -> None:
    moved = {side: f"moved.{side}" for side in ("src", "tgt")}
    for side, name in moved.items():
        shutil.copy(f"train.{side}", name)
    corpus = TextCorpus(source=moved["src"], target=moved["tgt"])
    data = with_own_corpus.data.model_copy(update={"train": corpus})
    config = with_own_corpus.model_copy(update={"data": data})
    train(config)
    assert "data.train" not in capsys.readouterr().err
    with Path("moved.tgt").open("a") as file:
        file.write("eel fox\n")
    train(config)
    assert "data.train.target has changed" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["train", "valid"])
def test_a_changed_corpus_warns_in_training_and_rebuilds_what_no_checkpoint_needs(
    part: str, with_own_corpus: Config, capsys: Capture
) -> None:
    config = with_own_corpus
    train(config)
    for side in ("src", "tgt"):
        with Path(f"{part}.{side}").open("a") as file:
            file.write("eel fox\n")
        os.utime(file.name, (1, 1))  # it was written long before, and copied now
    train(config)
    assert f"data.{part}.source has changed" in capsys.readouterr().err
    words = re.escape(f"(data.{part}.source changed)")
    with pytest.raises(UserError, match=f"saved with other settings {words}.* undo this"):
        train_tokenizer(config)
        build_batches(config)
    shutil.rmtree(Path(config.run) / "checkpoints")
    train_tokenizer(config)
    build_batches(config)
    errors = capsys.readouterr().err
    assert ("tokenizer: up to date" in errors) == (part == "valid")
    assert f"batches: rebuilding, because data.{part}.source changed" in errors


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"tokenizer": {"vocab_size": 50}}, "tokenizer.vocab_size was 60, now 50"),
        ({"batching": {"max_length": 19}}, "batching.max_length was 256, now 19"),
    ],
)
def test_nothing_is_built_on_artifacts_of_other_settings(
    changes: dict[str, Any], words: str, fresh: Callable[..., Config]
) -> None:
    train(fresh("transformer"))
    settings = Path("run/config.yaml").read_bytes()
    other = fresh("transformer", **changes)
    with pytest.raises(UserError, match=rf"run/(tokenizer|batches) .*{words}"):
        train(other)
    with pytest.raises(UserError, match=rf"saved with other settings \({words}\)"):
        train_tokenizer(other)
        build_batches(other)
    assert Path("run/config.yaml").read_bytes() == settings


def test_a_run_does_not_resume_from_checkpoints_of_other_settings(
    fresh: Callable[..., Config],
) -> None:
    train(fresh("transformer", training={"steps": 2}))
    with pytest.raises(UserError, match=r"other settings \(model\.dropout was 0\.1, now 0\.5\)"):
        train(fresh("transformer", model={"dropout": 0.5}))


@pytest.mark.slow
@pytest.mark.parametrize("starts_from_weights", [False, True])
def test_each_way_on_that_a_refused_run_names_works(
    starts_from_weights: bool, fresh: Callable[..., Config], capsys: Capture
) -> None:
    config = fresh("transformer", training={"steps": 4})
    config = config.model_copy(update={"run": "runs/my run"})
    Path("mtkit.yaml").write_text(dump_config(config), "utf-8")
    assert call("run") == 0
    command = ["run", "--set", "training.steps=3", "--set", "seed=2"]
    capsys.readouterr()
    assert call(*command) == 2
    other_run, from_weights = re.findall("`([^`]*)`", capsys.readouterr().err)
    command += shlex.split(other_run)
    if starts_from_weights:
        command += shlex.split(from_weights)
    assert call(*command) == 0
    model = open_artifact(Path("runs/my run-2/model"), "model")
    assert model.manifest["settings"]["seed"] == 2
    assert ("init_from" in model.manifest["inputs"]) == starts_from_weights
