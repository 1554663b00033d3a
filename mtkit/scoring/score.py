"""`mtkit score`: systems side by side against references, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.config.languages import language_code
from mtkit.errors import UserError
from mtkit.report import printable, table, warn
from mtkit.scoring import metrics
from mtkit.scoring.comet import COMET, check_comet, score_with_comet
from mtkit.scoring.files import read_texts
from mtkit.scoring.metrics import ReferenceTexts, Score, SignificanceTest
from mtkit.scoring.sentences import (
    BUCKET_METRICS,
    Bucket,
    ScoredSentence,
    bucket_by_length,
    worst_sentences,
)


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system."""

    name: str
    lines: int
    length_ratio: float
    """Tokens of the hypotheses over those of the references."""
    scores: Mapping[str, Score]
    worst: Sequence[ScoredSentence] = ()
    by_length: Sequence[Mapping[str, Score]] = ()
    """Scores of each bucket, if requested."""


@dataclass(frozen=True)
class ScoreReport:
    """The scores of several systems on one test set."""

    systems: Sequence[SystemScores]
    test: SignificanceTest | None = None
    buckets: Sequence[Bucket] = ()

    def lines(self) -> Iterator[str]:
        """Yield the tables for people."""
        yield from score_table(self.systems)
        for key in BUCKET_METRICS if self.buckets else ():
            yield ""
            yield from self._bucket_table(key)
        for system in self.systems:
            if system.worst:
                yield ""
                yield from _worst_lines(system)

    def records(self) -> list[dict[str, Any]]:
        """Return a JSON object for each system."""
        return [self._record(system) for system in self.systems]

    def _bucket_table(self, key: str) -> Iterator[str]:
        name = self.systems[0].by_length[0][key].name
        rows = [[f"{name} by words of the source", "lines", *(it.name for it in self.systems)]]
        for number, bucket in enumerate(self.buckets):
            cells = (_cell(system.by_length[number][key]) for system in self.systems)
            rows.append([bucket.label, f"{len(bucket.rows):,}", *cells])
        return table(rows)

    def _record(self, system: SystemScores) -> dict[str, Any]:
        record: dict[str, Any] = {
            "hypotheses": system.name,
            "lines": system.lines,
            "length_ratio": round(system.length_ratio, 4),
            **_score_records(system.scores, self.test),
        }
        if system.worst:
            record["worst"] = [asdict(sentence) for sentence in system.worst]
        if self.buckets:
            record["by_length"] = [
                {"words": [bucket.shortest, bucket.longest], "lines": len(bucket.rows)}
                | _score_records(scores, None)
                for bucket, scores in zip(self.buckets, system.by_length, strict=True)
            ]
        return record


def score_files(
    references: Sequence[Path],
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    paired: SignificanceTest | None = None,
    worst: int = 0,
    by_length: bool = False,
    comet: bool = False,
) -> ScoreReport:
    """Score every file of hypotheses, or stdin, by every metric that applies.

    `language`, that of the text, chooses BLEU's tokenizer, and adds metrics. `paired` tests every
    system against the first. `worst` sentences of lowest chrF are kept of each system. `by_length`
    scores lines by the length of their source; like `comet` it needs that.

    Raises:
        UserError: a file cannot be scored, or COMET is not installed.
    """
    if comet and len(references) > 1:
        raise UserError("--comet: compares with one reference: name one with -r")
    if comet:
        check_comet()
    right, texts, sources = read_texts(references, hypotheses, source)
    _warn_of_characters(language)
    systems = score_systems(texts, right, language, paired)
    buckets = bucket_by_length(sources) if by_length else []
    comets = score_with_comet(texts, right[0], sources) if comet else {}
    full = [
        replace(
            system,
            scores={**system.scores, **comets.get(system.name, {})},
            worst=worst_sentences(texts[system.name], right, sources, worst),
            by_length=[it.score(texts[system.name], right, language) for it in buckets],
        )
        for system in systems
    ]
    return ScoreReport(full, paired, buckets)


def _warn_of_characters(language: str | None) -> None:
    if metrics.bleu_tokenizer(language) == "char":
        code = language_code(language)
        has_words = bool(metrics.TOKENIZERS[code][1])
        how = f": for words, pip install 'sacrebleu[{code}]'" if has_words else ""
        warn(f"BLEU is computed on characters{how}")


def score_systems(
    systems: Mapping[str, Sequence[str]],
    references: ReferenceTexts,
    language: str | None,
    test: SignificanceTest | None = None,
) -> list[SystemScores]:
    """Score every system with intervals, and test it against the first if requested.

    Raises:
        UserError: the test cannot be made.
    """
    intervals = metrics.can_resample(len(references[0]))
    scores = metrics.compute_scores(systems, references, language, intervals=intervals, test=test)
    return [
        SystemScores(
            name, len(lines), metrics.length_ratio(lines, references, language), scores[name]
        )
        for name, lines in systems.items()
    ]


def score_table(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield a row per metric with a column per system, then the signatures."""
    scores = {key: score for system in systems for key, score in system.scores.items()}
    shown = {key: scores[key] for key in (*metrics.METRICS, COMET) if key in scores}
    rows = [["", *(system.name for system in systems)]]
    for key, score in shown.items():
        of_systems = [system.scores.get(key) for system in systems]
        rows.append([score.name, *map(_cell, of_systems)])
        ps = [None if it is None else it.p_value for it in of_systems]
        if any(p is not None for p in ps):
            rows.append(["  p-value", *("" if p is None else f"{p:.4f}" for p in ps)])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    numbers = (score.value, *(score.interval or ()))
    value, *bounds = (f"{number:.{score.decimals}f}" for number in numbers)
    return f"{value} [{', '.join(bounds)}]" if bounds else value


def _worst_lines(system: SystemScores) -> Iterator[str]:
    yield f"{system.name}: the lowest sentence-level chrF2"
    for sentence in system.worst:
        yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
        if sentence.source is not None:
            yield f"  source      {printable(sentence.source)}"
        yield from (f"  reference   {printable(line)}" for line in sentence.references)
        yield f"  hypothesis  {printable(sentence.hypothesis)}"


def _score_records(
    scores: Mapping[str, Score], test: SignificanceTest | None
) -> dict[str, dict[str, Any]]:
    records: dict[str, dict[str, Any]] = {}
    for key, score in scores.items():
        records[key] = {"score": round(score.value, 4)}
        if score.interval is not None:
            records[key]["interval"] = [round(bound, 4) for bound in score.interval]
        if score.p_value is not None:
            records[key] |= {"p": round(score.p_value, 6), "test": test}
        records[key]["signature"] = score.signature
    return records
