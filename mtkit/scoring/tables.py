"""What was found of every system, as text for people and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from mtkit.report import printable, table
from mtkit.scoring.comet import COMET
from mtkit.scoring.metrics import METRICS, Score, Test
from mtkit.scoring.sentences import COUNTED, Bucket, Sentence


@dataclass(frozen=True)
class Scored:
    """All that was found of one system."""

    name: str
    lines: int
    length_ratio: float
    """Number of tokens of the hypotheses over that of the references."""
    scores: Mapping[str, Score]
    p_values: Mapping[str, float] = field(default_factory=dict)
    """How often chance makes such a difference from the first system, by metric."""
    test: Test | None = None
    """The test that `p_values` come from."""
    worst: Sequence[Sentence] = ()
    by_length: Sequence[Bucket] = ()


def to_json(systems: Sequence[Scored]) -> str:
    """A list with an object per system."""
    return json.dumps(list(map(_record, systems)), indent=2, ensure_ascii=False) + "\n"


def to_text(systems: Sequence[Scored]) -> str:
    """A table of scores, their signatures, and whatever else was asked for."""
    return "\n".join(_lines(systems)) + "\n"


def _lines(systems: Sequence[Scored]) -> Iterator[str]:
    yield from score_table(systems)
    for block in (*_by_length(systems), *(_worst(system) for system in systems if system.worst)):
        yield from ["", *block]


def score_table(systems: Sequence[Scored]) -> Iterator[str]:
    """A row per metric, a column per system, and the signatures below."""
    every = {key: score for system in systems for key, score in system.scores.items()}
    metrics = {key: every[key] for key in (*METRICS, COMET) if key in every}
    rows = [["", *(system.name for system in systems)]]
    for key, metric in metrics.items():
        rows.append([metric.name, *(_cell(system.scores.get(key)) for system in systems)])
        if any(key in system.p_values for system in systems):
            ps = [system.p_values.get(key) for system in systems]
            rows.append([f"  p, {systems[0].test}", *("" if p is None else f"{p:.4f}" for p in ps)])
    rows.append(["length ratio", *(f"{system.length_ratio:.3f}" for system in systems)])
    yield from table(rows)
    yield ""
    for metric in metrics.values():
        yield f"{metric.name}  {metric.signature}"


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    value = f"{score.value:.{score.digits}f}"
    if score.interval is None:
        return value
    low, high = (f"{bound:.{score.digits}f}" for bound in score.interval)
    return f"{value} [{low}, {high}]"


def _by_length(systems: Sequence[Scored]) -> Iterator[Iterator[str]]:
    """A table per metric: a row per bucket, a column per system."""
    buckets = list(zip(*(system.by_length for system in systems), strict=True))
    for key in COUNTED if buckets else ():
        name = buckets[0][0].scores[key].name
        rows = [[f"{name} by words of the source", "lines", *(system.name for system in systems)]]
        for of_systems in buckets:
            cells = (_cell(bucket.scores[key]) for bucket in of_systems)
            rows.append([of_systems[0].label, f"{len(of_systems[0].rows):,}", *cells])
        yield table(rows)


def _worst(system: Scored) -> Iterator[str]:
    yield f"{system.name}: the lowest sentence-level chrF2"
    for sentence in system.worst:
        yield f"line {sentence.line}  chrF2 {sentence.chrf:.2f}"
        if sentence.source is not None:
            yield f"  source      {printable(sentence.source)}"
        yield f"  reference   {printable(sentence.reference)}"
        yield f"  hypothesis  {printable(sentence.hypothesis)}"


def _record(system: Scored) -> dict[str, Any]:
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
    if system.by_length:
        record["by_length"] = [
            {"words": [bucket.shortest, bucket.longest], "lines": len(bucket.rows)}
            | {key: _score(score) for key, score in bucket.scores.items()}
            for bucket in system.by_length
        ]
    return record


def _score(score: Score) -> dict[str, Any]:
    record: dict[str, Any] = {"score": round(score.value, 4)}
    if score.interval is not None:
        record["interval"] = [round(bound, 4) for bound in score.interval]
    return record | {"signature": score.signature}
