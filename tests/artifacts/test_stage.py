"""An artifact is up to date if it was made from these inputs with these settings, as resolved."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.recipe import (
    Recipe,
    batches_recipe,
    checkpoint_recipe,
    model_recipe,
    scores_recipe,
    tokenizer_recipe,
)
from mtkit.artifacts.stage import Stage
from mtkit.config.base import Scope, Settings
from mtkit.config.settings import BatchingSettings, Config, TrainingSettings

INPUTS = {"corpus": "c0ffee"}


class Model(Settings):
    kind: str = "lstm"
    layers: int = 2
    device: Annotated[str, Scope.EXECUTION] = "cpu"


class ChangedDefault(Settings):
    kind: str = "lstm"
    layers: int = 4
    device: Annotated[str, Scope.EXECUTION] = "cpu"


class Extra(Settings):
    alpha: float = 0.1


class AddedSettings(Model):
    heads: int = 8
    extra: Extra = Extra()
    optional: Extra | None = None


def stage(path: Path, section: Settings, inputs: dict[str, str] = INPUTS) -> Stage:
    return Stage("tokenizer", path / "tokenizer", Recipe({"model": section}), inputs)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    with stage(tmp_path, Model()).write() as draft:
        (draft.folder / "spm.model").write_bytes(b"content")
        draft.report["lines"] = 3
    return tmp_path


def test_an_artifact_with_these_settings_and_inputs_is_current(made: Path) -> None:
    artifact = stage(made, Model()).current()
    assert artifact is not None
    assert artifact.report == {"lines": 3}
    assert artifact.manifest["settings"] == {"model": {"kind": "lstm", "layers": 2}}


@pytest.mark.parametrize(
    ("section", "is_current"),
    [
        (Model(layers=3), False),
        (Model(device="cuda"), True),
        (ChangedDefault(), False),
        (ChangedDefault(layers=2), True),
        (AddedSettings(), True),
        (AddedSettings(heads=4), False),
        (AddedSettings(extra=Extra(alpha=0.2)), False),
        (AddedSettings(optional=Extra()), False),
        (Extra(), False),
    ],
    ids=str,
)
def test_settings_are_compared_as_they_were_resolved(
    section: Settings, is_current: bool, made: Path
) -> None:
    assert (stage(made, section).current() is not None) == is_current


def test_a_removed_setting_is_a_difference(tmp_path: Path) -> None:
    with stage(tmp_path, AddedSettings()).write():
        pass
    assert stage(tmp_path, Model()).current() is None


@pytest.mark.parametrize("inputs", [{}, {"corpus": "other"}, INPUTS | {"model": "m"}])
def test_other_inputs_are_a_difference(inputs: dict[str, str], made: Path) -> None:
    changed = stage(made, Model(), inputs)
    assert changed.current() is None
    change = changed.difference(open_artifact(made / "tokenizer", "tokenizer"))
    assert change is not None and change.is_input
    assert change.describe() == f"{change.key[0]} changed"


def test_a_damaged_artifact_or_one_of_another_kind_is_not_current(made: Path) -> None:
    batches = Stage("batches", made / "tokenizer", Recipe({"model": Model()}), INPUTS)
    assert batches.current() is None
    (made / "tokenizer" / "spm.model").write_bytes(b"Content")
    assert stage(made, Model()).current() is None


@pytest.mark.parametrize(
    ("section", "words"),
    [
        (Model(layers=3), "model.layers was 2, now 3"),
        (Model(kind="transformer", layers=3), "model.kind was lstm, now transformer"),
        (AddedSettings(optional=Extra()), "model.optional was None, now {'alpha': 0.1}"),
    ],
    ids=str,
)
def test_a_difference_is_described_by_the_setting(
    section: Settings, words: str, made: Path
) -> None:
    artifact = open_artifact(made / "tokenizer", "tokenizer")
    change = stage(made, section).difference(artifact)
    assert change is not None and change.describe() == words


# Which settings each artifact depends on

CHANGES: dict[str, Any] = {
    "training.schedule": {"kind": "cosine", "peak": 0.1},
    "training.optimizer": {"kind": "adamw"},
    "training.label_smoothing": 0.7,
    "training.clip_norm": None,
    "training.precision": "bfloat16",
    "training.best_by": "loss",
    "training.device": "cuda",
    "training.tensorboard": True,
    "training.init_from": "other",
    "batching.deduplicate": True,
    "batching.drop": ["copied"],
    "tokenizer": {"vocab_size": 70},
    "model": {"kind": "transformer", "dropout": 0.7},
    "decoding": {"beam": 7},
    "run": "elsewhere",
}
"""Another value of each setting that is not a whole number."""
NEEDED: dict[str, Any] = {"training.max_harm": {"init_from": "other"}}
"""Other settings of the section without which a setting is refused."""
DEPENDENT = {
    "model": "steps epochs patience average max_harm",
    "batches": "max_length deduplicate drop",
    "": "device ranks log_every save_every keep tensorboard run",
    "tokenizer checkpoint model": "seed",
    "tokenizer": "tokenizer init_from",
    "model test": "decoding",
}
"""Settings by the kinds of artifacts that depend on them; all others: checkpoint and model."""
SETTINGS = [
    *(name for name in Config.model_fields if name not in ("data", "training", "batching")),
    *(f"training.{name}" for name in TrainingSettings.model_fields),
    *(f"batching.{name}" for name in BatchingSettings.model_fields),
]


@pytest.mark.parametrize("setting", SETTINGS)
def test_artifacts_depend_on_these_settings_only(setting: str) -> None:
    def recipes(changes: dict[str, Any]) -> dict[str, dict[str, Any]]:
        pairs = {"source": "a", "target": "b"}
        sections = {"run": "run", "data": {"train": pairs, "valid": pairs}}
        training = {"epochs": None, "steps": 5} | NEEDED.get(setting, {})
        config = Config.model_validate(sections | {"training": training} | changes)
        made = {
            "tokenizer": tokenizer_recipe(config),
            "batches": batches_recipe(config),
            "checkpoint": checkpoint_recipe(config),
            "model": model_recipe(config),
            "test": scores_recipe(config),
        }
        return {kind: recipe.resolved() for kind, recipe in made.items()}

    section, _, name = setting.rpartition(".")
    value = CHANGES.get(setting, 7)
    changed = {section: {name: value}} if section else {name: value}
    if section == "training" and name != "epochs":
        changed["training"] = {"steps": 5} | NEEDED.get(setting, {}) | changed["training"]
    before, after = recipes({}), recipes(changed)
    dependent = {kind for kind in before if before[kind] != after[kind]}
    expected = (kinds for kinds, names in DEPENDENT.items() if name in names.split())
    assert dependent == set(next(expected, "checkpoint model").split())
