"""Settings of decoding, and of a model folder."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeInt,
    PlainSerializer,
    PositiveInt,
    field_validator,
    model_validator,
)

from mtkit import plugins
from mtkit.config.base import FromHome, Scope, Settings
from mtkit.config.language_codes import LanguageTag
from mtkit.config.model import Length, ModelSettings, Vocabulary
from mtkit.config.target_tags import TargetTag

Count = Annotated[NonNegativeInt, Field(le=1_000_000)]


MAX_SEARCH_TOKENS = 1 << 16
"""Largest beam times max_length; memory and time of a search grow with this number."""
MAX_LENGTH_PENALTY = 5.0
"""A search computes in float32, in which MAX_SEARCH_TOKENS ** 8 is infinite."""
MIN_SAMPLING_VALUE = 1e-6
"""Smallest temperature and top_p; in float32, a number below 1e-45 is 0."""


class SearchSettings(Settings):
    """How a model searches; also the options of `mtkit translate`, whose help the fields are."""

    beam: PositiveInt = Field(
        5, le=10_000, description="beam size: hypotheses kept at each step; 1: greedy, the argmax"
    )
    length_penalty: float = Field(
        1.0,
        ge=0,
        le=MAX_LENGTH_PENALTY,
        description="alpha in score = log P / length^alpha; larger favours longer output; 0: off",
    )
    min_length: Count = Field(0, description="shortest translation, in subwords")
    no_repeat_ngram: Count = Field(
        0, description="never repeat an n-gram of this many subwords; 0: off"
    )
    repetition_penalty: float = Field(
        1.0,
        ge=0.01,
        le=100,
        description="above 1, make repeated subwords less probable; 1: off",
    )
    max_length: Length = Field(
        256, description="longest translation, in subwords; longer input is split"
    )

    @model_validator(mode="after")
    def _are_within_bounds(self) -> SearchSettings:
        if self.min_length > self.max_length:
            raise ValueError(f"min_length {self.min_length} is above max_length {self.max_length}")
        if self.beam * self.max_length > MAX_SEARCH_TOKENS:
            raise ValueError(
                f"beam {self.beam} times max_length {self.max_length} is above "
                f"{MAX_SEARCH_TOKENS:,}; lower one of them"
            )
        return self


class DecodingSettings(SearchSettings):
    """How a model searches, and how input is prepared for it."""

    sentences: LanguageTag | None = Field(
        None,
        description="language of the input, such as en: translate each sentence of a line "
        "separately, because a model trained on single sentences often translates only the first",
    )
    abbreviations: str = Field(
        "",
        description="words of the input whose full stop does not end a sentence, separated by "
        "spaces; a line is not split after these words",
    )
    truecase: bool = Field(
        False,
        description="restore the usual case of lines ALL IN CAPITALS, in lower case only or In "
        "Title Case before translation, for a model trained on few such lines",
    )
    dotless_i: Literal["source", "target", "both"] | None = Field(
        None,
        description="side in Turkish or Azerbaijani, for truecasing: there I is the capital of ı, "
        "and İ is the capital of i",
    )
    tag: TargetTag | None = Field(
        None,
        description="target tag, such as yor, of lines that have none: what a model of several "
        "languages translates into",
    )
    # A list as in JSON, because settings are compared with saved ones.
    protect: Annotated[tuple[str, ...], PlainSerializer(list)] = Field(
        (), strict=False, description="regular expressions for text that is copied unchanged"
    )
    source_tag: TargetTag | None = Field(
        None,
        description="language of the input, such as eng_Latn, for a model with language symbols on "
        "both sides, such as NLLB: its sources begin with the symbol of this language, and its "
        "targets with that of `tag`",
    )
    batch_tokens: PositiveInt = Field(
        1024, le=10_000_000, description="source tokens per batch, with padding"
    )

    @field_validator("protect")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        if patterns:
            plugins.load_plugin("actions", "protect")(patterns)
        return patterns


class RunDecodingSettings(DecodingSettings):
    """How the model of a run searches, and how its input is prepared."""

    glossary: Annotated[FromHome | None, Scope.EXECUTION] = Field(
        None,
        description="file of terms and their translations (source, tab, target); the model folder "
        "gets a copy",
    )


class SamplingSettings(Settings):
    """Sampling instead of a search for the best translation; options of `mtkit translate`, too."""

    temperature: float = Field(
        1.0,
        ge=MIN_SAMPLING_VALUE,
        le=1e6,
        description="sampling: below 1 favours the probable subwords; 1: as the model predicts",
    )
    top_k: int | None = Field(
        None, ge=1, description="sampling: draw from the k most probable subwords"
    )
    top_p: float | None = Field(
        None,
        ge=MIN_SAMPLING_VALUE,
        le=1,
        description="sampling: draw from the smallest set of subwords whose probabilities sum to p",
    )
    seed: NonNegativeInt = Field(1, description="sampling: random seed (default: 1)")


class ModelConfig(Settings):
    """`config.json` of a model folder: everything needed to build and use the model."""

    model: ModelSettings
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    decoding: DecodingSettings

    @model_validator(mode="before")
    @classmethod
    def _of_earlier_version(cls, values: Any) -> Any:
        """Ignore sinusoidal positions, which earlier versions recorded; refuse learned ones."""
        match values:
            case {"model": {"positions": "learned"}}:
                raise ValueError("learned positions are no longer supported; train another model")
            case {"model": {"positions": "sinusoidal", "max_positions": int(), **settings}}:
                return values | {"model": settings}
        return values
