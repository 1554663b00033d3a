"""Model folders: find, verify and open them, each with its own tokenizer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import WEIGHTS, find_best, locate_model
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.base import validated
from mtkit.config.decoding import ModelConfig
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer

CONFIG = "config.json"

Place = str | Path
"""A run or a model folder."""

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class OpenedModel:
    """A model without its weights: verified files, config and tokenizer."""

    artifact: Artifact
    config: ModelConfig
    tokenizer: Tokenizer

    @property
    def weights(self) -> Path:
        """The file with the weights."""
        return self.artifact.file(WEIGHTS)

    @property
    def name(self) -> str:
        """The model's folder, without links, and its training steps, for messages."""
        path = self.artifact.path.resolve()
        with suppress(ValueError):  # the model is not below the current directory
            path = path.relative_to(Path.cwd())
        steps = self.artifact.report.get("steps")  # a model of another program has none
        return f"{path} ({steps:,} steps)" if isinstance(steps, int) else str(path)

    @property
    def run(self) -> Path:
        """The folder that is the run if the model belongs to a run: RUN/model, or a checkpoint."""
        parent = self.artifact.path.parent
        is_checkpoint = self.artifact.manifest["kind"] == "checkpoint"  # RUN/checkpoints/step-…
        return parent.parent if is_checkpoint else parent


def open_model(path: Place | None = None) -> OpenedModel:
    """Open and verify the model of a run or a model folder.

    Of an unfinished run, open the best checkpoint so far, or the newest if none was validated. A
    model of another program is imported first; see `locate_model`.
    `path`: None stands for the model that `find_best` finds by default.

    Raises:
        UserError: there is no model, it is damaged, or its tokenizer belongs to another model.
    """
    artifact = find_best(locate_model(path) if path else None)
    config = read_model_config(artifact)
    tokenizer = Tokenizer.load(artifact)
    expected = (config.source_vocab, config.target_vocab)
    actual = (tokenizer.source_vocab, tokenizer.target_vocab)
    if actual != expected:
        raise UserError(
            f"{artifact.path} has the tokenizer of another model: {actual} subwords, not {expected}"
        )
    return OpenedModel(artifact, config, tokenizer)


def read_model_config(artifact: Artifact) -> ModelConfig:
    """Return the settings of a model; UserError if they are damaged."""
    path = artifact.file(CONFIG)
    try:
        return validated(ModelConfig, read_json(path), str(path))
    except OSError as error:
        raise UserError(f"{path} is not the config of a model ({error})") from None


def open_models(paths: Sequence[Place | None]) -> list[OpenedModel]:
    """Open one model, or the models of an ensemble; a model listed twice has double weight.

    Raises:
        UserError: as `open_model`, or the tokenizers of the models differ.
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


def read_models(
    paths: Sequence[Place | None], read: Callable[[Sequence[OpenedModel]], _Result]
) -> _Result:
    """Open one model, or the models of an ensemble, and return `read(models)`.

    `read` loads their weights. If it fails and the folder of a model no longer exists, open the
    models once more, and call `read` a second time.

    Raises:
        UserError: as `open_models`, or as `read`.
    """
    models = open_models(paths)
    try:
        return read(models)
    except UserError:
        if all(model.artifact.path.exists() for model in models):
            raise
    # The model was a checkpoint of an unfinished run, which has meanwhile replaced the checkpoint.
    return read(open_models(paths))


def save_model_config(folder: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    """Write all that decoding needs except weights into the folder of a model."""
    write_json(folder / CONFIG, config.model_dump())
    tokenizer.copy_to(folder)
