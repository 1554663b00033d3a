"""Which pairs are kept, and how they become batches."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, NonNegativeInt, PositiveInt, field_validator

from mtkit.config.base import Scope, Settings

DropRule = Literal[
    "uneven",
    "glued",
    "numbers",
    "letters",
    "markup",
    "mojibake",
    "script",
    "language",
    "repetition",
    "copied",
    "overlap",
]
"""Names of the rules in `corpus/rules.py`."""
DROP_RULES: tuple[DropRule, ...] = get_args(DropRule)


class BatchingSettings(Settings):
    """Which pairs are kept, and how they become batches."""

    max_length: int = Field(256, ge=2, le=65_534, description="subwords; longer pairs are dropped")
    max_ratio: float | None = Field(None, gt=1, description="longer / shorter side, in subwords")
    deduplicate: bool = Field(False, description="keep the first of equal pairs")
    drop: list[DropRule] = Field(
        [], description="rules of `mtkit check` whose training pairs are dropped"
    )
    max_tokens: Annotated[
        Annotated[PositiveInt, Field(le=10**9)] | Literal["auto"], Scope.TRAINING
    ] = Field(
        4096, description="padded tokens of a batch, the longer side; auto: what memory holds"
    )
    workers: Annotated[NonNegativeInt, Scope.EXECUTION] = Field(
        0, description="threads that encode; 0: one per core"
    )

    @field_validator("drop")
    @classmethod
    def _in_one_order(cls, rules: list[DropRule]) -> list[DropRule]:
        """Order the rules, without repetition."""
        return [rule for rule in DROP_RULES if rule in rules]
