"""The report of `mtkit check`, for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from mtkit.config.settings import BatchingSettings, Config
from mtkit.corpus.check import CorpusReport, NamedCorpora, check_part
from mtkit.corpus.findings import Finding, Status
from mtkit.corpus.statistics import Languages, SideStatistics
from mtkit.errors import UserError
from mtkit.report import fitted, plural, printable, show, styled, table, wrap

MARGIN = " " * 8
"""Indentation of a finding, below its status."""
STATUS_STYLES: Mapping[Status, str] = {"passed": "green", "warned": "yellow", "failed": "red"}
NOTES = (
    "Fixed while reading: byte order marks, Windows line ends, invalid UTF-8 (becomes U+FFFD), "
    "lines over 1 MiB (become blank), decomposed letters (become NFC), repeated spaces.",
    "Not checked: whether a fluent sentence is the right translation; the language of short lines.",
)


def corpora_of(config: Config) -> NamedCorpora:
    """Return all corpora of a config, by their names in `data`."""
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

    `languages`: declared codes of source and target; `settings`: the batching settings of a config.

    Raises:
        UserError: a corpus cannot be read; or, after the report, a check failed.
    """
    reports = {name: check_part(name, corpora, languages) for name in corpora}
    record = {name: _record(report) for name, report in reports.items()}
    lines = _lines(reports, settings or BatchingSettings())
    show(record, lambda _: lines, as_json=as_json)
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
        statistics = report.statistics
        sampled, pairs = len(statistics.sample), plural(report.pairs, "pair")
        is_all = sampled == report.distinct_pairs
        yield f"{name}: {pairs}" + ("" if is_all else f"; rules are applied to {sampled:,} of them")
        yield ""
        rows = _row("source", statistics.source), _row("target", statistics.target)
        yield from table([["", "language", "script"], *rows])
        yield ""
        yield from _findings(report)
        yield from _recommendation(report, settings)
    for note in NOTES:
        yield from wrap(note)


def _row(name: str, side: SideStatistics) -> list[str]:
    likely = side.likely_language
    share = likely and f"{likely}, {side.share:.0%} of lines"
    scripts = ", ".join(sorted(side.scripts)).title()
    if side.declared and side.language is None:
        share = f"{side.declared}, as declared"
    return [name, share or "too few long lines", scripts or "no letters"]


def _findings(report: CorpusReport) -> Iterator[str]:
    """Yield a paragraph for each finding; findings without details share one paragraph."""
    for status in STATUS_STYLES:
        findings = [finding for finding in report.findings if finding.status == status]
        clean = [finding.name for finding in findings if not (finding.count or finding.note)]
        paragraphs = [wrap(", ".join(clean), MARGIN)] if clean else []
        paragraphs += [list(_paragraph(it)) for it in findings if it.name not in clean]
        label = styled([(f"{status:{len(MARGIN)}}", STATUS_STYLES[status])])
        for first, *rest in paragraphs:
            yield from (first.replace(MARGIN, label, 1), *rest)
        if findings:
            yield ""


def _paragraph(finding: Finding) -> Iterator[str]:
    of = plural(finding.checked, "pair")
    count = f": {finding.count:,} of {of}" if finding.count and finding.checked > 1 else ""
    yield f"{MARGIN}{finding.name}{count}"
    if finding.note:
        yield from wrap(printable(finding.note), MARGIN)
    if finding.count:
        yield from wrap(f"{finding.meaning}; {finding.advice}", MARGIN)
        if finding.setting:
            yield from wrap(f"To drop these: {finding.setting}", MARGIN)
    for example in finding.examples:
        yield f"{MARGIN}  {example['where']}"
        yield from (fitted(f"{MARGIN}    {printable(example[it])}") for it in ("source", "target"))


def _recommendation(report: CorpusReport, settings: BatchingSettings) -> Iterator[str]:
    repeated = report["repeated pairs"]
    is_missing = repeated.count and repeated.setting and not settings.deduplicate
    lines = ["  deduplicate: true"] if is_missing else []
    if not set(report.drop) <= set(settings.drop):
        rules = dict.fromkeys([*settings.drop, *report.drop])
        lines.append(f"  drop: [{', '.join(rules)}]")
    if lines:
        yield "Recommended settings (`mtkit init` uses them):"
        yield "  batching:"
        yield from (f"  {line}" for line in lines)
        yield ""
