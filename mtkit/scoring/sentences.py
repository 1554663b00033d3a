"""Where a system fails worst: sentences by their own chrF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import repeat

from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Sentence:
    line: int
    """Number of the line, counted from 1."""
    chrf: float
    source: str | None
    reference: str
    hypothesis: str


def worst_sentences(
    hypotheses: Sequence[str],
    references: Sequence[str],
    sources: Sequence[str],
    count: int,
) -> list[Sentence]:
    """Those of the lowest sentence-level chrF2, lowest first; `sources` may be empty."""
    chrf = CHRF()
    rows = zip(hypotheses, references, sources or repeat(None, len(references)), strict=True)
    every = (
        Sentence(
            line, chrf.sentence_score(hypothesis, [reference]).score, source, reference, hypothesis
        )
        for line, (hypothesis, reference, source) in enumerate(rows, start=1)
    )
    return nsmallest(count, every, key=lambda sentence: sentence.chrf)
