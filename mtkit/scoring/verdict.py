"""What the scores of a test set mean: scores of its parts, and a verdict in words.

The functions read the report in the manifest of RUN/test: scores by metric, "parts" with their
scores, and "exposure". Earlier versions wrote only the scores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mtkit.report import table
from mtkit.scoring.metrics import MAIN_METRICS, METRICS, MIN_RESAMPLED, Score, score_rows
from mtkit.scoring.writing import Writing

PART_NAMES = {
    "far": "lines unlike any training source",
    "seen": "lines that training has seen",
    "all": "all lines",
    "unseen": "lines that training has not seen",
    "memory": "  by a translation memory",
}
"""The parts of a test set. A line is seen if its source or target occurs in the training data.

The translation memory translates the unseen lines, or all lines if few are unseen or none is seen.
"""
MIN_SIMILARITY = 0.5
"""Lines are unlike the training data if their nearest training source is less similar than this."""
QUALITY_LEVELS = {
    10: "hardly usable",
    20: "the gist at best",
    30: "the gist is clear, but errors are frequent",
    40: "understandable, with errors",
    50: "good",
    101: "very good",
}
"""Quality of translations below each BLEU, after Google's "Interpretation of BLEU scores"."""


def score_parts(
    hypotheses: Sequence[str],
    memory: Sequence[str],
    references: Sequence[str],
    similarity: Sequence[float],
    is_seen: Sequence[bool],
    writing: Writing,
) -> dict[str, dict[str, Any]]:
    """Return BLEU and chrF of each part that has enough lines.

    `memory`: each line as a translation memory translates it; `similarity`: how similar its source
    is to the nearest training source.
    """
    every = range(len(references))
    unseen = [row for row in every if not is_seen[row] and any(is_seen)]
    rows = {
        "all": every,
        "memory": unseen if len(unseen) >= MIN_RESAMPLED else every,
        "far": [row for row in every if similarity[row] < MIN_SIMILARITY],
        "seen": [row for row in every if is_seen[row]],
        "unseen": unseen,
    }
    parts = {}
    for name, chosen in rows.items():
        if len(chosen) >= MIN_RESAMPLED or chosen is every:
            translations = memory if name == "memory" else hypotheses
            scores = score_rows(chosen, translations, [references], writing)
            parts[name] = {"lines": len(chosen)} | {k: it.record() for k, it in scores.items()}
    return parts


def scores_of(report: Mapping[str, Any]) -> dict[str, Score]:
    """Return the scores of the whole test set, by metric."""
    return {key: Score.from_record(report[key]) for key in METRICS if key in report}


def scores_table(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the scores, their signatures, and the scores of the parts."""
    scores, parts = scores_of(report).values(), report.get("parts", {})
    rows = [["", "score [95 % interval]"], *([it.name, str(it)] for it in scores)]
    yield from table(rows, left=2)
    yield ""
    yield from (f"{it.name}  {it.signature}" for it in scores)
    if parts:
        names = {key: parts["all"][key]["name"] for key in MAIN_METRICS if key in parts["all"]}
        rows = [["", "lines", *names.values()]]
        for part in [it for it in PART_NAMES if it in parts]:
            cells = (f"{parts[part][k]['score']:.2f}" if k in parts[part] else "-" for k in names)
            rows.append([PART_NAMES[part], f"{parts[part]['lines']:,}", *cells])
        yield ""
        yield from table(rows)


def verdict(report: Mapping[str, Any]) -> Iterator[str]:
    """Say how much of the test set occurs in the training data, and what the scores mean."""
    if exposure := report.get("exposure"):
        yield f"test: {exposure}"
    parts = report.get("parts", {})
    judged = parts.get("unseen", report)
    key = "bleu" if "bleu" in judged else "chrf"
    name, value = judged[key]["name"], judged[key]["score"]
    text = f"{name} {value:.2f} of 100"
    if "unseen" in parts:
        text += f" on {PART_NAMES['unseen']}"
    elif "seen" in parts:
        text += ", which says nothing about other text: training has seen nearly every line"
    if key == "bleu" and "(char)" not in name and ("seen" not in parts or "unseen" in parts):
        level = next(words for limit, words in QUALITY_LEVELS.items() if value < limit)
        text = f"{level} (for text like the test set): {text}"
    yield f"verdict: {text}"
    if "memory" in parts:
        baseline = parts["memory"][key]["score"]
        text = f"copying the target of the most similar training source gives {baseline:.2f}"
        if baseline >= value:
            text += ", so the model is no better; train longer, or on more pairs"
        yield f"baseline: {text}"
