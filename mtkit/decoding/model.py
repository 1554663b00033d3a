"""A model folder as it is used: found, checked, and loaded with its own tokenizer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from mtkit.artifacts import Artifact, find_model, hash_file
from mtkit.config import DecodingSettings, ModelConfig
from mtkit.device import pick_device
from mtkit.errors import UserError
from mtkit.models import TranslationModel, build_model
from mtkit.models.weights import load_weights
from mtkit.tokenizer import Tokenizer

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def load_model(
    path: str | Path | None, device: str, changes: Mapping[str, int | float | None]
) -> tuple[TranslationModel, Tokenizer, DecodingSettings]:
    """Ready to translate; what is not None in `changes` replaces the model's decoding settings.

    Raises UserError where there is no model, or a damaged one, or one with another's tokenizer.
    """
    artifact = find_model(path)
    config = _read_config(artifact.path / CONFIG, changes)
    tokenizer = _own_tokenizer(artifact)
    wanted = (config.source_vocab, config.target_vocab)
    found = (tokenizer.source_vocab, tokenizer.target_vocab)
    if found != wanted:
        raise UserError(
            f"{artifact.path}: tokenizer of another model: its vocabularies hold {found} symbols, "
            f"the model wants {wanted}"
        )
    processor = pick_device(device)
    model = build_model(config.model, *wanted)
    load_weights(model, artifact.path / WEIGHTS)
    return model.to(processor).eval(), tokenizer, config.decoding


def _read_config(path: Path, changes: Mapping[str, int | float | None]) -> ModelConfig:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        config["decoding"] |= given
        return ModelConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        setting = ".".join(str(part) for part in first["loc"])
        where = "" if setting.removeprefix("decoding.") in given else f"{path}: "
        raise UserError(f"{where}{setting}: {first['msg']}, found {first['input']}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the config of a model ({error})") from None


def _own_tokenizer(artifact: Artifact) -> Tokenizer:
    tokenizer = Tokenizer.load(artifact.path)
    for name in tokenizer.file_names:
        facts = artifact.manifest["files"].get(name, {})
        if facts.get("sha256") != hash_file(artifact.path / name):
            raise UserError(
                f"{artifact.path / name}: tokenizer of another model (its sha256 is not the "
                "manifest's): copy the whole model folder again"
            )
    return tokenizer
