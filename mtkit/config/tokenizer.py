"""Settings of the tokenizer."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, PositiveInt, model_validator

from mtkit.config.base import FromHome, Settings


class TokenizerSettings(Settings):
    """How SentencePiece is trained."""

    type: Literal["bpe", "unigram", "char"] = Field("bpe", description="kind of subwords")
    vocab_size: int = Field(8000, ge=8, le=1_000_000, description="number of subwords")
    joint: bool = Field(True, description="one vocabulary for both sides")
    model: FromHome | Annotated[list[FromHome], Field(min_length=2, max_length=2)] | None = Field(
        None,
        description="existing SentencePiece model to use instead of training one, or a list of a "
        "source and a target model if not joint; then no setting but `joint` matters",
    )
    normalization: Literal["identity", "nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf"] = Field(
        "identity", description="SentencePiece's rewriting of both sides; identity: none"
    )
    byte_fallback: bool = Field(True, description="unseen characters become bytes, never <unk>")
    character_coverage: float = Field(
        0.9995, ge=0.98, le=1, description="share of the characters of the text to include"
    )
    sample_lines: PositiveInt = Field(2_000_000, description="lines per side to train on, at most")

    @model_validator(mode="after")
    def _check(self) -> TokenizerSettings:
        if self.model is not None and self.joint == isinstance(self.model, list):
            raise ValueError("a joint tokenizer has one model; with 'joint: false', list two")
        return self
