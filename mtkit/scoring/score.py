"""`mtkit score`: score one or more systems against references; print a table or JSON."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from heapq import nsmallest
from itertools import repeat
from pathlib import Path
from typing import Any, Literal

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from mtkit.artifacts.manifest import kind_at
from mtkit.artifacts.runs import config_of
from mtkit.report import header, printable, say, table, warn, wrap
from mtkit.scoring import metrics
from mtkit.scoring.line_files import read_texts
from mtkit.scoring.metrics import AGREEMENT, MAIN_METRICS, ReferenceTexts, Score, score_rows
from mtkit.scoring.writing import LANGUAGE_SCRIPTS, MIN_LONG_LINES, Writing

COMPARISONS = (
    ("difference", "difference", "{:+.2f}"),
    ("p-value", "p_value", "{:.4f}"),
    ("people agree", "agreement", "{:.0%}"),
)
"""Rows below a score that compare it with the first system: label, field, format."""
BUCKET_LIMITS = (5, 10, 15, 20, 25, 30, 40, 60)
"""Most source words (or twice as many characters) per bucket; a last bucket holds longer lines."""


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
    chrf = CHRF()
    rows = zip(hypotheses, sources or repeat(None, len(hypotheses)), *references, strict=True)
    scored = (
        ScoredSentence(line, chrf.sentence_score(ours, right).score, source, right, ours)
        for line, (ours, source, *right) in enumerate(rows, start=1)
    )
    return nsmallest(count, scored, key=lambda sentence: sentence.chrf)


@dataclass(frozen=True)
class Bucket:
    """Lines whose source has `shortest` to `longest` (None: any number of) words or characters."""

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
        """Return the bucket with the scores of its lines."""
        intervals = metrics.resampling_obstacle(len(self.rows)) is None
        scores = score_rows(self.rows, hypotheses, references, writing, intervals=intervals)
        return replace(self, scores=scores)

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        scores = {key: score.record() for key, score in self.scores.items()}
        return {self.unit: [self.shortest, self.longest], "lines": len(self.rows), **scores}


def bucket_by_length(sources: Sequence[str]) -> list[Bucket]:
    """Group lines by the number of source words; leave out empty buckets.

    Count characters instead if the script of the sources has no spaces between words.
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


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system."""

    name: str
    lines: int
    length_ratio: float
    """Number of tokens of the hypotheses divided by that of the references."""
    scores: Mapping[str, Score]
    worst: Sequence[ScoredSentence] = ()
    by_length: Sequence[Bucket] = ()

    def record(self) -> dict[str, Any]:
        """Return the scores as JSON."""
        record: dict[str, Any] = {
            "hypotheses": self.name,
            "lines": self.lines,
            "length_ratio": round(self.length_ratio, 4),
            **{key: score.record() for key, score in self.scores.items()},
        }
        if self.worst:
            record["worst"] = [asdict(sentence) for sentence in self.worst]
        if self.by_length:
            record["by_length"] = [bucket.record() for bucket in self.by_length]
        return record


def score_files(
    references: Sequence[Path],
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    paired: bool = False,
    worst: int = 0,
    by_length: bool = False,
) -> list[SystemScores]:
    """Score every file of hypotheses, or stdin, by every metric that applies.

    `language` of the text chooses BLEU's tokenizer, and adds metrics (default for files of a run:
    its target language). `paired`: test every system against the first. `worst`: how many sentences
    with the lowest chrF to keep per system. `by_length`: score lines by the length of their source;
    needs `source`.

    Raises:
        UserError: a file cannot be scored.
    """
    right, texts, sources = read_texts(references, hypotheses, source)
    writing = Writing.of(language or _language_of_run(references[0]), right[0])
    systems = score_systems(texts, right, writing, paired)
    buckets = bucket_by_length(sources) if by_length else []
    return [
        replace(
            system,
            worst=worst_sentences(lines, right, sources, worst),
            by_length=[bucket.scored(lines, right, writing) for bucket in buckets],
        )
        for system, lines in zip(systems, texts.values(), strict=True)
    ]


def _language_of_run(reference: Path) -> str | None:
    """Return the target language of a run if the file is in the test folder of this run."""
    if kind_at(reference.parent) != "test":
        return None
    return config_of(reference.resolve().parents[1]).data.target_language


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    writing: Writing,
    test: bool = False,
) -> list[SystemScores]:
    """Score every system with intervals, and test it against the first if requested."""
    _describe_writing(writing, references[0])
    obstacle = metrics.resampling_obstacle(len(references[0]))
    if obstacle and len(references[0]) > metrics.MAX_RESAMPLED:
        warn(obstacle)
    scores = metrics.compute_scores(systems, references, writing, intervals=not obstacle, test=test)
    scorer = BLEU(tokenize=writing.tokenizer)
    ratios = (float(scorer.corpus_score(lines, references).ratio) for lines in systems.values())
    return [
        SystemScores(name, len(lines), ratio, scores[name])
        for (name, lines), ratio in zip(systems.items(), ratios, strict=True)
    ]


def _describe_writing(writing: Writing, references: Sequence[str]) -> None:
    """Say which unusual tokenizer BLEU uses, if any; warn if BLEU means little."""
    tokenizer = writing.tokenizer
    if tokenizer != "13a" and writing.language not in LANGUAGE_SCRIPTS:
        script = writing.script.capitalize()
        say(f"the references are written in {script}: BLEU uses sacreBLEU's tokenizer {tokenizer}")
    if tokenizer == "char":
        package = {"HANGUL": "ko", "KANA": "ja"}.get(writing.script)
        how = f"; for words, pip install 'sacrebleu[{package}]'" if package else ""
        warn(f"BLEU counts characters, so do not compare it with BLEU on words{how}")
    if (share := writing.long_lines(references)) < MIN_LONG_LINES:
        effect = "so chrF says more than BLEU" if share else "so BLEU would be 0 and is left out"
        warn(f"{1 - share:.0%} of the references have fewer than four words, {effect}")


def score_table(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield one row per metric with one column per system, then the signatures."""
    shown = systems[0].scores
    rows = header([""], [system.name for system in systems])
    for key, score in shown.items():
        of_systems = [system.scores[key] for system in systems]
        rows.append([score.name, *map(str, of_systems)])
        for label, name, form in COMPARISONS:
            values = [getattr(it, name) for it in of_systems]
            if values[-1] is not None and (key in AGREEMENT or name == "p_value"):
                cells = ("" if value is None else form.format(value) for value in values)
                rows.append([f"  {label}", *cells])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def score_lines(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the tables of scores and of scores by length, then the worst sentences."""
    yield from score_table(systems)
    buckets = systems[0].by_length
    for key in [it for it in MAIN_METRICS if buckets and it in systems[0].scores]:
        title = f"{systems[0].scores[key].name} by {buckets[0].unit} of the source"
        rows = header([title, "lines"], [system.name for system in systems])
        for place, bucket in enumerate(buckets):
            cells = (str(system.by_length[place].scores.get(key, "-")) for system in systems)
            rows.append([bucket.label, f"{len(bucket.rows):,}", *cells])
        yield ""
        yield from table(rows)
    for system in systems:
        if system.worst:
            yield ""
            yield f"{system.name}: the lowest sentence-level chrF2"
        for sentence in system.worst:
            yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
            texts = [("source", sentence.source)] if sentence.source is not None else []
            texts += [("reference", line) for line in sentence.references]
            for name, text in [*texts, ("hypothesis", sentence.hypothesis)]:
                yield from wrap(printable(text), f"  {name:12}")
