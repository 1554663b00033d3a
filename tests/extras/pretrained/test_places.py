"""Training starts from a model of another program as from one of mtkit, without importing first."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from commands import call
from folders import tokenizer_in
from hubs import MAIN, Hub, Repository, serving, use_hub
from mtkit.artifacts.ancestors import ancestors_of
from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.artifacts.runs import find_base_model
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config
from mtkit.errors import SettingError, UserError
from mtkit.extras.pretrained.ctranslate2_export import export_to_ctranslate2
from mtkit.extras.pretrained.huggingface import export_to_huggingface
from mtkit.models.weights import save_weights
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training.setup import check_origin
from mtkit.training.train import train
from steps import train_until
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
HUB_NAME = "Helsinki-NLP/opus-mt-a-b"
MODEL = {"tie": "all", "norm": "post", "activation": "swish", "output_bias": False}
TOKENIZER = {"type": "bpe", "byte_fallback": True, "vocab_size": 310}


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, the trained run `base`, and its MarianMT folder `exported`."""
    folder = tmp_path_factory.mktemp("origin")
    write_reversal_task(folder)
    config = configured(folder, folder / "base", steps=4)
    train_tokenizer(config)
    build_batches(config)
    train(config)
    export_to_huggingface(str(folder / "base"), folder / "exported")
    return folder


@pytest.fixture
def folder(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of it, as the current folder, with an empty cache."""
    copy = tmp_path / "work"
    shutil.copytree(given, copy)
    monkeypatch.chdir(copy)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield copy


def configured(
    folder: Path, run: Path | str, *, model: dict[str, Any] | None = None, **training: Any
) -> Config:
    config = tiny_config(
        folder, "transformer", training=training, tokenizer=TOKENIZER, model=MODEL | (model or {})
    )
    return config.model_copy(update={"run": str(run)})


def run_stages(config: Config) -> Artifact:
    check_origin(config)
    train_tokenizer(config)
    build_batches(config)
    return train(config)


def weights_in(folder: Path | str) -> dict[str, torch.Tensor]:
    return load_file(Path(folder) / "model.safetensors")


FROZEN: dict[str, Any] = {"schedule": {"kind": "inverse_sqrt", "peak": 1e-12}, "steps": 1}


def test_a_marian_folder_is_trained_and_exported_again(folder: Path) -> None:
    model = run_stages(configured(folder, "run", init_from="exported", **FROZEN))
    for name, weight in weights_in("base/model").items():
        torch.testing.assert_close(weights_in(model.path)[name], weight)
    assert tokenizer_in(model.path).vocabularies == tokenizer_in(folder / "base/model").vocabularies
    export_to_huggingface("run", Path("again"))
    for name, weight in weights_in("exported").items():
        torch.testing.assert_close(weights_in("again")[name], weight)
    for name in ("vocab.json", "config.json"):
        assert json.loads(Path("again", name).read_text()) == json.loads(
            Path("exported", name).read_text()
        )


def test_every_command_takes_a_folder_without_importing_first(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(folder, "run", steps=2, validate_every=2)
    Path("c.yaml").write_text(dump_config(config))
    options = ["-c", "c.yaml", "--set", "training.init_from=exported"]
    assert call("train-spm", *options) == call("batch", *options) == call("train", *options) == 0
    assert capsys.readouterr().err.count("importing the model exported, once") == 1
    assert call("run", *options, "--run", "other") == 0
    assert "importing" not in capsys.readouterr().err


def test_a_model_for_ctranslate2_or_without_a_name_is_refused_with_the_reason(folder: Path) -> None:
    export_to_ctranslate2("base", Path("converted"), quantization="float32")
    shutil.copy("converted/model.bin", "model.bin")  # the current folder is one, too
    for place, words in (
        ("converted", "converted is a model for CTranslate2, which cannot be converted back"),
        ("", "an empty name holds no model"),
    ):
        with pytest.raises(UserError, match=words):
            find_base_model(place)


def test_a_run_without_a_model_is_refused_with_the_command_that_makes_one(folder: Path) -> None:
    config = configured(folder, "unfinished", steps=4)
    train_tokenizer(config)
    with pytest.raises(UserError, match=r"not ended.* use `mtkit run -c unfinished/\S+`$"):
        find_base_model("unfinished")
    build_batches(config)
    train_until(config, 2)
    with pytest.raises(UserError, match=r"not ended.* or `mtkit finish unfinished`$"):
        find_base_model("unfinished")


def test_a_model_is_imported_once_and_again_if_it_changes(folder: Path) -> None:
    first = find_base_model("exported")
    assert find_base_model(str(folder / "exported")).path == first.path
    (first.path / "config.json").write_text("damaged")
    assert find_base_model("exported").path == first.path
    assert find_base_model("exported").identity == first.identity
    weights = weights_in("exported")
    weights["model.shared.weight"] += 1
    save_weights(weights, folder / "exported/model.safetensors")
    assert find_base_model("exported").identity != first.identity
    shutil.copytree("base", "moved")
    shutil.rmtree("exported")
    shutil.move("moved", "exported")
    config = configured(folder, "run", init_from="exported")
    assert check_origin(config) == find_base_model("exported/model")


def test_a_chain_of_models_is_recorded_and_shown(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run_stages(configured(folder, "runs/a", init_from="exported", **FROZEN))
    second = run_stages(configured(folder, "runs/b", init_from="runs/a", **FROZEN))
    assert ancestors_of(second) == [
        {"model": "exported", "identity": find_base_model("exported").identity},
        {"model": "runs/a", "identity": first.identity},
    ]
    assert call("info", "runs/b") == 0
    assert "exported → runs/a → this" in capsys.readouterr().out
    assert call("info", "base") == 0
    assert "→" not in capsys.readouterr().out
    hashed = {name: second.manifest[name] for name in ("settings", "inputs")}
    assert "runs/a" not in json.dumps(hashed)


@pytest.mark.parametrize(
    ("name", "value"), [("ffn", 64), ("layers", 2), ("tie", "target"), ("activation", "relu")]
)
def test_another_setting_than_that_of_the_folder_is_named(
    name: str, value: Any, folder: Path
) -> None:
    config = configured(folder, "run", model={name: value}, init_from="exported")
    with pytest.raises(SettingError, match=rf"exported was .*model\.{name} was .*, now {value}\)"):
        check_origin(config)


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "model.safetensors"])
def test_a_damaged_folder_is_refused_in_one_line(name: str, folder: Path) -> None:
    damaged = folder / "exported" / name
    content = damaged.read_bytes()
    for broken in (b"", content[: len(content) // 2]):
        damaged.write_bytes(broken)
        with pytest.raises(UserError, match=r"exported|damaged"):
            find_base_model("exported")
    damaged.unlink()
    with pytest.raises(UserError, match=name):
        find_base_model("exported")


def test_a_pickle_is_never_loaded(folder: Path) -> None:
    Path("exported/model.safetensors").rename("exported/pytorch_model.bin")
    with pytest.raises(UserError, match="never loaded"):
        find_base_model("exported")


@pytest.fixture
def hub(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    exported = shutil.copytree("exported", tmp_path / "hub-model")
    with serving({HUB_NAME: Repository({MAIN: exported})}) as hub:
        use_hub(hub.url, tmp_path / "hub-cache", monkeypatch)
        yield hub


def test_training_from_a_model_of_the_hub_names_it_in_the_chain(hub: Hub, folder: Path) -> None:
    model = run_stages(configured(folder, "run", init_from=HUB_NAME, **FROZEN))
    assert ancestors_of(model)[0]["model"] == HUB_NAME
    assert hub.requests["model.safetensors"] == 1
    assert find_base_model(HUB_NAME).identity == find_base_model("exported").identity


def test_a_config_whose_model_the_hub_lacks_is_an_error_at_its_line(
    hub: Hub, capsys: pytest.CaptureFixture[str]
) -> None:
    config = configured(Path(), "run", init_from="nobody/nothing")
    Path("c.yaml").write_text(dump_config(config))
    for command in ("train-spm", "run"):
        assert call(command, "-c", "c.yaml") == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("c.yaml:") and "nobody/nothing" in line
    assert not Path("run").exists()


def test_the_identity_of_an_import_does_not_depend_on_its_place(folder: Path) -> None:
    model = find_base_model("exported")
    shutil.move("exported", "elsewhere")
    assert find_base_model("elsewhere").identity == model.identity
    assert open_artifact(model.path, "model", verify=True) == model
