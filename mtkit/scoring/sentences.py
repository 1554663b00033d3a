"""Where a system fails: its worst sentences, and its scores by source length."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import repeat
from typing import Any

from sacrebleu.metrics.chrf import CHRF

from mtkit.report import warn
from mtkit.scoring.metrics import METRICS, ReferenceTexts, Score, resampling_obstacle

BUCKET_LIMITS = (5, 10, 15, 20, 25, 30, 40, 60)
"""Most source words in each bucket; a last bucket holds all longer sources."""
BUCKET_METRICS = ("bleu", "chrf")
MAX_WORD_CHARACTERS = 20
"""Mean length of a word above which the script seems to have no spaces."""


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence with its sentence-level chrF2."""

    line: int
    """Line number, from 1."""
    chrf: float
    source: str | None
    references: Sequence[str]
    hypothesis: str


def worst_sentences(
    hypotheses: Sequence[str], references: ReferenceTexts, sources: Sequence[str], count: int
) -> list[ScoredSentence]:
    """Return the sentences of lowest chrF2, lowest first; `sources` may be empty."""
    chrf = CHRF()
    rows = zip(hypotheses, sources or repeat(None, len(hypotheses)), *references, strict=True)
    scored = (
        ScoredSentence(line, chrf.sentence_score(ours, right).score, source, right, ours)
        for line, (ours, source, *right) in enumerate(rows, start=1)
    )
    return nsmallest(count, scored, key=lambda sentence: sentence.chrf)


@dataclass(frozen=True)
class Bucket:
    """The lines whose source has from `shortest` to `longest` (None: any number of) words."""

    shortest: int
    longest: int | None
    rows: Sequence[int]
    """Its lines, from 0."""
    scores: Mapping[str, Score] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The range of lengths, for tables and plots."""
        is_last = self.longest is None
        return f"over {self.shortest - 1}" if is_last else f"{self.shortest}-{self.longest}"

    def scored(
        self, hypotheses: Sequence[str], references: ReferenceTexts, language: str | None
    ) -> Bucket:
        """Return the bucket with the scores of its lines alone."""
        ours, *right = ([lines[row] for row in self.rows] for lines in (hypotheses, *references))
        intervals = resampling_obstacle(len(self.rows)) is None
        scores = {
            key: METRICS[key].compute({"": ours}, right, language, intervals=intervals)[""]
            for key in BUCKET_METRICS
        }
        return replace(self, scores=scores)

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        scores = {key: score.record() for key, score in self.scores.items()}
        return {"words": [self.shortest, self.longest], "lines": len(self.rows), **scores}


def bucket_by_length(sources: Sequence[str]) -> list[Bucket]:
    """Group lines by the number of space-separated source words; empty buckets are left out."""
    words = [len(line.split()) for line in sources]
    if sum(map(len, sources)) > MAX_WORD_CHARACTERS * max(1, sum(words)):
        warn("--by-length counts words between spaces, and the source seems to have few")
    rows: dict[int, list[int]] = defaultdict(list)
    for row, count in enumerate(words):
        rows[bisect_left(BUCKET_LIMITS, count)].append(row)
    limits = (-1, *BUCKET_LIMITS, None)
    return [Bucket((limits[i] or 0) + 1, limits[i + 1], rows[i]) for i in sorted(rows)]
