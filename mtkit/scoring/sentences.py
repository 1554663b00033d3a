"""Where a system fails: its worst sentences, and its scores by source length."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import repeat

from sacrebleu.metrics.chrf import CHRF

from mtkit.report import warn
from mtkit.scoring.metrics import METRICS, ReferenceTexts, Score, can_resample

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
    """The lines whose source has from `shortest` to `longest` words."""

    shortest: int
    longest: int | None
    """None: no limit."""
    rows: Sequence[int]
    """Its lines, from 0."""

    @property
    def label(self) -> str:
        """The range of lengths, as shown in tables and plots."""
        limit = self.shortest - 1
        return f"over {limit}" if self.longest is None else f"{self.shortest}-{self.longest}"

    def score(
        self, hypotheses: Sequence[str], references: ReferenceTexts, language: str | None
    ) -> dict[str, Score]:
        """Score these lines alone."""
        ours, *right = ([lines[row] for row in self.rows] for lines in (hypotheses, *references))
        interval = can_resample(len(self.rows))
        return {
            key: METRICS[key].compute({"": ours}, right, language, intervals=interval)[""]
            for key in BUCKET_METRICS
        }


def bucket_by_length(sources: Sequence[str]) -> list[Bucket]:
    """Group lines by the number of space-separated source words; empty buckets are left out."""
    words = [len(line.split()) for line in sources]
    if sum(map(len, sources)) > MAX_WORD_CHARACTERS * max(1, sum(words)):
        warn("--by-length counts words between spaces, and the source seems to have few")
    bounds = zip((0, *(limit + 1 for limit in BUCKET_LIMITS)), (*BUCKET_LIMITS, None), strict=True)
    rows: list[list[int]] = [[] for _ in (*BUCKET_LIMITS, None)]
    for row, count in enumerate(words):
        rows[bisect_left(BUCKET_LIMITS, count)].append(row)
    return [
        Bucket(shortest, longest, own)
        for (shortest, longest), own in zip(bounds, rows, strict=True)
        if own
    ]
