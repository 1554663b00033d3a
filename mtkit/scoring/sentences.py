"""Where a system fails worst: sentences by their own chrF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics.chrf import CHRF


@dataclass(frozen=True)
class Sentence:
    line: int
    """Counted from 1."""
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
    every = [
        Sentence(
            number,
            chrf.sentence_score(hypothesis, [reference]).score,
            sources[number - 1] if sources else None,
            reference,
            hypothesis,
        )
        for number, (hypothesis, reference) in enumerate(
            zip(hypotheses, references, strict=True), start=1
        )
    ]
    return sorted(every, key=lambda sentence: sentence.chrf)[:count]
