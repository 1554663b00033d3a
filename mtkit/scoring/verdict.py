"""What the scores of a test set mean: scores of its parts, and a verdict in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mtkit.report import table
from mtkit.scoring.metrics import METRICS, MIN_RESAMPLED, Score, compute_scores
from mtkit.scoring.writing import Writing

PART_METRICS = ("bleu", "chrf")
PART_NAMES = {
    "all": "all lines",
    "memory": "all lines, by a translation memory",
    "far": "lines unlike any training source",
    "seen": "lines that training has seen",
    "unseen": "lines that training has not seen",
}
"""The parts of a test set; training has seen a line if its source or its target occurs in it."""
MIN_SIMILARITY = 0.5
"""Similarity to the nearest training source below which a line is unlike the training data."""
QUALITY_LEVELS = {
    10: "hardly usable",
    20: "the gist at best",
    30: "the gist is clear, but errors are frequent",
    40: "understandable, with errors",
    50: "good",
    101: "very good",
}
"""What translations with less BLEU are like, after Google's "Interpretation of BLEU scores"."""


@dataclass(frozen=True)
class Part:
    """A part of a test set, with its scores by metric."""

    lines: int
    scores: Mapping[str, Score]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Part:
        """Return the part that `score_parts` has made JSON of."""
        scores = {key: Score.from_record(record[key]) for key in PART_METRICS if key in record}
        return cls(int(record["lines"]), scores)


def divide_test(similarity: Sequence[float], is_seen: Sequence[bool]) -> dict[str, list[int]]:
    """Return the rows of each part: by similarity to the training data, and by what it holds."""
    rows = range(len(is_seen))
    return {
        "all": [*rows],
        "memory": [*rows],
        "far": [row for row in rows if similarity[row] < MIN_SIMILARITY],
        "seen": [row for row in rows if is_seen[row]],
        "unseen": [row for row in rows if not is_seen[row] and any(is_seen)],
    }


def score_parts(
    hypotheses: Sequence[str],
    memory: Sequence[str],
    references: Sequence[str],
    parts: Mapping[str, Sequence[int]],
    writing: Writing,
) -> dict[str, dict[str, Any]]:
    """Return BLEU and chrF of each part that has enough lines, as JSON.

    `memory` holds what a translation memory gives, and `parts` the rows of each part.
    """
    records = {}
    for name, rows in parts.items():
        if len(rows) >= MIN_RESAMPLED or name in ("all", "memory"):
            lines = memory if name == "memory" else hypotheses
            ours, right = ([of[row] for row in rows] for of in (lines, references))
            scores = compute_scores({"": ours}, [right], writing, keys=PART_METRICS)[""]
            records[name] = {"lines": len(rows)} | {k: it.record() for k, it in scores.items()}
    return records


@dataclass(frozen=True)
class ScoredTest:
    """The scores of a test set, by metric, and those of its parts."""

    scores: dict[str, Score]
    parts: dict[str, Part] = field(default_factory=dict)
    exposure: str = ""
    """How many sources and targets occur in the training data, in words."""

    @classmethod
    def from_report(cls, report: Mapping[str, Any]) -> ScoredTest:
        """Return what the manifest of RUN/test reports; parts may be missing."""
        scores = {key: Score.from_record(report[key]) for key in METRICS if key in report}
        parts = {name: Part.from_record(it) for name, it in report.get("parts", {}).items()}
        return cls(scores, parts, report.get("exposure", ""))

    def table(self) -> Iterator[str]:
        """Yield the scores, their signatures, and the scores of the parts."""
        rows = [["", "score [95 % interval]"], *([it.name, str(it)] for it in self.scores.values())]
        yield from table(rows, left=2)
        yield ""
        yield from (f"{it.name}  {it.signature}" for it in self.scores.values())
        if self.parts:
            names = {key: it.name for key, it in self.parts["all"].scores.items()}
            rows = [["", "lines", *names.values()]]
            for name in [it for it in PART_NAMES if it in self.parts]:
                part = self.parts[name]
                scores = (part.scores.get(key) for key in names)
                cells = ["-" if it is None else f"{it.value:.2f}" for it in scores]
                rows.append([PART_NAMES[name], f"{part.lines:,}", *cells])
            yield ""
            yield from table(rows)

    def verdict(self) -> Iterator[str]:
        """Yield what the scores mean, and how much of the test set training has seen."""
        if self.exposure:
            yield f"test: {self.exposure}"
        has_unseen = "unseen" in self.parts
        scores = self.parts["unseen"].scores if has_unseen else self.scores
        key = "bleu" if "bleu" in scores else "chrf"
        text = f"{scores[key].name} {scores[key].value:.2f} of 100"
        if has_unseen:
            text += f" on {PART_NAMES['unseen']}"
        if "seen" in self.parts and not has_unseen:
            text += ", which says nothing about other text, as training has seen nearly all lines"
        elif key == "bleu" and not scores[key].name.endswith("(char)"):
            level = next(
                words for limit, words in QUALITY_LEVELS.items() if scores[key].value < limit
            )
            text = f"{level} (for text like the test set): {text}"
        yield f"verdict: {text}"
        if memory := self.parts.get("memory"):
            value, ours = memory.scores[key].value, self.scores[key].value
            text = f"copying the target of the most similar training source gives {value:.2f}"
            if value >= ours:
                text += ", so the model is no better: train longer, or on more pairs"
            yield f"baseline: {text}"
