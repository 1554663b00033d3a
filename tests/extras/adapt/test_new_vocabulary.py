"""A base model gets a larger vocabulary for new text, and is a model like any other."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from mtkit.artifacts.manifest import Artifact, open_artifact
from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.decoding.api import load
from mtkit.errors import MtkitError, UserError
from mtkit.extras.pretrained.huggingface import export_to_huggingface, from_huggingface
from mtkit.models.folder import open_model
from mtkit.models.weights import load_model
from mtkit.symbols import BOS
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import train_tokenizer
from mtkit.training import validation as run_validation
from mtkit.training.setup import open_inputs
from mtkit.training.state import TrainState
from mtkit.training.train import train
from tasks import tiny_config, write_reversal_task

pytestmark = pytest.mark.slow
MODELS: dict[str, dict[str, Any]] = {
    "joint": {"tie": "all", "activation": "swish", "output_bias": True},
    "separate": {"tie": "none"},
}
TOKENIZERS: dict[str, dict[str, Any]] = {
    "joint": {"type": "bpe", "byte_fallback": True, "vocab_size": 310},
    "separate": {"joint": False, "vocab_size": 33},
}
NEW_WORDS = ["собака", "кошка", "beehive", "doghouse"]
FROZEN: dict[str, Any] = {"schedule": {"kind": "inverse_sqrt", "peak": 1e-12}, "steps": 1}


def write_new_task(folder: Path) -> None:
    """Write a task like the given one, with words that its vocabulary cannot spell well."""
    folder.mkdir()
    generator = random.Random(2)
    for name, count in (("train", 200), ("valid", 10), ("test", 10)):
        lines = [generator.choices(NEW_WORDS, k=generator.randint(1, 4)) for _ in range(count)]
        sources = [" ".join(words) for words in lines]
        targets = [" ".join(reversed(words)).upper() for words in lines]
        (folder / f"{name}.src").write_text("".join(f"{line}\n" for line in sources), "utf-8")
        (folder / f"{name}.tgt").write_text("".join(f"{line}\n" for line in targets), "utf-8")


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the trained runs `joint` and `separate`, and another corpus in `new`."""
    folder = tmp_path_factory.mktemp("given")
    write_reversal_task(folder)
    write_new_task(folder / "new")
    for kind in MODELS:
        config = tiny_config(
            folder,
            "transformer",
            model=MODELS[kind],
            tokenizer=TOKENIZERS[kind],
            training={"steps": 3},
        )
        run_stages(config.model_copy(update={"run": str(folder / kind)}))
    return folder


@pytest.fixture
def folder(given: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    copy = tmp_path / "work"
    shutil.copytree(given, copy)
    monkeypatch.chdir(copy)
    return copy


def adapted(
    kind: str, run: str, count: int, *, drop_unused: bool = False, **training: Any
) -> Config:
    """Return the config of a run on the new corpus with new pieces."""
    config = tiny_config(
        Path("new"),
        "transformer",
        model=MODELS[kind],
        tokenizer={"new_pieces": count, "drop_unused": drop_unused},
        training={"init_from": kind, **training},
    )
    return config.model_copy(update={"run": run})


def run_stages(config: Config) -> Artifact:
    train_tokenizer(config)
    build_batches(config)
    return train(config)


@pytest.mark.parametrize("kind", MODELS)
def test_before_training_old_ids_have_the_logits_of_the_base_model(kind: str, folder: Path) -> None:
    config = adapted(kind, "run", 20)
    train_tokenizer(config)
    build_batches(config)
    inputs = open_inputs(config)
    new = inputs.initial_state().model.eval()
    opened = open_model(kind)
    old = load_model(opened.config, opened.weights).eval()
    assert inputs.tokenizer.source_vocab == opened.tokenizer.source_vocab + 20
    size = opened.tokenizer.target_vocab
    assert inputs.tokenizer.vocabularies[1][:size] == opened.tokenizer.vocabularies[1]
    source = torch.tensor([[5, 9, 7, 3]])
    target = torch.tensor([[BOS, 8, 6, 10]])
    with torch.no_grad():
        before, after = (model.project(model(source, source != 0, target)) for model in (old, new))
    torch.testing.assert_close(after[..., :size], before)


def test_a_new_corpus_without_new_pieces_changes_neither_ids_nor_weights(folder: Path) -> None:
    for name in ("train.src", "train.tgt"):
        Path("new", name).write_text("ant\n", "utf-8")
    model = run_stages(adapted("joint", "run", 50, **FROZEN))
    given = open_artifact(folder / "joint/model", "model")
    assert Tokenizer.load(model).models == Tokenizer.load(given).models
    before, after = (load_file(path / "model.safetensors") for path in (given.path, model.path))
    for name, weight in before.items():
        torch.testing.assert_close(after[name], weight)


@pytest.mark.parametrize(("kind", "drop_unused"), [("joint", True), ("separate", False)])
def test_a_model_with_another_vocabulary_translates_the_same_in_every_format(
    kind: str, drop_unused: bool, folder: Path
) -> None:
    run_stages(adapted(kind, "run", 30, drop_unused=drop_unused, steps=40))
    lines = Path("new/test.src").read_text("utf-8").splitlines()
    expected = load("run", engine="torch").translate(lines)
    assert load("run", engine="ctranslate2").translate(lines) == expected
    export_to_huggingface("run", Path("exported"))
    from_huggingface(Path("exported"), Path("imported"))
    assert load("imported", engine="torch").translate(lines) == expected
    vocabularies = [open_model(place).tokenizer.vocabularies for place in ("run", "imported")]
    assert vocabularies[0] == vocabularies[1]


@pytest.mark.parametrize("kind", MODELS)
def test_a_refused_adaptation_ends_with_the_base_model_and_its_own_vocabulary(
    kind: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Ten validation lines are too few to show a gain.
    model = run_stages(adapted(kind, "run", 20, steps=4, max_harm=1.0))
    assert "the unchanged vocabulary of the base model" in capsys.readouterr().err
    given, ended = open_model(kind), open_model("run")
    assert ended.tokenizer.models == given.tokenizer.models
    weights = load_file(ended.weights)
    for name, weight in load_file(given.weights).items():
        assert torch.equal(weights[name], weight)
    for name in ("estimation.json", "source.bigrams", "target.bigrams"):
        assert model.file(name).read_bytes() == given.artifact.file(name).read_bytes()
    lines = Path("new/test.src").read_text("utf-8").splitlines()
    expected = load(kind, engine="torch").translate(lines)
    assert load("run", engine="torch").translate(lines) == expected
    assert load("run", engine="ctranslate2").translate(lines) == expected


def test_another_number_of_pieces_is_noticed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = adapted("joint", "run", 10)
    first = train_tokenizer(config)
    assert train_tokenizer(config).identity == first.identity
    assert "tokenizer: up to date" in capsys.readouterr().err
    build_batches(config)
    for count in (11, 0):
        other = adapted("joint", "run", count)
        with pytest.raises(UserError, match=r"new_pieces|mtkit train-spm"):
            open_inputs(other)
    with pytest.raises(UserError, match=r"drop_unused"):
        open_inputs(adapted("joint", "run", 10, drop_unused=True))
    assert train_tokenizer(adapted("joint", "run", 11)).identity != first.identity
    assert "rebuilding, because tokenizer.new_pieces was 10, now 11" in capsys.readouterr().err
    other_text = Path("new/train.src").read_text("utf-8").replace("beehive", "beeline")
    Path("new/train.src").write_text(other_text, "utf-8")
    assert train_tokenizer(config).identity != first.identity


def test_a_run_with_new_pieces_resumes_exactly(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings: dict[str, Any] = {"steps": 8, "validate_every": 4, "save_every": 100}
    whole = run_stages(adapted("joint", "whole", 20, **settings))

    def fail(run: Any, state: TrainState, *others: Any) -> Any:
        if state.progress.step == 4:
            raise MtkitError("a process was lost")
        return run_validation.validate(run, state, *others)

    with monkeypatch.context() as patch, pytest.raises(MtkitError, match="a process was lost"):
        patch.setattr("mtkit.training.train.validate", fail)
        run_stages(adapted("joint", "broken", 20, **settings))
    assert not Path("broken/model").exists()
    assert run_stages(adapted("joint", "broken", 20, **settings)).identity == whole.identity


def test_new_pieces_need_a_base_model() -> None:
    with pytest.raises(ValueError, match=r"change the vocabulary of a model; set"):
        tiny_config(Path("new"), "transformer", tokenizer={"new_pieces": 5})
