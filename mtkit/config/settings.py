"""Every setting of mtkit and its default, as frozen data. Nothing else in the package has defaults.

Reading YAML, overrides and the wording of errors live in `configfile`.
"""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, model_validator

from mtkit.config.base import Settings
from mtkit.config.card import check_positions
from mtkit.config.data import BatchingSettings, DataSettings, TokenizerSettings
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings, TransformerSettings
from mtkit.config.training import TrainingSettings


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
        check_positions(self.model, "decoding.max_length", self.decoding.max_length)
        check_positions(self.model, "batching.max_length", self.batching.max_length)
        return self
