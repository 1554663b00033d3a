"""Model folders: find, verify and open them, each with its own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import WEIGHTS, find_best
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.base import validated
from mtkit.config.decoding import ModelConfig
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer

CONFIG = "config.json"

Place = str | Path
"""A run or a model folder."""


@dataclass(frozen=True)
class OpenedModel:
    """Everything of a model but its weights."""

    artifact: Artifact
    config: ModelConfig
    tokenizer: Tokenizer

    @property
    def weights(self) -> Path:
        return self.artifact.path / WEIGHTS

    @property
    def name(self) -> str:
        """Return its folder, without links, and its training steps, for messages."""
        path, steps = self.artifact.path.resolve(), self.artifact.report.get("steps")
        with suppress(ValueError):  # it lies elsewhere
            path = path.relative_to(Path.cwd())
        return f"{path} ({steps:,} steps)" if isinstance(steps, int) else str(path)

    @property
    def run(self) -> Path:
        """The folder of its run, if it lies in one."""
        above = self.artifact.path.parent
        return above.parent if self.artifact.manifest["kind"] == "checkpoint" else above


def open_model(path: Place | None = None) -> OpenedModel:
    """Open the verified model of a run or a model folder; of an unfinished run, its best so far.

    Raises:
        UserError: there is no model, it is damaged, or its tokenizer is that of another model.
    """
    artifact = find_best(path)
    path = artifact.path / CONFIG
    try:
        config = validated(ModelConfig, read_json(path), str(path))
    except OSError as error:
        raise UserError(f"{path} is not the config of a model ({error})") from None
    tokenizer = Tokenizer.load(artifact.path)
    expected, actual = ((it.source_vocab, it.target_vocab) for it in (config, tokenizer))
    if actual != expected:
        raise UserError(
            f"{artifact.path}: tokenizer of another model: vocabularies of {actual}, not {expected}"
        )
    return OpenedModel(artifact, config, tokenizer)


def open_models(paths: Sequence[Place | None]) -> list[OpenedModel]:
    """Open one model, or those of an ensemble; a model that is named twice counts twice.

    Raises:
        UserError: as `open_model`, or their tokenizers differ.
    """
    models = [open_model(path) for path in paths]
    if not models:
        raise UserError("give at least one model")
    first, *others = models
    for other in others:
        if other.tokenizer.models != first.tokenizer.models:
            raise UserError(
                f"{first.artifact.path} and {other.artifact.path} cannot form an ensemble: their "
                "tokenizers differ; train both with the same tokenizer"
            )
    return models


def save_model_config(folder: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Write all that decoding needs besides weights into the folder of a model."""
    write_json(folder / CONFIG, config.model_dump())
    tokenizer.copy_to(folder)
