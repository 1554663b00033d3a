"""The report on a translated test set: its scores, its overlap with training, and two baselines.

The report is in the manifest of RUN/test. `verdict` says in words what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

from pydantic import AliasChoices, Field, NonNegativeInt

from mtkit.artifacts.records import OMITTED_IF_EMPTY
from mtkit.config.language_codes import find_language
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.corpus.sets import open_set
from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.memory import count_compared, group_by_tag, translate_each_by_memory
from mtkit.scoring.metrics import MIN_RESAMPLED, Score, ScoresByMetric, score_rows
from mtkit.scoring.overlap import Overlap, find_overlap
from mtkit.scoring.score import score_systems
from mtkit.scoring.writing import Writing

OVERLAP: Any = Field(validation_alias=AliasChoices("overlap", "exposure"))
"""Both names of the field in JSON; 0.1.0 wrote the second."""


@dataclass(frozen=True)
class PartScores(ScoresByMetric):
    """The scores of a part of the test set, by metric."""

    lines: NonNegativeInt
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class QualityReport(ScoresByMetric):
    """The scores of a test set, by metric, and what they rest on."""

    scores: Mapping[str, Score]
    overlap: Annotated[str | None, OVERLAP, OMITTED_IF_EMPTY] = None
    """How much of the test set occurs in the training data, in words; None if unknown."""
    parts: Annotated[Mapping[str, PartScores], OMITTED_IF_EMPTY] = field(default_factory=dict)
    """The scores of some lines, as in `score_parts`; empty if the overlap is unknown."""
    sampled_pairs: NonNegativeInt | None = None
    """Number of training pairs that the translation memory knows; None: all."""
    tags: Annotated[Mapping[str, PartScores], OMITTED_IF_EMPTY] = field(default_factory=dict)
    """The scores of the lines with each target tag; empty if the lines have none."""
    copying: Annotated[BeforeAndAfter | None, OMITTED_IF_EMPTY] = None
    """chrF of the copied sources and of the translations, on the lines that the verdict judges.

    None in reports of earlier versions.
    """
    adaptation: Annotated[BeforeAndAfter | None, OMITTED_IF_EMPTY] = None
    """chrF of the base model and of the adapted model; None if the model was not adapted."""


def score_test_set(
    config: Config,
    pairs: Sequence[Pair],
    hypotheses: Sequence[str],
    is_unlike: Sequence[bool],
    base: Sequence[str] | None,
) -> QualityReport:
    """Score the hypotheses of a run's test set, and compare the test set with the training data.

    Of a large training text, the translation memory knows a sample. If the training text is gone,
    only score, and warn. `is_unlike`: whether each line has the flag
    `unlike`. `base`: the translations of the base model, if the model was adapted.
    """
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    language = config.data.target_language
    writing = Writing.of(language, references)
    (system,) = score_systems({"": hypotheses}, [references], writing)
    overlap: Overlap | None = None
    try:
        with open_set(config, "train") as training:
            overlap = find_overlap(pairs, training)
            drawn = training.draw(count_compared(len(sources)), config.seed)
            known = [pair for pair in training.read(drawn) if not pair.blank]
            sampled_pairs = None if len(drawn) == len(training) else len(known)
    except UserError as error:  # `mtkit finish` does not need the training text
        warn(f"{error}; the test set is not compared with the training data")
    every_row = range(len(pairs))
    rows = every_row if overlap is None else _judged_rows(overlap.pairs)
    copying = BeforeAndAfter.of(
        [sources[row] for row in rows],
        [hypotheses[row] for row in rows],
        [references[row] for row in rows],
        language,
    )
    adaptation = None
    if base is not None:
        adaptation = BeforeAndAfter.of(base, hypotheses, references, language)
    tags = score_tags(pairs, hypotheses, language)
    report = QualityReport(system.scores, tags=tags, copying=copying, adaptation=adaptation)
    if overlap is None:
        return report
    parts = score_parts(
        hypotheses,
        references,
        memory=translate_each_by_memory(pairs, known),
        overlaps=overlap.pairs,
        is_unlike=is_unlike,
        writing=writing,
    )
    return replace(report, overlap=str(overlap), parts=parts, sampled_pairs=sampled_pairs)


def _judged_rows(overlaps: Sequence[bool]) -> Sequence[int]:
    """Return the lines that training has not seen; all lines if these are too few."""
    unseen = [row for row, is_seen in enumerate(overlaps) if not is_seen]
    return unseen if len(unseen) >= MIN_RESAMPLED else range(len(overlaps))


def score_tags(
    pairs: Sequence[Pair], hypotheses: Sequence[str], language: str | None
) -> dict[str, PartScores]:
    """Return BLEU and chrF of the lines with each target tag; empty if the lines have none.

    `language`: that of all targets. Without it, a tag that is the code of a language names the
    language of its lines.
    """
    references = [pair.target for pair in pairs]
    tags: dict[str, PartScores] = {}
    for tag, rows in group_by_tag(pairs).items():
        if tag is not None:
            of_tag = [references[row] for row in rows]
            writing = Writing.of(language or find_language(tag), of_tag)
            tags[tag] = PartScores(len(rows), score_rows(rows, hypotheses, [references], writing))
    return tags


def score_parts(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    memory: Sequence[str],
    overlaps: Sequence[bool],
    is_unlike: Sequence[bool],
    writing: Writing,
) -> dict[str, PartScores]:
    """Return BLEU and chrF of each part that has enough lines; `all` always has.

    A line is "seen" if it overlaps with the training data, else "unseen"; it is "unlike" if it has
    this flag. "memory" scores the translations of the memory on the unseen lines, or on all lines
    if few are unseen or none is seen.
    """
    every_row = range(len(references))
    seen = [row for row in every_row if overlaps[row]]
    unseen = [row for row in every_row if not overlaps[row]] if seen else []
    rows_by_part: dict[str, Sequence[int]] = {
        "all": every_row,
        "memory": _judged_rows(overlaps),
        "unlike": [row for row in every_row if is_unlike[row]],
        "seen": seen,
        "unseen": unseen,
    }
    parts = {}
    for name, rows in rows_by_part.items():
        if len(rows) >= MIN_RESAMPLED or name in ("all", "memory"):
            translations = memory if name == "memory" else hypotheses
            scores = score_rows(rows, translations, [references], writing)
            parts[name] = PartScores(len(rows), scores)
    return parts
