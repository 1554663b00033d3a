"""Without the extra, a setting that needs it is named, and `training.init_from` works alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from commands import call
from mtkit import plugins
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.pipeline import run
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.train import train
from tasks import Capture, tiny_config, write_reversal_task


def configure(folder: Path, run: str = "run", **sections: Any) -> Config:
    """Return the config of a run on the reversal task in `folder`."""
    return tiny_config(folder, "transformer", **sections).model_copy(update={"run": run})


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the reversal task and a trained run `given`."""
    folder = tmp_path_factory.mktemp("given")
    write_reversal_task(folder)
    run(configure(folder, str(folder / "given"), training={"steps": 3}))
    return folder


@pytest.fixture
def without_extras(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plugins, "find_plugins", lambda group: {})
    return given


def test_training_from_base_weights_needs_no_extra(without_extras: Path) -> None:
    settings = {
        "init_from": str(without_extras / "given"),
        "steps": 1,
        "schedule": {"kind": "inverse_sqrt", "peak": 1e-12},
    }
    assert run(configure(without_extras, training=settings))
    weights = load_file("run/model/model.safetensors")
    for name, weight in load_file(without_extras / "given/model/model.safetensors").items():
        torch.testing.assert_close(weights[name], weight)


def test_settings_of_a_missing_extra_are_named_before_any_work(
    without_extras: Path, capsys: Capture
) -> None:
    given = str(without_extras / "given")
    files = [str(without_extras / f"train.{side}") for side in ("src", "tgt")]
    limited = configure(without_extras, training={"init_from": given, "max_harm": 1.0})
    for stage in (run, train):
        with pytest.raises(UserError, match="'max_harm' is not installed"):
            stage(limited)
    pieces = {"new_pieces": 5}
    larger = configure(without_extras, tokenizer=pieces, training={"init_from": given})
    with pytest.raises(UserError, match="'new_pieces' is not installed"):
        train_tokenizer(larger)
    assert call("init", *files, "--from", given) == 2
    assert "'from' is not installed" in capsys.readouterr().err
    assert not Path("run/tokenizer").exists()
    assert not Path("mtkit.yaml").exists()
