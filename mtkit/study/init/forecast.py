"""How long a run takes, stage by stage. Pure, and linear in all that there is to do."""

from __future__ import annotations

from dataclasses import astuple, dataclass

from mtkit.config.settings import TokenizerSettings
from mtkit.study.init.facts import Rates

START_SECONDS = 12.0
"""Of what takes as long for any corpus: libraries are loaded, stages opened, scores counted."""
SAMPLE_LINES = TokenizerSettings().sample_lines
"""Number of pairs that a tokenizer is trained on, at most."""
LOSS_SHARE = 0.4
"""Time of a forward pass alone, as a part of that of an update on the same tokens."""
BEAM_COST = 1.7
"""Time of a sentence of the test set, by the engine and the beam of `mtkit translate`, as a
multiple of that of one in validation.
"""
SCORE_SECONDS = 0.001
"""Of a sentence of the test set: four metrics."""


@dataclass(frozen=True)
class Work:
    """What a run consists of."""

    pairs: int = 0
    """Number of pairs that are made ready."""
    tokens: float = 0.0
    """Target tokens that are learnt from, over all passes."""
    validations: int = 0
    valid_tokens: float = 0.0
    """Target tokens of which each validation takes the loss."""
    valid_sentences: int = 0
    """Number of sentences that each validation translates."""
    test_sentences: int = 0


@dataclass(frozen=True)
class Forecast:
    """Seconds of each part."""

    start: float
    preparing: float
    """Tokenizer and batches."""
    training: float
    validations: float
    test: float

    @property
    def total(self) -> float:
        return float(sum(astuple(self)))


def forecast(work: Work, rates: Rates) -> Forecast:
    """The time of each part of `work`."""
    validation = (
        LOSS_SHARE * work.valid_tokens / rates.tokens + work.valid_sentences * rates.sentence
    )
    return Forecast(
        start=START_SECONDS,
        preparing=min(work.pairs, SAMPLE_LINES) * rates.line + work.pairs * rates.pair,
        training=work.tokens / rates.tokens,
        validations=work.validations * validation,
        test=work.test_sentences * (BEAM_COST * rates.sentence + SCORE_SECONDS),
    )
