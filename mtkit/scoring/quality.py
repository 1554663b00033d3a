"""The report on a translated test set: its scores, its overlap with training, and a baseline.

The report is in the manifest of RUN/test. `verdict` says in words what it means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtkit.config.language_codes import standard_language
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair, read_pairs
from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.scoring.memory import (
    MemoryTranslations,
    SpreadSample,
    group_by_tag,
    translate_each_by_memory,
)
from mtkit.scoring.metrics import METRICS, MIN_RESAMPLED, Score, score_rows
from mtkit.scoring.overlap import find_overlap
from mtkit.scoring.score import score_systems
from mtkit.scoring.writing import Writing

MIN_SIMILARITY = 0.5
"""Lines are unlike the training data if their nearest training source is less similar than this."""


@dataclass(frozen=True)
class PartScores:
    """The scores of a part of the test set, by metric."""

    lines: int
    scores: Mapping[str, Score]

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        return {"lines": self.lines, **_record_scores(self.scores)}

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> PartScores:
        """Restore the scores from the JSON of `record`."""
        return cls(int(record["lines"]), _restore_scores(record))


@dataclass(frozen=True)
class QualityReport:
    """The scores of a test set, by metric, and what they rest on."""

    scores: Mapping[str, Score]
    overlap: str | None = None
    """How much of the test set occurs in the training data, in words; None if unknown."""
    parts: Mapping[str, PartScores] = field(default_factory=dict)
    """The scores of some lines, as in `score_parts`; empty if the overlap is unknown."""
    sampled_pairs: int | None = None
    """Number of training pairs that the translation memory knows; None: all."""
    tags: Mapping[str, PartScores] = field(default_factory=dict)
    """The scores of the lines with each target tag; empty if the lines have none."""

    def record(self) -> dict[str, Any]:
        """Return the report as JSON."""
        record: dict[str, Any] = _record_scores(self.scores)
        if self.overlap is not None:
            record["overlap"] = self.overlap
            record["parts"] = {name: part.record() for name, part in self.parts.items()}
            record["sampled_pairs"] = self.sampled_pairs
        if self.tags:
            record["tags"] = {tag: part.record() for tag, part in self.tags.items()}
        return record

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> QualityReport:
        """Restore the report from the JSON of `record`.

        Raises:
            KeyError, TypeError, ValueError: the record is damaged.
        """
        parts = record.get("parts", {})
        return cls(
            scores=_restore_scores(record),
            overlap=record.get("overlap") or record.get("exposure"),  # the name in 0.1.0
            parts={name: PartScores.from_record(part) for name, part in parts.items()},
            sampled_pairs=record.get("sampled_pairs"),
            tags={
                tag: PartScores.from_record(part) for tag, part in record.get("tags", {}).items()
            },
        )


def _record_scores(scores: Mapping[str, Score]) -> dict[str, Any]:
    return {key: score.record() for key, score in scores.items()}


def _restore_scores(record: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores of a record, in the order of METRICS."""
    return {key: Score.from_record(record[key]) for key in METRICS if key in record}


def score_test_set(
    config: Config, pairs: Sequence[Pair], hypotheses: Sequence[str]
) -> QualityReport:
    """Score the hypotheses of a run's test set, and compare the test set with the training data.

    The training text is read once. Of a large one, the translation memory knows a sample. If the
    training text is gone, only score, and warn.
    """
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    writing = Writing.of(config.data.target_language, references)
    (system,) = score_systems({"": hypotheses}, [references], writing)
    tags = score_tags(pairs, hypotheses, config.data.target_language)
    sample = SpreadSample.for_sentences(len(sources))
    try:
        overlap = find_overlap(pairs, sample.draw_from(read_pairs(config.data.train)))
    except UserError as error:  # `mtkit finish` does not need the training text
        warn(f"{error}; the test set is not compared with the training data")
        return QualityReport(system.scores, tags=tags)
    parts = score_parts(
        hypotheses,
        references,
        memory=translate_each_by_memory(pairs, sample.pairs),
        overlaps=overlap.pairs,
        writing=writing,
    )
    sampled_pairs = None
    if not sample.is_complete:
        sampled_pairs = len(sample.pairs)
        # A sample does not tell that a line is unlike all training sources.
        parts.pop("far", None)
    return QualityReport(system.scores, str(overlap), parts, sampled_pairs, tags)


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
            writing = Writing.of(language or _language_of_tag(tag), of_tag)
            tags[tag] = PartScores(len(rows), score_rows(rows, hypotheses, [references], writing))
    return tags


def _language_of_tag(tag: str) -> str | None:
    """Return the language of which the tag is the code; None if it is the code of none."""
    try:
        return standard_language(tag)
    except ValueError:
        return None


def score_parts(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    memory: MemoryTranslations,
    overlaps: Sequence[bool],
    writing: Writing,
) -> dict[str, PartScores]:
    """Return BLEU and chrF of each part that has enough lines; `all` always has.

    A line is "seen" if it overlaps with the training data, else "unseen"; it is "far" if the memory
    knows no similar source. "memory" scores the translation memory on the unseen lines, or on all
    lines if few are unseen or none is seen.
    """
    every_row = range(len(references))
    seen = [row for row in every_row if overlaps[row]]
    unseen = [row for row in every_row if not overlaps[row]] if seen else []
    rows_by_part: dict[str, Sequence[int]] = {
        "all": every_row,
        "memory": unseen if len(unseen) >= MIN_RESAMPLED else every_row,
        "far": [row for row in every_row if memory.similarity[row] < MIN_SIMILARITY],
        "seen": seen,
        "unseen": unseen,
    }
    parts = {}
    for name, rows in rows_by_part.items():
        if len(rows) >= MIN_RESAMPLED or rows is every_row:
            translations = memory.targets if name == "memory" else hypotheses
            scores = score_rows(rows, translations, [references], writing)
            parts[name] = PartScores(len(rows), scores)
    return parts
