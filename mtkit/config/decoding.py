"""Settings of the fourth stage."""

from __future__ import annotations

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from mtkit.config.base import Settings
from mtkit.config.model import Length


class DecodingSettings(Settings):
    beam: PositiveInt = Field(5, le=10_000)
    length_penalty: float = Field(1.0, ge=0, description="alpha in log P / |y|^alpha")
    min_length: NonNegativeInt = Field(0, le=1_000_000)
    no_repeat_ngram: NonNegativeInt = Field(
        0, le=1_000_000, description="no n subwords in a row come twice; 0: they may"
    )
    repetition_penalty: PositiveFloat = Field(
        1.0, description="above 1, subwords that are there already become less probable"
    )
    max_length: Length = Field(256, description="subwords; longer input is split")
    batch_tokens: PositiveInt = Field(
        1024, le=10_000_000, description="padded source tokens decoded together"
    )


class SamplingSettings(Settings):
    """Drawing translations at random instead of searching for the best."""

    temperature: PositiveFloat = Field(1.0, description="below 1 sharper, above 1 flatter")
    top_k: PositiveInt | None = Field(None, description="only among the k most probable symbols")
    top_p: float | None = Field(
        None, gt=0, le=1, description="only among the most probable symbols that sum to p"
    )
    seed: NonNegativeInt = 1
