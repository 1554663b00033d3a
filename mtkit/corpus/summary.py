"""The report of `mtkit check`, for people or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mtkit.config.batching import BatchingSettings
from mtkit.config.corpora import Corpus
from mtkit.config.settings import Config
from mtkit.corpus.check import CorpusReport, NamedCorpora, check_part, pairs_at
from mtkit.corpus.findings import Finding, Status
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import Languages
from mtkit.corpus.tally import SideReport
from mtkit.errors import UserError
from mtkit.report import fitted, printable, show, table

WIDTH, INDENT = 80, 8
"""Cells of a line in a terminal, and of the margin of what belongs to a finding."""
MAX_EXAMPLES = 3
FIXED = (
    "Fixed while reading: byte order marks, Windows line ends, invalid UTF-8 (becomes U+FFFD), "
    "lines over 1 MiB (become blank). The tokenizer joins repeated spaces and, unless its "
    "normalization is identity, unifies characters that look alike (NFKC)."
)
NOT_CHECKED = (
    "Not checked: whether a fluent sentence is the right translation; the language of short lines."
)

Examples = Mapping[int, Pair]


def corpora_of(config: Config) -> NamedCorpora:
    """Return all corpora of a config by their names in `data`."""
    data = config.data
    corpora: dict[str, Corpus | list[Corpus]] = {"train": data.train, "valid": data.valid}
    return corpora if data.test is None else corpora | {"test": data.test}


def check(
    corpora: NamedCorpora,
    languages: Languages = (None, None),
    filtering: BatchingSettings | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Check each corpus and print a report.

    `languages`: declared codes of source and target; `filtering`: the rules that a config drops by.

    Raises:
        UserError: a corpus cannot be read; or, after the report, something failed.
    """
    reports = {name: check_part(name, corpora, languages) for name in corpora}
    examples = {name: _examples(report, corpora[name]) for name, report in reports.items()}
    record = {name: _record(report, examples[name]) for name, report in reports.items()}

    def lines(_: Any) -> Iterator[str]:
        for name, report in reports.items():
            yield from _lines(name, report, examples[name], filtering or BatchingSettings())
        yield from textwrap.wrap(FIXED, WIDTH)
        yield from textwrap.wrap(NOT_CHECKED, WIDTH)

    show(record, lines, as_json=as_json)
    failed = [f"{row.name} ({name})" for name, one in reports.items() for row in one.failed]
    if failed:
        raise UserError(f"failed: {', '.join(failed)}: fix these before training")


def _examples(report: CorpusReport, corpora: Corpus | list[Corpus]) -> Examples:
    rows = (row for finding in report.findings for row in finding.rows[:MAX_EXAMPLES])
    return pairs_at(corpora, frozenset(rows))


def _record(report: CorpusReport, examples: Examples) -> dict[str, Any]:
    """Return the report as JSON."""
    findings = []
    for finding in report.findings:
        shown = [examples[row].excerpt() for row in finding.rows[:MAX_EXAMPLES]]
        findings.append({**asdict(finding), "examples": shown})
        del findings[-1]["rows"]
    return {
        "failed": bool(report.failed),
        "pairs": report.pairs,
        "source": asdict(report.source),
        "target": asdict(report.target),
        "findings": findings,
        "drop": report.drop,
        "deduplicate": report.deduplicate,
    }


def _lines(
    name: str, report: CorpusReport, examples: Examples, filtering: BatchingSettings
) -> Iterator[str]:
    yield f"{name}: {report.pairs:,} pairs"
    yield ""
    yield from table(_sides(report.source, report.target))
    yield ""
    for status in ("passed", "warned", "failed"):
        findings = [finding for finding in report.findings if finding.status == status]
        yield from _findings(status, findings, examples)
    yield from _recommendation(report, filtering)


def _sides(source: SideReport, target: SideReport) -> Iterator[list[str]]:
    sides = source, target
    yield ["", "source", "target"]
    yield ["language", *(_language(side) for side in sides)]
    yield ["script", *(", ".join(map(str.title, side.scripts)) or "none" for side in sides)]
    for name in ("characters", "words", "unique"):
        yield [name, *(f"{getattr(side, name):,}" for side in sides)]
    yield ["median length", *(f"{side.median_characters:,.0f}" for side in sides)]


def _language(side: SideReport) -> str:
    if side.language is None:
        return "too few long lines"
    return f"{side.language}, {side.language_share:.0%} of lines"


def _findings(status: Status, findings: Iterable[Finding], examples: Examples) -> Iterator[str]:
    """Yield a line for all checks without a result, and a paragraph for each of the others."""
    findings = list(findings)
    if clean := [finding.name for finding in findings if not (finding.count or finding.note)]:
        yield from _wrap(", ".join(clean), f"{status:{INDENT}}")
    for finding in findings:
        if finding.name in clean:
            continue
        of = f" of {finding.checked:,}" if finding.checked > 1 else ""
        count = f": {finding.count:,}{of}" if finding.count else ""
        yield f"{status:{INDENT}}{finding.name}{count}"
        if finding.note:
            yield from _wrap(printable(finding.note))
        if finding.count:
            yield from _wrap(f"{finding.meaning}; {finding.advice}")
            if finding.setting:
                yield from _wrap(f"To drop these: {finding.setting}")
        if status != "passed":
            yield from _example_lines(examples[row] for row in finding.rows[:MAX_EXAMPLES])
    if findings:
        yield ""


def _wrap(text: str, first_indent: str = " " * INDENT) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first_indent, subsequent_indent=" " * INDENT)


def _example_lines(pairs: Iterable[Pair]) -> Iterator[str]:
    for pair in pairs:
        example = pair.excerpt()
        yield f"{'':{INDENT}}  {example['where']}"
        for side in ("source", "target"):
            yield f"{'':{INDENT}}    {fitted(printable(example[side]), WIDTH - INDENT - 4)}"


def _recommendation(report: CorpusReport, filtering: BatchingSettings) -> Iterator[str]:
    lines = ["  deduplicate: true"] if report.deduplicate and not filtering.deduplicate else []
    if not set(report.drop) <= set(filtering.drop):
        rules = BatchingSettings(drop=[*filtering.drop, *report.drop]).drop
        lines.append(f"  drop: [{', '.join(rules)}]")
    if lines:
        yield "Recommended settings (`mtkit init` uses them):"
        yield "  batching:"
        yield from (f"  {line}" for line in lines)
        yield ""
