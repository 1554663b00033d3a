"""`mtkit score`: translations against references, several systems side by side, and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mtkit.config.languages import language_code
from mtkit.errors import UserError
from mtkit.report import printable, show, table, warn
from mtkit.scoring import metrics
from mtkit.scoring.comet import COMET, check_comet, comet
from mtkit.scoring.files import read_texts
from mtkit.scoring.sentences import (
    COUNTED,
    Bucket,
    Sentence,
    buckets_of,
    plot_buckets,
    worst_sentences,
)
from mtkit.study.plots.picture import check_picture


@dataclass(frozen=True)
class Scored:
    """All that was found of one system."""

    name: str
    lines: int
    length_ratio: float
    """Number of tokens of the hypotheses over that of the references."""
    scores: Mapping[str, metrics.Score]
    p_values: Mapping[str, float] = field(default_factory=dict)
    """How often chance makes such a difference from the first system, by metric."""
    test: metrics.Test | None = None
    """The test that `p_values` come from."""
    worst: Sequence[Sentence] = ()
    by_length: Sequence[Mapping[str, metrics.Score]] = ()
    """Its scores on each bucket of lines, where these are asked for."""


@dataclass(frozen=True)
class Extras:
    """What is wanted besides the metrics."""

    paired: metrics.Test | None = None
    """The test of every system against the first, if any."""
    worst: int = 0
    """Number of sentences of lowest chrF that are shown of each system."""
    by_length: bool = False
    """Whether each bucket of source lengths is scored."""
    plot: Path | None = None
    """The picture that the scores of the buckets are drawn into."""
    comet: bool = False
    """Whether COMET is asked, too."""

    def check(self, source: Path | None, references: int) -> None:
        """Raises UserError for what does not go together, with sources or without."""
        for asked, option in ((self.by_length, "--by-length"), (self.comet, "--comet")):
            if asked and source is None:
                raise UserError(f"{option}: needs the source text: name it with --source")
        if source is not None and not (self.worst or self.by_length or self.comet):
            raise UserError("--source: only with --worst, --by-length or --comet")
        if self.plot is not None:
            if not self.by_length:
                raise UserError("--plot: only with --by-length")
            check_picture(self.plot)
        if self.comet:
            if references > 1:
                raise UserError("--comet: compares with one reference: name one with -r")
            check_comet()


def score(
    references: Sequence[Path],
    hypotheses: Sequence[Path] = (),
    *,
    language: str | None = None,
    source: Path | None = None,
    extras: Extras | None = None,
    as_json: bool = False,
) -> None:
    """Writes a table (or JSON) of every metric for every file of hypotheses, else for stdin.

    Several references are several right translations of each line (`nrefs` in the signature).
    Metrics that are made for sentences are left out where a line is over MOST_CHARACTERS, with a
    warning. `language`, that of the text, chooses BLEU's tokenization, and adds the metrics that
    need it. Raises UserError for files that cannot be scored, and options that do not go together.
    """
    extras = extras or Extras()
    extras.check(source, len(references))
    right, translated, sources = read_texts(references, hypotheses, source)
    if metrics.bleu_tokenizer(language) == "char":
        code = language_code(language)
        has_words = bool(metrics.TOKENIZERS[code][1])
        how = f": for words, pip install 'sacrebleu[{code}]'" if has_words else ""
        warn(f"BLEU is counted on characters{how}")
    scored = score_systems(translated, right, language, extras.paired)
    judged = comet(translated, right[0], sources) if extras.comet else {}
    buckets = buckets_of(sources) if extras.by_length else []
    systems = [
        replace(
            system,
            scores={**system.scores, **judged.get(system.name, {})},
            worst=worst_sentences(lines, right, sources, extras.worst),
            by_length=[bucket.score(lines, right, language) for bucket in buckets],
        )
        for system, lines in zip(scored, translated.values(), strict=True)
    ]
    records = [_record(system, buckets) for system in systems]
    show(records, lambda _: _lines(systems, buckets), as_json=as_json)
    if extras.plot is not None:
        plot_buckets(buckets, {system.name: system.by_length for system in systems}, extras.plot)


def _lines(systems: Sequence[Scored], buckets: Sequence[Bucket]) -> Iterator[str]:
    yield from score_table(systems)
    worst = (_worst(system) for system in systems if system.worst)
    for block in (*_by_length(systems, buckets), *worst):
        yield ""
        yield from block


def score_systems(
    systems: Mapping[str, metrics.Lines],
    references: metrics.References,
    language: str | None,
    paired: metrics.Test | None,
) -> list[Scored]:
    """Every metric of every system, with intervals; `paired`: tested against the first.

    Raises UserError where a test is asked for that cannot be made.
    """
    interval = metrics.can_resample(len(references[0]))
    scored = [
        Scored(
            name,
            len(lines),
            metrics.length_ratio(lines, references, language),
            metrics.evaluate(lines, references, language, interval=interval),
        )
        for name, lines in systems.items()
    ]
    if paired is None:
        return scored
    common = [key for key in metrics.METRICS if all(key in system.scores for system in scored)]
    p = metrics.p_values(systems, references, language, paired, common)
    return [replace(system, p_values=p[system.name], test=paired) for system in scored]


def score_table(systems: Sequence[Scored]) -> Iterator[str]:
    """A row per metric, a column per system, and the signatures below."""
    every = {key: score for system in systems for key, score in system.scores.items()}
    shown = {key: every[key] for key in (*metrics.METRICS, COMET) if key in every}
    rows = [["", *(system.name for system in systems)]]
    for key, score in shown.items():
        rows.append([score.name, *(_cell(system.scores.get(key)) for system in systems)])
        if any(key in system.p_values for system in systems):
            ps = [system.p_values.get(key) for system in systems]
            rows.append([f"  p, {systems[0].test}", *("" if p is None else f"{p:.4f}" for p in ps)])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    yield from (f"{score.name}  {score.signature}" for score in shown.values())


def _cell(score: metrics.Score | None) -> str:
    if score is None:
        return "-"
    numbers = (score.value, *(score.interval or ()))
    value, *bounds = (f"{number:.{score.digits}f}" for number in numbers)
    return f"{value} [{', '.join(bounds)}]" if bounds else value


def _by_length(systems: Sequence[Scored], buckets: Sequence[Bucket]) -> Iterator[Iterator[str]]:
    """A table per metric: a row per bucket, a column per system."""
    for key in COUNTED if buckets else ():
        name = systems[0].by_length[0][key].name
        rows = [[f"{name} by words of the source", "lines", *(system.name for system in systems)]]
        for number, bucket in enumerate(buckets):
            cells = (_cell(system.by_length[number][key]) for system in systems)
            rows.append([bucket.label, f"{len(bucket.rows):,}", *cells])
        yield table(rows)


def _worst(system: Scored) -> Iterator[str]:
    yield f"{system.name}: the lowest sentence-level chrF2"
    for sentence in system.worst:
        yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
        if sentence.source is not None:
            yield f"  source      {printable(sentence.source)}"
        yield from (f"  reference   {printable(line)}" for line in sentence.references)
        yield f"  hypothesis  {printable(sentence.hypothesis)}"


def _record(system: Scored, buckets: Sequence[Bucket]) -> dict[str, Any]:
    record: dict[str, Any] = {
        "hypotheses": system.name,
        "lines": system.lines,
        "length_ratio": round(system.length_ratio, 4),
    }
    for key, score in system.scores.items():
        record[key] = _score(score)
        if key in system.p_values:
            record[key] |= {"p": round(system.p_values[key], 6), "test": system.test}
    if system.worst:
        record["worst"] = [asdict(sentence) for sentence in system.worst]
    if buckets:
        record["by_length"] = [
            {"words": [bucket.shortest, bucket.longest], "lines": len(bucket.rows)}
            | {key: _score(score) for key, score in scores.items()}
            for bucket, scores in zip(buckets, system.by_length, strict=True)
        ]
    return record


def _score(score: metrics.Score) -> dict[str, Any]:
    record: dict[str, Any] = {"score": round(score.value, 4)}
    if score.interval is not None:
        record["interval"] = [round(bound, 4) for bound in score.interval]
    return record | {"signature": score.signature}
