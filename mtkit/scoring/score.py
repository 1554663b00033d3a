"""`mtkit score`: systems side by side against references, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.config.languages import language_code
from mtkit.errors import UserError
from mtkit.report import printable, table, warn
from mtkit.scoring import metrics, sentences
from mtkit.scoring.comet import COMET, check_comet, score_with_comet
from mtkit.scoring.files import read_texts
from mtkit.scoring.metrics import ReferenceTexts, Score, SignificanceTest


@dataclass(frozen=True)
class SystemScores:
    """The scores of one system."""

    name: str
    lines: int
    length_ratio: float
    """Tokens of the hypotheses over those of the references."""
    scores: Mapping[str, Score]
    worst: Sequence[sentences.ScoredSentence] = ()
    by_length: Sequence[sentences.Bucket] = ()

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
    paired: SignificanceTest | None = None,
    worst: int = 0,
    by_length: bool = False,
    comet: bool = False,
) -> list[SystemScores]:
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
    if metrics.bleu_tokenizer(language) == "char":
        code = language_code(language)
        has_words = bool(metrics.TOKENIZERS[code][1])
        how = f": for words, pip install 'sacrebleu[{code}]'" if has_words else ""
        warn(f"BLEU is computed on characters{how}")
    systems = score_systems(texts, right, language, paired)
    comets = score_with_comet(texts, right[0], sources) if comet else {}
    buckets = sentences.bucket_by_length(sources) if by_length else []
    return [
        replace(
            system,
            scores={**system.scores, **comets.get(system.name, {})},
            worst=sentences.worst_sentences(lines, right, sources, worst),
            by_length=[bucket.scored(lines, right, language) for bucket in buckets],
        )
        for system, lines in zip(systems, texts.values(), strict=True)
    ]


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
    obstacle = metrics.resampling_obstacle(len(references[0]))
    if obstacle and len(references[0]) > metrics.MAX_RESAMPLED:
        warn(obstacle)
    scores = metrics.compute_scores(
        systems, references, language, intervals=not obstacle, test=test
    )
    ratio = metrics.length_ratio
    return [
        SystemScores(name, len(lines), ratio(lines, references, language), scores[name])
        for name, lines in systems.items()
    ]


def score_table(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield a row per metric with a column per system, then the signatures."""
    scores = {key: score for system in systems for key, score in system.scores.items()}
    shown = {key: scores[key] for key in (*metrics.METRICS, COMET) if key in scores}
    rows = [["", *(system.name for system in systems)]]
    for key, score in shown.items():
        of_systems = [system.scores.get(key) for system in systems]
        rows.append([score.name, *("-" if it is None else str(it) for it in of_systems)])
        ps = [it and it.p_value for it in of_systems]
        if any(p is not None for p in ps):
            rows.append(["  p-value", *("" if p is None else f"{p:.4f}" for p in ps)])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def score_lines(systems: Sequence[SystemScores]) -> Iterator[str]:
    """Yield the tables of scores and of scores by length, then the worst sentences."""
    yield from score_table(systems)
    for key in sentences.BUCKET_METRICS if systems[0].by_length else ():
        title = f"{systems[0].scores[key].name} by words of the source"
        rows = [[title, "lines", *(system.name for system in systems)]]
        for buckets in zip(*(system.by_length for system in systems), strict=True):
            cells = (str(bucket.scores[key]) for bucket in buckets)
            rows.append([buckets[0].label, f"{len(buckets[0].rows):,}", *cells])
        yield ""
        yield from table(rows)
    for system in systems:
        if system.worst:
            yield ""
            yield f"{system.name}: the lowest sentence-level chrF2"
        for sentence in system.worst:
            yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
            if sentence.source is not None:
                yield f"  source      {printable(sentence.source)}"
            yield from (f"  reference   {printable(line)}" for line in sentence.references)
            yield f"  hypothesis  {printable(sentence.hypothesis)}"
