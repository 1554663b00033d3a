"""Confidence: the chrF that a translation probably has, divided by 100.

A logistic curve of two numbers: the mean negative log probability of a subword, and how unusual the
length is. The extra `quality` fits it to the validation set. No weight is negative, so
confidence never rises with either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from pydantic import Field, NonNegativeInt, PlainSerializer

from mtkit.corpus.statistics import CorpusStatistics
from mtkit.decoding.estimation.translated import TranslatedLine

MAX_LENGTH_DEVIATION = 20.0
"""Largest deviation of a length; larger ones count as this one."""
Positive = Annotated[float, Field(ge=0, le=1e6)]
"""A number that no calibration exceeds."""


class Features(NamedTuple):
    """What confidence depends on; the larger, the lower."""

    surprise: Positive
    """-log P of the translation (EOS included) per target subword (EOS excluded), in nats."""
    length_deviation: Positive
    """Standard deviations between the length ratio and the usual one."""


def compute_features(line: TranslatedLine, statistics: CorpusStatistics) -> Features | None:
    """Return the features of a line; None if it was not translated, or its score is unknown."""
    if line.is_copied or line.log_probability is None:
        return None
    tokens = sum(map(len, line.target_parts))
    deviation = statistics.length_deviation(len(line.source), len(line.text))
    return Features(
        surprise=-line.log_probability / max(tokens, 1),
        length_deviation=min(deviation, MAX_LENGTH_DEVIATION),
    )


@dataclass(frozen=True)
class Calibration:
    """Confidence as a function of the features, fitted to translations with references."""

    intercept: Annotated[float, Field(ge=-1e6, le=1e6)]
    weights: Annotated[Features, PlainSerializer(Features._asdict)]
    """How much each feature lowers the logit of confidence; at least 0."""
    residual: Positive = 0.0
    """Standard deviation of chrF / 100 of a line from its confidence."""
    offset: Annotated[float, Field(ge=-1, le=1)] = 0.0
    """chrF / 100 of all lines together, minus their mean confidence (weighted by length)."""
    offset_error: Positive = 0.0
    """Standard error of the offset."""
    chrf: Positive = 0.0
    """chrF / 100 of all lines together."""
    lines: NonNegativeInt = 0
    """Number of lines that were fitted."""

    def confidence(self, features: Features) -> float:
        """Return the confidence of a line, from 0 to 1."""
        pairs = zip(self.weights, features, strict=True)
        logit = self.intercept - sum(weight * feature for weight, feature in pairs)
        return 1 / (1 + math.exp(min(-logit, 700.0)))  # exp overflows beyond 709
