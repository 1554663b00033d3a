"""What the scores of a test set mean, in words: a table, and a verdict beside two baselines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mtkit.report import table
from mtkit.scoring.comparison import BeforeAndAfter
from mtkit.scoring.metrics import MAIN_METRICS, Score
from mtkit.scoring.quality import PartScores, QualityReport

PART_NAMES = {
    "unlike": "lines unlike the training text",
    "seen": "lines that training has seen",
    "all": "all lines",
    "unseen": "lines that training has not seen",
    "memory": "  by a translation memory",
}
"""The parts of a test set, in the order of the table; `score_parts` says what they are."""
MAX_COPYING_P_VALUE = 0.05
"""Largest p-value of a gain over the copied source that chance alone hardly explains."""
QUALITY_LEVELS = {
    10: "hardly usable",
    20: "the gist at best",
    30: "the gist is clear, but errors are frequent",
    40: "understandable, with errors",
    50: "good",
    101: "very good",
}
"""Quality of translations below each BLEU, after Google's "Interpretation of BLEU scores"."""


def tabulate_quality(report: QualityReport) -> Iterator[str]:
    """Yield the scores, and the scores of the parts."""
    rows = [["", "score [95 % interval]"]]
    for score in report.scores.values():
        rows.append([score.name, str(score)])
    yield from table(rows, left=2)
    if report.tags:
        yield ""
        yield from _tabulate_tags(report)
    if report.parts:
        yield ""
        yield from _tabulate_parts(report)


def _tabulate_tags(report: QualityReport) -> Iterator[str]:
    """Yield the scores of each target tag."""
    metrics = [key for key in MAIN_METRICS if key in report.scores]
    rows = [["target tag", "lines", *(report.scores[key].name for key in metrics)]]
    rows += [_cells(tag, part, metrics) for tag, part in report.tags.items()]
    yield from table(rows)


def _tabulate_parts(report: QualityReport) -> Iterator[str]:
    all_lines = report.parts["all"].scores
    metrics = [key for key in MAIN_METRICS if key in all_lines]
    rows = [["", "lines", *(all_lines[key].name for key in metrics)]]
    for name, label in PART_NAMES.items():
        part = report.parts.get(name)
        if part is not None:  # otherwise it has too few lines
            rows.append(_cells(label, part, metrics))
    yield from table(rows)


def _cells(label: str, part: PartScores, metrics: Sequence[str]) -> list[str]:
    """Return a row of a table: the label, the number of lines, and the scores by the metrics."""
    cells = [label, f"{part.lines:,}"]
    for key in metrics:
        score = part.scores.get(key)
        cells.append("-" if score is None else f"{score.value:.2f}")
    return cells


def describe_quality(report: QualityReport) -> Iterator[str]:
    """Say how much of the test set occurs in the training data, and what the scores mean."""
    if report.overlap:
        yield f"test: {report.overlap}"
    yield f"verdict: {describe_verdict(report)}"
    baseline = describe_baseline(report)
    if baseline is not None:
        yield f"baseline: {baseline}"


def describe_verdict(report: QualityReport) -> str:
    """Say what the score means on lines that training has not seen; if few are left, on all.

    What makes the score worthless comes first.
    """
    score = _judged_score(report)
    unseen = report.parts.get("unseen")
    all_are_seen = unseen is None and "seen" in report.parts
    text = f"{score.name} {score.value:.2f} of 100"
    if unseen is not None:
        text += f" on {PART_NAMES['unseen']}"
    elif all_are_seen:
        text += ", which says nothing about other text: training has seen nearly every line"
    has_levels = _judged_key(report) == "bleu" and score.counts_words
    if has_levels and not all_are_seen:
        text = f"{_name_level(score.value)} (for text like the test set): {text}"
    return "; ".join([*_describe_failures(report), text])


def _describe_failures(report: QualityReport) -> Iterator[str]:
    """Say to which simpler way of translating the model loses."""
    adaptation = report.adaptation
    # Only a gain on the validation set installs an adapted model.
    if adaptation is not None and adaptation.difference < 0:
        yield (
            f"worse than the base model on the test set ({adaptation.difference:+.2f} chrF), but "
            "better on the validation set: the test set probably comes from another domain than "
            "the training data"
        )
    copying = report.copying
    if copying is not None and _loses_to(copying):
        yield (
            f"no better than copying the source, which gives {copying.given.name} "
            f"{copying.given.value:.2f} (the model: {copying.adapted.value:.2f})"
        )


def _loses_to(copying: BeforeAndAfter) -> bool:
    """Return whether a model is not better than the copied source, or perhaps by chance alone."""
    p_value = copying.adapted.p_value  # None: too few lines for a test, or so many that none is due
    may_be_chance = p_value is not None and p_value > MAX_COPYING_P_VALUE
    return copying.difference <= 0 or may_be_chance


def describe_baseline(report: QualityReport) -> str | None:
    """Say what copying the source and what a translation memory gives; None if it is unknown."""
    texts: list[str] = []
    if report.copying is not None and not _loses_to(report.copying):  # else the verdict says it
        copied = report.copying.given
        model = report.copying.adapted
        texts.append(
            f"copying the source gives {copied.name} {copied.value:.2f}, the model "
            f"{model.value:.2f}"
        )
    memory = report.parts.get("memory")
    score = None if memory is None else memory.scores.get(_judged_key(report))
    if score is not None:
        texts.append(_describe_memory(report, score))
    return "; ".join(texts) or None


def _describe_memory(report: QualityReport, memory: Score) -> str:
    sample = ""
    if report.sampled_pairs is not None:
        sample = f" (of {report.sampled_pairs:,}, drawn from all)"
    text = (
        f"copying the target of the most similar training source{sample} gives {memory.name} "
        f"{memory.value:.2f}"
    )
    if memory.value >= _judged_score(report).value:
        text += ", so the model is no better; train longer, or on more pairs"
    return text


def _judged_scores(report: QualityReport) -> Mapping[str, Score]:
    """Return the scores of unseen lines, if there are enough of them."""
    unseen = report.parts.get("unseen")
    return report.scores if unseen is None else unseen.scores


def _judged_key(report: QualityReport) -> str:
    """Return the metric of the verdict: BLEU, unless the lines are too short for it."""
    return "bleu" if "bleu" in _judged_scores(report) else "chrf"


def _judged_score(report: QualityReport) -> Score:
    return _judged_scores(report)[_judged_key(report)]


def _name_level(bleu: float) -> str:
    return next(level for limit, level in QUALITY_LEVELS.items() if bleu < limit)
