"""Every setting of mtkit and its default, as frozen data. Nothing else in the package has defaults.

Reading YAML, overrides and the wording of errors live in `configfile`.
"""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, model_validator

from mtkit.config.base import Settings
from mtkit.config.data import BatchingSettings, DataSettings, TokenizerSettings
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings, TransformerSettings, Vocabulary
from mtkit.config.training import TrainingSettings


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
        _check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        return self


class Config(Settings):
    run: str = Field(min_length=1, description="folder where every stage writes")
    seed: NonNegativeInt = 1
    data: DataSettings
    tokenizer: TokenizerSettings = TokenizerSettings()
    batching: BatchingSettings = BatchingSettings()
    model: ModelSettings = TransformerSettings()
    training: TrainingSettings
    decoding: DecodingSettings = DecodingSettings()

    @model_validator(mode="after")
    def _tied_vocabularies(self) -> Config:
        if self.model.tie == "all" and not self.tokenizer.joint:
            raise ValueError("model.tie: all needs tokenizer.joint: true (or tie: target)")
        return self

    @model_validator(mode="after")
    def _positions_suffice(self) -> Config:
        _check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        _check_positions(self.model, "batching.max_length", self.batching.max_length)
        return self


def _check_positions(model: ModelSettings, setting: str, length: int) -> None:
    """Sinusoids go on for ever; learned positions end, and EOS or BOS takes one more."""
    longest = model.halves().longest
    if longest is not None and length >= longest:
        raise ValueError(f"{setting}: {length} needs model.max_positions above it, not {longest}")
