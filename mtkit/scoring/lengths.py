"""Scores by the length of the source."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from mtkit.scoring.metrics import ReferenceTexts, Score, resampling_obstacle, score_rows
from mtkit.scoring.writing import Writing

BUCKET_LIMITS = (5, 10, 15, 20, 25, 30, 40, 60)
"""Most source words (or twice as many characters) in each bucket; a last one holds the rest."""


@dataclass(frozen=True)
class Bucket:
    """The lines, from 0, whose source has `shortest` to `longest` (None: any number of) units."""

    unit: Literal["words", "characters"]
    shortest: int
    longest: int | None
    rows: Sequence[int]
    scores: Mapping[str, Score] = field(default_factory=dict)
    """Scores by metric; without BLEU if no reference has four words."""

    @property
    def label(self) -> str:
        is_last = self.longest is None
        return f"over {self.shortest - 1}" if is_last else f"{self.shortest}-{self.longest}"

    def scored(
        self, hypotheses: Sequence[str], references: ReferenceTexts, writing: Writing
    ) -> Bucket:
        """Return the bucket with the scores of its lines alone."""
        intervals = resampling_obstacle(len(self.rows)) is None
        scores = score_rows(self.rows, hypotheses, references, writing, intervals=intervals)
        return replace(self, scores=scores)

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        scores = {key: score.record() for key, score in self.scores.items()}
        return {self.unit: [self.shortest, self.longest], "lines": len(self.rows), **scores}


def bucket_by_length(sources: Sequence[str]) -> list[Bucket]:
    """Group lines by the words of the source; empty buckets are left out.

    Characters count if the script of the sources puts no spaces between words.
    """
    has_words = Writing.of(None, sources).has_words
    lengths = [len(line.split()) if has_words else len("".join(line.split())) for line in sources]
    limits = [limit if has_words else 2 * limit for limit in BUCKET_LIMITS]
    rows: dict[int, list[int]] = defaultdict(list)
    for row, length in enumerate(lengths):
        rows[bisect_left(limits, length)].append(row)
    bounds = [-1, *limits, None]
    unit: Literal["words", "characters"] = "words" if has_words else "characters"
    return [Bucket(unit, (bounds[i] or 0) + 1, bounds[i + 1], rows[i]) for i in sorted(rows)]
