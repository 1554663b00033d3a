"""Where a system fails: its worst sentences, and its scores by the length of the source."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sacrebleu.metrics.chrf import CHRF

from mtkit.report import warn
from mtkit.scoring.metrics import METRICS, Language, Lines, References, Score, can_resample
from mtkit.study.plots.picture import figure, legend, save

EDGES = (5, 10, 15, 20, 25, 30, 40, 60)
"""Words of the source that a bucket goes up to; one more bucket has all that is longer."""
COUNTED = ("bleu", "chrf")
"""Metrics that each bucket is scored by."""
MOST_MEAN_CHARACTERS = 20
"""Characters of a word in the mean, above which the script seems to write no blanks."""


@dataclass(frozen=True)
class Sentence:
    line: int
    """Number of the line, counted from 1."""
    chrf: float
    source: str | None
    references: Sequence[str]
    hypothesis: str


def worst_sentences(
    hypotheses: Lines, references: References, sources: Lines, count: int
) -> list[Sentence]:
    """Those of the lowest sentence-level chrF2, lowest first; `sources` may be empty."""
    chrf = CHRF()
    blank = repeat(None, len(hypotheses))
    rows = zip(hypotheses, sources or blank, *references, strict=True)
    every = (
        Sentence(line, chrf.sentence_score(ours, right).score, source, right, ours)
        for line, (ours, source, *right) in enumerate(rows, start=1)
    )
    return nsmallest(count, every, key=lambda sentence: sentence.chrf)


class Bucket(NamedTuple):
    shortest: int
    """Number of words that a source has at least."""
    longest: int | None
    """Number of words that a source has at most; None: there is no limit."""
    rows: Sequence[int]
    """Lines that it holds, counted from 0."""

    @property
    def label(self) -> str:
        return f"over {EDGES[-1]}" if self.longest is None else f"{self.shortest}-{self.longest}"

    def score(
        self, hypotheses: Lines, references: References, language: Language
    ) -> dict[str, Score]:
        """BLEU and chrF2 of these lines."""
        ours, *right = ([lines[row] for row in self.rows] for lines in (hypotheses, *references))
        interval = can_resample(len(self.rows))
        return {
            key: METRICS[key].compute(ours, right, language, interval=interval) for key in COUNTED
        }


def buckets_of(sources: Sequence[str]) -> list[Bucket]:
    """The buckets that hold a line, shortest first; words are what blanks separate."""
    words = [len(line.split()) for line in sources]
    if sum(map(len, sources)) > MOST_MEAN_CHARACTERS * max(1, sum(words)):
        warn("--by-length: counts words between blanks, of which the source seems to have few")
    bounds = [*zip((0, *(edge + 1 for edge in EDGES)), (*EDGES, None), strict=True)]
    rows: list[list[int]] = [[] for _ in bounds]
    for row, count in enumerate(words):
        rows[bisect_left(EDGES, count)].append(row)
    return [Bucket(*bound, held) for bound, held in zip(bounds, rows, strict=True) if held]


def plot_buckets(
    buckets: Sequence[Bucket], systems: Mapping[str, Sequence[Mapping[str, Score]]], path: Path
) -> None:
    """A panel per metric, a line per system with its intervals, and how many lines each has.

    `systems`: scores for each bucket, by the name of the system.
    """
    counted = [f"{bucket.label}\n{len(bucket.rows):,}" for bucket in buckets]
    drawn, panels = figure(width=5 * len(COUNTED), height=4, columns=len(COUNTED))
    for key, panel in zip(COUNTED, panels, strict=True):
        for place, (name, of_system) in enumerate(systems.items()):
            scores = [of_bucket[key] for of_bucket in of_system]
            values = np.array([score.value for score in scores])
            lows, highs = np.array([score.interval or [score.value] * 2 for score in scores]).T
            beside = 0.08 * (place - (len(systems) - 1) / 2)  # so that no bar hides another
            # An interval may lie above its score, or below it.
            reach = np.maximum(0, [values - lows, highs - values])
            panel.errorbar(np.arange(len(scores)) + beside, values, reach, fmt="o-", label=name)
            panel.set_ylabel(scores[0].name)
        panel.set_xticks(range(len(buckets)), counted)
        panel.set_xlabel("words of the source, and lines of that length")
        panel.set_ylim(bottom=0)
    legend(drawn, panels[0])
    save(drawn, path)
