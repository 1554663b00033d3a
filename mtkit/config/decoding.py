"""Settings of the fourth stage, and those that lie in a model folder."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from mtkit.config.base import Settings
from mtkit.config.languages import LanguageCode
from mtkit.config.model import Length, ModelSettings, Vocabulary

Count = Annotated[NonNegativeInt, Field(le=1_000_000)]


class DecodingSettings(Settings):
    beam: PositiveInt = Field(5, le=10_000)
    length_penalty: float = Field(1.0, ge=0, le=10, description="alpha in log P / |y|^alpha")
    min_length: Count = 0
    no_repeat_ngram: Count = Field(0, description="no n subwords in a row come twice; 0: they may")
    repetition_penalty: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="above 1, subwords that are there already become less probable",
    )
    max_length: Length = Field(256, description="subwords; longer input is split")
    sentences: LanguageCode | None = Field(
        None,
        description="language of the input, such as en, whose sentences are translated one by one: "
        "for a model that was trained on single ones, and would leave the others out",
    )
    truecase: bool = Field(
        False,
        description="lines ALL IN CAPITALS, in none or With One In Each Word are read as the "
        "tokenizer knows their words: for a model that has hardly seen such lines",
    )
    batch_tokens: PositiveInt = Field(
        1024, le=10_000_000, description="padded source tokens decoded together"
    )

    @model_validator(mode="after")
    def _lengths_fit(self) -> DecodingSettings:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}")
        return self


class SamplingSettings(Settings):
    """Drawing translations at random instead of searching for the best."""

    temperature: float = Field(1.0, ge=1e-6, le=1e6, description="below 1 sharper, above 1 flatter")
    top_k: PositiveInt | None = Field(None, description="only among the k most probable symbols")
    top_p: float | None = Field(
        None, gt=0, le=1, description="only among the most probable symbols that sum to p"
    )
    seed: NonNegativeInt = 1


class ModelConfig(Settings):
    """`config.json` of a model folder: all that building and using the model needs."""

    model: ModelSettings
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    decoding: DecodingSettings

    @model_validator(mode="after")
    def _parts_fit(self) -> ModelConfig:
        if self.model.tie == "all" and self.source_vocab != self.target_vocab:
            vocabularies = f"vocabularies of {self.source_vocab} and {self.target_vocab}"
            raise ValueError(f"tie: all, but {vocabularies}")
        self.model.check_length("decoding.max_length", self.decoding.max_length)
        return self
