"""The report of `mtkit check`, for people or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mtkit.config.settings import BatchingSettings, Config
from mtkit.corpus.check import CorpusReport, NamedCorpora, check_part
from mtkit.corpus.findings import Finding
from mtkit.corpus.statistics import Languages, SideStatistics
from mtkit.errors import UserError
from mtkit.report import fitted, printable, show, table

MAX_CELLS, INDENT = 80, 8
"""Width of a line in a terminal, and of the margin of what belongs to a finding."""
NOTES = (
    "Fixed while reading: byte order marks, Windows line ends, invalid UTF-8 (becomes U+FFFD), "
    "lines over 1 MiB (become blank).",
    "Not checked: whether a fluent sentence is the right translation; the language of short lines.",
)


def corpora_of(config: Config) -> NamedCorpora:
    """Return all corpora of a config by their names in `data`."""
    data = config.data
    corpora = {"train": data.train, "valid": data.valid}
    return corpora if data.test is None else corpora | {"test": data.test}


def check(
    corpora: NamedCorpora,
    languages: Languages = (None, None),
    settings: BatchingSettings | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Check each corpus and print a report.

    `languages`: declared codes of source and target; `settings`: those of a config.

    Raises:
        UserError: a corpus cannot be read; or, after the report, something failed.
    """
    reports = {name: check_part(name, corpora, languages) for name in corpora}
    record = {name: _record(report) for name, report in reports.items()}
    show(record, lambda _: _lines(reports, settings or BatchingSettings()), as_json=as_json)
    failed = [f"{it.name} ({name})" for name, report in reports.items() for it in report.failed]
    if failed:
        raise UserError(
            f"these checks failed: {', '.join(failed)}; correct the corpus before training"
        )


def _record(report: CorpusReport) -> dict[str, Any]:
    """Return the report as JSON."""
    record = vars(report) | {"findings": [asdict(finding) for finding in report.findings]}
    statistics = record.pop("statistics")
    for name in ("source", "target"):
        side = getattr(statistics, name)
        record[name] = {"language": side.language, "scripts": sorted(side.scripts)}
    return {"failed": bool(report.failed), **record}


def _lines(reports: Mapping[str, CorpusReport], settings: BatchingSettings) -> Iterator[str]:
    for name, report in reports.items():
        yield f"{name}: {report.pairs:,} pairs"
        yield ""
        statistics = report.statistics
        rows = _row("source", statistics.source), _row("target", statistics.target)
        yield from table([["", "language", "script"], *rows])
        yield ""
        for status in ("passed", "warned", "failed"):
            findings = [finding for finding in report.findings if finding.status == status]
            clean = [finding.name for finding in findings if not (finding.count or finding.note)]
            if clean:
                yield from _wrap(", ".join(clean), first_indent=f"{status:{INDENT}}")
            for finding in findings:
                if finding.name not in clean:
                    yield from _paragraph(finding)
            if findings:
                yield ""
        yield from _recommendation(report, settings)
    for note in NOTES:
        yield from textwrap.wrap(note, MAX_CELLS)


def _row(name: str, side: SideStatistics) -> list[str]:
    likely = side.likely_language
    share = likely and f"{likely}, {side.votes[likely] / side.votes.total():.0%} of lines"
    scripts = ", ".join(sorted(side.scripts)).title()
    return [name, share or "too few long lines", scripts or "no letters"]


def _paragraph(finding: Finding) -> Iterator[str]:
    of = f" of {finding.checked:,}" if finding.checked > 1 else ""
    count = f": {finding.count:,}{of}" if finding.count else ""
    yield f"{finding.status:{INDENT}}{finding.name}{count}"
    if finding.note:
        yield from _wrap(printable(finding.note))
    if finding.count:
        yield from _wrap(f"{finding.meaning}; {finding.advice}")
        if finding.setting:
            yield from _wrap(f"To drop these: {finding.setting}")
    for example in finding.examples:
        yield f"{'':{INDENT}}  {example['where']}"
        for side in ("source", "target"):
            yield f"{'':{INDENT}}    {fitted(printable(example[side]), MAX_CELLS - INDENT - 4)}"


def _wrap(text: str, first_indent: str = " " * INDENT) -> list[str]:
    rest = " " * INDENT
    return textwrap.wrap(text, MAX_CELLS, initial_indent=first_indent, subsequent_indent=rest)


def _recommendation(report: CorpusReport, settings: BatchingSettings) -> Iterator[str]:
    lines = ["  deduplicate: true"] if report.deduplicate and not settings.deduplicate else []
    if not set(report.drop) <= set(settings.drop):
        rules = BatchingSettings(drop=[*settings.drop, *report.drop]).drop
        lines.append(f"  drop: [{', '.join(rules)}]")
    if lines:
        yield "Recommended settings (`mtkit init` uses them):"
        yield "  batching:"
        yield from (f"  {line}" for line in lines)
        yield ""
