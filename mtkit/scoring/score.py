"""`mtkit score`: score one or more systems against references; print a table or JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from pathlib import Path
from typing import Annotated, cast

from pydantic import Field
from sacrebleu.metrics.bleu import BLEU

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.records import OMITTED_IF_EMPTY
from mtkit.artifacts.runs import config_of
from mtkit.errors import UserError
from mtkit.plugins import load_plugin
from mtkit.report import header, plural, printable, say, table, warn, wrap
from mtkit.scoring import metrics
from mtkit.scoring.line_files import TextsToScore, read_texts
from mtkit.scoring.metrics import (
    MAIN_METRICS,
    ReferenceTexts,
    Score,
    ScoresByMetric,
    score_rows,
    sentence_chrf,
    without_blanks,
)
from mtkit.scoring.writing import LANGUAGE_SCRIPTS, MIN_LONG_LINES, Writing

COMPARISONS = (
    ("difference", "difference", "{value:+.{digits}f}"),
    ("p-value", "p_value", "{value:.4f}"),
)
"""Rows below a score that compare it with the first system: label, field, format."""
LINE_SCORES = "scores"
"""The key of the scores of lines by another program among the metrics."""
WITH_DIFFERENCE = {*MAIN_METRICS, LINE_SCORES}
"""Metrics whose difference from the first system is shown."""


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence and its sentence-level chrF2."""

    line: int
    chrf: float
    source: str | None
    references: Sequence[str]
    hypothesis: str


def worst_sentences(
    hypotheses: Sequence[str], references: ReferenceTexts, sources: Sequence[str], count: int
) -> list[ScoredSentence]:
    """Return the `count` sentences with the lowest chrF2, lowest first; `sources` may be empty."""
    counted = without_blanks(references)
    scored = []
    for row, hypothesis in enumerate(hypotheses):
        right = [line for lines in counted if (line := lines[row]) is not None]
        sentence = ScoredSentence(
            line=row + 1,
            chrf=sentence_chrf(hypothesis, right),
            source=sources[row] if sources else None,
            references=right,
            hypothesis=hypothesis,
        )
        scored.append(sentence)
    return nsmallest(count, scored, key=lambda sentence: sentence.chrf)


@dataclass(frozen=True)
class SystemScores(ScoresByMetric):
    """The scores of one system."""

    name: Annotated[str, Field(alias="hypotheses")]
    lines: int
    scores: Mapping[str, Score]
    length_ratio: Annotated[float | None, OMITTED_IF_EMPTY] = None
    """Number of tokens of the hypotheses divided by that of the references; None without texts."""
    worst: Annotated[Sequence[ScoredSentence], OMITTED_IF_EMPTY] = ()
    copied_source: Annotated[Mapping[str, Score], OMITTED_IF_EMPTY] = field(default_factory=dict)
    """MAIN_METRICS of the untranslated source, by metric; empty if the source is unknown."""


def score_files(
    references: Sequence[Path],
    hypotheses: Sequence[Path] = (),
    *,
    loaded: TextsToScore | None = None,
    language: str | None = None,
    source: Path | None = None,
    paired: bool = False,
    worst: int = 0,
    line_scores: Sequence[Path] = (),
) -> list[SystemScores]:
    """Score every file of hypotheses, or stdin, by every metric that applies.

    `loaded`: references and systems that were read from a table, in place of files.
    `language` of the text chooses BLEU's tokenizer, and adds metrics (default for files of a run:
    its target language). `paired`: test every system against the first. `worst`: how many sentences
    with the lowest chrF to keep per system. `line_scores`: files with the scores of the lines of
    each system by another program. With `source`, the untranslated source is scored, too.

    Raises:
        UserError: a file cannot be scored.
    """
    right, texts, sources = read_texts(references, hypotheses, source, loaded)
    if line_scores and len(line_scores) != len(texts):
        raise UserError(
            f"--scores: {plural(len(line_scores), 'file')} for {plural(len(texts), 'system')}; "
            "give one for each system, in the same order"
        )
    means: list[Score] = []
    if line_scores:
        mean_line_scores = load_plugin("actions", "line_scores")
        _, means = mean_line_scores(line_scores, lines=len(right[0]), test=paired)
    writing = Writing.of(language or _language_of_run(references), right[0])
    systems = score_systems(texts, right, writing, paired)
    copied_source = score_rows(range(len(sources)), sources, right, writing) if sources else {}
    return [
        replace(
            system,
            scores={**system.scores, LINE_SCORES: means[row]} if means else system.scores,
            worst=worst_sentences(lines, right, sources, worst),
            copied_source=copied_source,
        )
        for row, (system, lines) in enumerate(zip(systems, texts.values(), strict=True))
    ]


def score_line_files(paths: Sequence[Path], *, paired: bool = False) -> list[SystemScores]:
    """Return the mean of each file with scores of lines by another program.

    Raises:
        UserError: as `score_files`, or `paired` and there is only one file.
    """
    lines, means = load_plugin("actions", "line_scores")(paths, test=paired)
    return [
        SystemScores(str(path), lines, scores={LINE_SCORES: mean})
        for path, mean in zip(paths, means, strict=True)
    ]


def _language_of_run(references: Sequence[Path]) -> str | None:
    """Return the target language of a run if the first file is in the test folder of this run."""
    if not references or kind_at(references[0].parent) != "test":
        return None
    return config_of(references[0].resolve().parents[1]).data.target_language


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    writing: Writing,
    test: bool = False,
) -> list[SystemScores]:
    """Score every system with intervals, and test it against the first if requested."""
    _describe_writing(writing, references[0])
    lines = len(references[0])
    obstacle = metrics.resampling_obstacle(lines)
    if obstacle and lines > metrics.MAX_RESAMPLED:
        warn(obstacle)
    scores = metrics.compute_scores(systems, references, writing, intervals=not obstacle, test=test)
    bleu = BLEU(tokenize=writing.tokenizer)
    counted = cast(ReferenceTexts, without_blanks(references))  # sacreBLEU skips None
    return [
        SystemScores(
            name=name,
            lines=len(hypotheses),
            length_ratio=round(float(bleu.corpus_score(hypotheses, counted).ratio), 4),
            scores=scores[name],
        )
        for name, hypotheses in systems.items()
    ]


def _describe_writing(writing: Writing, references: Sequence[str]) -> None:
    """Say which unusual tokenizer BLEU uses, if any; warn if BLEU means little."""
    tokenizer = writing.tokenizer
    # A declared language such as Thai implies its tokenizer, so there is nothing to say.
    if tokenizer != "13a" and writing.language not in LANGUAGE_SCRIPTS:
        script = writing.script.capitalize()
        say(f"the references are written in {script}: BLEU uses sacreBLEU's tokenizer {tokenizer}")
    if tokenizer == "char":
        package = {"HANGUL": "ko", "KANA": "ja"}.get(writing.script)
        how = f"; for words, pip install 'sacrebleu[{package}]'" if package else ""
        warn(f"BLEU counts characters, so do not compare it with BLEU on words{how}")
    share = writing.long_lines(references)
    if share < MIN_LONG_LINES:
        effect = "so chrF says more than BLEU" if share else "so BLEU would be 0 and is left out"
        warn(f"{1 - share:.0%} of the references have fewer than four words, {effect}")


def score_table(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield one row per metric with one column per system, then the signatures."""
    first = systems[0]
    rows = header([""], [system.name for system in systems])
    for key, score in first.scores.items():
        scores = [system.scores[key] for system in systems]
        rows.append([score.name, *(str(score) for score in scores)])
        rows += _comparison_rows(key, scores)
    ratios = [system.length_ratio for system in systems if system.length_ratio is not None]
    if ratios:
        rows.append(["length ratio", *(f"{ratio:.3f}" for ratio in ratios)])
    yield from table(rows)
    yield ""
    for score in first.scores.values():
        yield f"{score.name}  {score.signature}"


def _comparison_rows(key: str, scores: Sequence[Score]) -> Iterator[list[str]]:
    """Yield the rows that compare the scores by one metric with the first of them."""
    for label, field_name, form in COMPARISONS:
        values = [getattr(score, field_name) for score in scores]
        is_known = values[-1] is not None  # the first system is compared with nothing
        if is_known and (key in WITH_DIFFERENCE or field_name == "p_value"):
            digits = scores[0].digits
            cells = [
                "" if value is None else form.format(value=value, digits=digits) for value in values
            ]
            yield [f"  {label}", *cells]


def score_lines(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the scores, those of the copied source, then the worst sentences."""
    yield from score_table(systems)
    copied = [f"{score.name} {score}" for score in systems[0].copied_source.values()]
    if copied:
        yield ""
        yield f"copying the source gives {', '.join(copied)}"
    for system in systems:
        if system.worst:
            yield ""
            yield f"{system.name}: the lowest sentence-level chrF2"
        for sentence in system.worst:
            yield from _sentence_lines(sentence)


def _sentence_lines(sentence: ScoredSentence) -> Iterator[str]:
    yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
    if sentence.source is not None:
        yield from _labelled("source", sentence.source)
    for reference in sentence.references:
        yield from _labelled("reference", reference)
    yield from _labelled("hypothesis", sentence.hypothesis)


def _labelled(name: str, text: str) -> list[str]:
    return wrap(printable(text), f"  {name:12}")
