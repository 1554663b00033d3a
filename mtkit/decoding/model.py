"""A model folder as it is used: found, checked, and loaded with its own tokenizer."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path

from pydantic import ValidationError

from mtkit.artifacts import find_model, read_json
from mtkit.config import DecodingSettings, ModelConfig
from mtkit.device import pick_device
from mtkit.errors import UserError
from mtkit.models import TranslationModel, build_model
from mtkit.models.weights import load_model_of
from mtkit.tokenizer import Tokenizer

WEIGHTS, CONFIG = "model.safetensors", "config.json"


def load_model(
    path: str | Path | None, device: str, changes: Mapping[str, int | float | None]
) -> tuple[TranslationModel, Tokenizer, DecodingSettings]:
    """Ready to translate; what is not None in `changes` replaces the model's decoding settings.

    Every file's hash is compared before anything reads it. Raises UserError where there is no
    model, or a damaged one, or one with another's tokenizer.
    """
    folder = find_model(path).path
    config = _read_config(folder / CONFIG, changes)
    tokenizer = Tokenizer.load(folder)
    wanted = (config.source_vocab, config.target_vocab)
    found = (tokenizer.source_vocab, tokenizer.target_vocab)
    if found != wanted:
        raise UserError(
            f"{folder}: tokenizer of another model: its vocabularies hold {found} symbols, "
            f"the model wants {wanted}"
        )
    processor = pick_device(device)
    model = load_model_of(lambda: build_model(config.model, *wanted), folder / WEIGHTS)
    return model.to(processor).eval(), tokenizer, config.decoding


def _read_config(path: Path, changes: Mapping[str, int | float | None]) -> ModelConfig:
    given = {name: value for name, value in changes.items() if value is not None}
    try:
        config = read_json(path)
        config["decoding"] |= given
        return ModelConfig.model_validate(config)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        setting = ".".join(str(part) for part in first["loc"])
        where = "" if setting.removeprefix("decoding.") in given else f"{path}: "
        found = reprlib.repr(first["input"])
        raise UserError(f"{where}{setting}: {first['msg']}, found {found}") from None
    except (OSError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the config of a model ({error})") from None
