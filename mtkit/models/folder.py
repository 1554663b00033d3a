"""Model folders as they are used: found, checked, and opened with their own tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import WEIGHTS, find_best
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.base import first_error
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
    def run(self) -> Path:
        """The folder of its run, if it lies in one."""
        above = self.artifact.path.parent
        return above.parent if self.artifact.manifest["kind"] == "checkpoint" else above


def open_model(
    path: Place | None = None, changes: Mapping[str, int | float | None] | None = None
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


def open_models(
    paths: Sequence[Place | None], changes: Mapping[str, int | float | None] | None = None
) -> list[OpenedModel]:
    """One model, or those of an ensemble, which are to be searched by the settings of the first.

    `max_length` is that of the one that takes the least. Nothing is refused of a model that is
    named twice: it has two voices. Raises UserError as `open_model`, and for models whose subwords
    are not the same.
    """
    models = [open_model(path, changes) for path in paths]
    if not models:
        raise UserError("no model is named")
    first, *others = models
    for other in others:
        names = f"{first.artifact.path} and {other.artifact.path}"
        sides = ("source", "target"), first.tokenizer.vocabularies, other.tokenizer.vocabularies
        for side, ours, theirs in zip(*sides, strict=True):
            if ours != theirs:
                raise UserError(
                    f"{names}: no ensemble: {side} {_difference(ours, theirs)}: "
                    "train both with the same tokenizer"
                )
        if first.tokenizer.models != other.tokenizer.models:
            raise UserError(
                f"{names}: no ensemble: tokenizers of the same subwords, which may cut text "
                "otherwise, as their files differ: train both with the same tokenizer"
            )
    lengths = {it.config.decoding.max_length for it in models}
    if len(lengths) > 1:
        return open_models(paths, {**(changes or {}), "max_length": min(lengths)})
    return models


def save_model_config(folder: Path, config: ModelConfig, tokenizer: Tokenizer) -> None:
    """All that decoding needs besides weights, into the folder of a model."""
    write_json(folder / CONFIG, config.model_dump())
    tokenizer.copy_to(folder)


def _difference(ours: list[str], theirs: list[str]) -> str:
    if len(ours) != len(theirs):
        return f"vocabularies of {len(ours):,} and {len(theirs):,} subwords"
    place = next(i for i, (one, other) in enumerate(zip(ours, theirs, strict=True)) if one != other)
    return f"subword {place:,} is {ours[place]!r} in one and {theirs[place]!r} in the other"


def _read_config(path: Path, changes: Mapping[str, int | float | None]) -> ModelConfig:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        config = read_json(path)
        config["decoding"] |= given
        return ModelConfig.model_validate(config)
    except ValidationError as error:
        setting, complaint = first_error(error)
        parts = [setting, complaint]
        if setting.removeprefix("decoding.") not in given:
            parts.insert(0, f"{path}, with {', '.join(given)} as given" if given else str(path))
        raise UserError(": ".join(filter(None, parts))) from None
    except (OSError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the config of a model ({error})") from None
