"""A model folder as it is used: found, checked, and opened with its own tokenizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mtkit.artifacts import Artifact
from mtkit.config.base import first_complaint
from mtkit.config.decoding import ModelConfig
from mtkit.config.runs import find_best
from mtkit.config.storage import read_json
from mtkit.errors import UserError
from mtkit.tokenizer.codec import Tokenizer

WEIGHTS, CONFIG = "model.safetensors", "config.json"
AVERAGE = "average.safetensors"
"""Of a checkpoint with `training.ema`: the weights that are validated."""


@dataclass(frozen=True)
class OpenedModel:
    """Everything of a model but its weights."""

    artifact: Artifact
    config: ModelConfig
    tokenizer: Tokenizer

    @property
    def weights(self) -> Path:
        name = AVERAGE if AVERAGE in self.artifact.manifest["files"] else WEIGHTS
        return self.artifact.path / name

    @property
    def run(self) -> Path:
        """The folder of its run, if it lies in one."""
        above = self.artifact.path.parent
        return above.parent if self.artifact.manifest["kind"] == "checkpoint" else above


def open_model(
    path: str | Path | None = None, changes: Mapping[str, int | float | None] | None = None
) -> OpenedModel:
    """What is not None in `changes` replaces the model's decoding settings.

    Every file's hash is compared before anything reads it. Of a run that is not finished it is the
    best checkpoint so far. Raises UserError where there is no model, or a damaged one, or one with
    another's tokenizer.
    """
    artifact = find_best(path)
    config = _read_config(artifact.path / CONFIG, changes or {})
    tokenizer = Tokenizer.load(artifact.path)
    wanted, found = ((it.source_vocab, it.target_vocab) for it in (config, tokenizer))
    if found != wanted:
        raise UserError(
            f"{artifact.path}: tokenizer of another model: its vocabularies hold {found} symbols, "
            f"the model wants {wanted}"
        )
    return OpenedModel(artifact, config, tokenizer)


def _read_config(path: Path, changes: Mapping[str, int | float | None]) -> ModelConfig:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        config = read_json(path)
        config["decoding"] |= given
        return ModelConfig.model_validate(config)
    except ValidationError as error:
        setting, complaint = first_complaint(error)
        parts = [setting, complaint]
        if setting.removeprefix("decoding.") not in given:
            parts.insert(0, f"{path}, with {', '.join(given)} as given" if given else str(path))
        raise UserError(": ".join(filter(None, parts))) from None
    except (OSError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the config of a model ({error})") from None
