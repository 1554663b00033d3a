"""The quality estimator of a model: it gives each line its flags and its confidence.

Confidence is the chrF that a translation probably has, divided by 100: a logistic curve of two
numbers, the mean negative log probability of a subword, and how unusual the length is. The extra
`quality` fits it to the validation set. No weight is negative, so confidence never rises with
either.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, Field, NonNegativeInt, PlainSerializer

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.records import dump_record, load_record
from mtkit.artifacts.storage import read_json, write_json
from mtkit.corpus.statistics import CorpusStatistics
from mtkit.decoding.estimation.bigrams import SeenBigrams
from mtkit.decoding.estimation.facts import TrainingFacts, TranslatedLine
from mtkit.decoding.estimation.flags import find_flags
from mtkit.errors import UserError

ESTIMATION = "estimation.json"
SOURCE_BIGRAMS, TARGET_BIGRAMS = "source.bigrams", "target.bigrams"
"""Files of a model folder."""
CONFIDENCE_DIGITS = 4
"""Decimals of confidence in JSON."""
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


@dataclass(frozen=True)
class Estimate:
    """What can be said of a translation without a reference."""

    flags: tuple[str, ...] = ()
    """Names of FLAGS."""
    confidence: float | None = None
    """Predicted chrF / 100; None if nothing was translated, or the model has no calibration."""
    features: Features | None = None
    """What confidence depends on."""
    length: int = 0
    """Number of characters in the source: the weight of the line in the chrF of its file."""

    def record(self) -> dict[str, Any]:
        """Return the confidence and the flags as JSON."""
        confidence = self.confidence
        if confidence is not None:
            confidence = round(confidence, CONFIDENCE_DIGITS)
        return {"confidence": confidence, "flags": list(self.flags)}


NO_ESTIMATE = Estimate()
"""The estimate of a line without letters to translate."""


@dataclass(frozen=True)
class Estimator:
    """What a model brings along for quality estimation."""

    facts: TrainingFacts | None = None
    """None: flags that compare a line with the training data are never set."""
    calibration: Calibration | None = None
    """None: there is no confidence."""

    @property
    def unreliable_flags(self) -> frozenset[str]:
        """Names of flags that too many of the corpus's own translations would have."""
        return frozenset() if self.facts is None else self.facts.unreliable_flags

    def estimate(self, line: TranslatedLine) -> Estimate:
        """Return flags and confidence of a line; neither of a line without letters to translate."""
        if not line.letters:
            return NO_ESTIMATE
        features = None if self.facts is None else compute_features(line, self.facts.statistics)
        confidence = None
        if self.calibration is not None:
            # Two kinds of line have no features, and cannot be trusted: the vocabulary lacks the
            # script, so the line was copied; or all scores overflowed.
            confidence = 0.0 if features is None else self.calibration.confidence(features)
        return Estimate(find_flags(line, self.facts), confidence, features, len(line.source))

    def save(self, folder: Path) -> None:
        """Write the estimator into the folder of a model; write nothing without facts."""
        if self.facts is None:
            return
        write_json(folder / ESTIMATION, dump_record(_Stored(self.facts, self.calibration)))
        (folder / SOURCE_BIGRAMS).write_bytes(self.facts.source_bigrams.bits)
        (folder / TARGET_BIGRAMS).write_bytes(self.facts.target_bigrams.bits)


def _drop_earlier(calibration: Any) -> Any:
    """Return None for the calibration of version 0.1.0, which had a third feature."""
    match calibration:
        case {"weights": {"unseen_share": _}}:
            return None
    return calibration


@dataclass(frozen=True)
class _Stored:
    """What ESTIMATION holds."""

    facts: TrainingFacts
    """Without the subword pairs, which have files of their own."""
    calibration: Annotated[Calibration | None, BeforeValidator(_drop_earlier)]


WITHOUT_FACTS = Estimator()
"""The estimator of a model that brings nothing along."""


def load_estimator(artifact: Artifact) -> Estimator:
    """Load the estimator of a model; one without facts if the model has none.

    Raises:
        UserError: a file is damaged.
    """
    if ESTIMATION not in artifact.files:
        return WITHOUT_FACTS
    path = artifact.file(ESTIMATION)
    try:
        record = read_json(path)
    except OSError as error:  # somebody deletes the model just now
        raise UserError(f"{path} is damaged ({error}); copy the model again") from None
    stored = load_record(_Stored, record, path)
    facts = replace(
        stored.facts,
        source_bigrams=_load_bigrams(artifact.file(SOURCE_BIGRAMS)),
        target_bigrams=_load_bigrams(artifact.file(TARGET_BIGRAMS)),
    )
    return Estimator(facts, stored.calibration)


def _load_bigrams(path: Path) -> SeenBigrams:
    try:
        return SeenBigrams(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged ({error}); copy the model again") from None
