"""The settings that lie in a model folder."""

from __future__ import annotations

from pydantic import model_validator

from mtkit.config.base import Settings
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings, Vocabulary


class ModelConfig(Settings):
    """`config.json` of a model folder: all that building and using the model needs."""

    model: ModelSettings
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    decoding: DecodingSettings

    @model_validator(mode="after")
    def _tied_vocabularies(self) -> ModelConfig:
        if self.model.tie == "all" and self.source_vocab != self.target_vocab:
            vocabularies = f"vocabularies of {self.source_vocab} and {self.target_vocab}"
            raise ValueError(f"tie: all, but {vocabularies}")
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> ModelConfig:
        check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        return self


def check_positions(model: ModelSettings, setting: str, length: int) -> None:
    """Sinusoids go on for ever; learned positions end, and EOS or BOS takes one more."""
    longest = model.halves().longest
    if longest is not None and length >= longest:
        raise ValueError(f"{setting}: {length} needs model.max_positions above it, not {longest}")
