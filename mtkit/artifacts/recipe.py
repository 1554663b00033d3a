"""What each stage's artifact is known by: the settings that it depends on, and no others.

Identities of the inputs stand beside the recipe in a manifest. Both are hashed, without the
settings that have their defaults: what a later mtkit adds, with a default, changes no hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt, ValidationError, field_validator

from mtkit.artifacts.manifest import Kind
from mtkit.config.base import Settings
from mtkit.config.batching import Filtering
from mtkit.config.decoding import DecodingSettings
from mtkit.config.model import ModelSettings
from mtkit.config.settings import Config, Course, Ending, Extent, TokenizerSettings


class TokenizerRecipe(TokenizerSettings):
    """All that a tokenizer depends on, but for the corpus."""

    seed: NonNegativeInt

    @classmethod
    def of(cls, config: Config) -> TokenizerRecipe:
        return config.tokenizer.part(cls, seed=config.seed)


class BatchesRecipe(Filtering):
    """All that stored batches depend on, but for the corpora and the tokenizer."""

    weights: list[PositiveFloat]

    @classmethod
    def of(cls, config: Config) -> BatchesRecipe:
        weights = [corpus.weight for corpus in config.data.corpora("train").values()]
        return config.batching.part(cls, weights=weights)


class ModelRecipe(Settings):
    """All that a trained model depends on, but for the tokenizer and the batches."""

    seed: NonNegativeInt
    max_tokens: PositiveInt | Literal["auto"]
    model: ModelSettings
    training: Course
    decoding: DecodingSettings = DecodingSettings()
    ended: PositiveInt | None = None
    """The update after which the run was ended, where it was not by its settings."""

    @classmethod
    def of(cls, config: Config) -> ModelRecipe:
        max_tokens = config.batching.max_tokens
        return config.part(cls, training=config.training.part(Course), max_tokens=max_tokens)


class CheckpointRecipe(ModelRecipe):
    """The recipe of a run until it ends: it may go on for longer, and end and decode otherwise.

    A run whose schedule depends on its length cannot change its length.
    """

    @field_validator("training")
    @classmethod
    def _open_end(cls, training: Course) -> Course:
        free = dict(Ending()) | ({} if training.schedule.depends_on_length else dict(Extent()))
        return training.model_copy(update=free)

    @field_validator("decoding")
    @classmethod
    def _open_decoding(cls, decoding: DecodingSettings) -> DecodingSettings:
        return DecodingSettings()


class TestRecipe(Settings):
    """All that a translated and scored test set depends on, but for the model and the corpus."""

    decoding: DecodingSettings
    target_language: str | None = None

    @classmethod
    def of(cls, config: Config) -> TestRecipe:
        return config.part(cls, target_language=config.data.target_language)


RECIPES: Mapping[Kind, type[Settings]] = {
    "tokenizer": TokenizerRecipe,
    "batches": BatchesRecipe,
    "checkpoint": CheckpointRecipe,
    "model": ModelRecipe,
    "test": TestRecipe,
}


def resolved(kind: Kind, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """Settings of a manifest with their defaults; unchanged where no stage of mtkit wrote them."""
    try:
        return RECIPES[kind].model_validate(settings).model_dump()
    except (KeyError, ValidationError):
        return settings
