"""The report of `mtkit check`, for people or as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from mtkit.config.language_codes import describe_language
from mtkit.config.settings import BatchingSettings, Config
from mtkit.corpus.check import CorpusReport, NamedCorpora
from mtkit.corpus.findings import Finding, Status
from mtkit.corpus.statistics import SideStatistics
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


def show_reports(
    reports: Mapping[str, CorpusReport],
    settings: BatchingSettings | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Print the reports; `settings`: the batching settings of a config.

    Raises:
        UserError: a check failed; raised after the reports were printed.
    """
    records = {name: _record(report) for name, report in reports.items()}
    lines = _lines(reports, settings or BatchingSettings())  # made only if they are shown
    show(records, lambda _: lines, as_json=as_json)
    failed: list[str] = []
    for name, report in reports.items():
        failed += [f"{finding.name} ({name})" for finding in report.failed]
    if failed:
        raise UserError(
            f"these checks failed: {', '.join(failed)}; correct the corpus before training"
        )


def _record(report: CorpusReport) -> dict[str, Any]:
    """Return the report as JSON."""
    return {
        "failed": bool(report.failed),
        "pairs": report.pairs,
        "distinct_pairs": report.distinct_pairs,
        "findings": [asdict(finding) for finding in report.findings],
        "drop": report.drop,
        "corpora": [
            {
                "name": name,
                "source": _record_side(statistics.source),
                "target": _record_side(statistics.target),
            }
            for name, statistics in zip(report.names, report.statistics, strict=True)
        ],
    }


def _record_side(side: SideStatistics) -> dict[str, Any]:
    return {"language": side.language, "scripts": sorted(side.scripts)}


def _lines(reports: Mapping[str, CorpusReport], settings: BatchingSettings) -> Iterator[str]:
    """Yield the lines of the report for people."""
    for name, report in reports.items():
        yield _title(name, report)
        yield ""
        for corpus, statistics in zip(report.names, report.statistics, strict=True):
            if len(report.names) > 1:
                yield corpus
            yield from table(
                [
                    ["", "language", "script"],
                    _row("source", statistics.source),
                    _row("target", statistics.target),
                ]
            )
            yield ""
        for status in STATUS_STYLES:
            findings = [finding for finding in report.findings if finding.status == status]
            yield from _describe_findings(status, findings)
        yield from _recommendation(report, settings)
    for note in NOTES:
        yield from wrap(note)


def _title(name: str, report: CorpusReport) -> str:
    title = f"{name}: {plural(report.pairs, 'pair')}"
    sampled = sum(len(statistics.sample) for statistics in report.statistics)
    if sampled < report.distinct_pairs:
        title += f"; rules are applied to {sampled:,} of them"
    return title


def _row(name: str, side: SideStatistics) -> list[str]:
    """Return the language and the scripts of a side as a row of a table."""
    language = "too few long lines"
    if side.likely_language is not None:
        language = f"{describe_language(side.likely_language)}, {side.share:.0%} of lines"
    if side.declared and side.language is None:
        language = f"{describe_language(side.declared)}, as declared"
    scripts = ", ".join(sorted(side.scripts)).title()
    return [name, language, scripts or "no letters"]


def _describe_findings(status: Status, findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a paragraph for each finding of a status; those without details share the first."""
    if not findings:
        return
    paragraphs: list[list[str]] = []
    without_details = [finding.name for finding in findings if not _has_details(finding)]
    if without_details:
        paragraphs.append(wrap(", ".join(without_details), MARGIN))
    for finding in findings:
        if _has_details(finding):
            paragraphs.append(list(_describe_finding(finding)))
    label = styled([(f"{status:{len(MARGIN)}}", STATUS_STYLES[status])])
    for first, *others in paragraphs:
        yield first.replace(MARGIN, label, 1)
        yield from others
    yield ""


def _has_details(finding: Finding) -> bool:
    return bool(finding.count or finding.note)


def _describe_finding(finding: Finding) -> Iterator[str]:
    """Yield the lines of a finding; the first begins with MARGIN, where the status will stand."""
    count = ""
    if finding.count and finding.checked > 1:
        count = f": {finding.count:,} of {plural(finding.checked, 'pair')}"
    yield f"{MARGIN}{finding.name}{count}"
    if finding.note:
        yield from wrap(printable(finding.note), MARGIN)
    if finding.count:
        yield from wrap(f"{finding.meaning}; {finding.advice}", MARGIN)
        if finding.setting:
            yield from wrap(f"To drop these: {finding.setting}", MARGIN)
    for example in finding.examples:
        yield f"{MARGIN}  {example['where']}"
        yield fitted(f"{MARGIN}    {printable(example['source'])}")
        yield fitted(f"{MARGIN}    {printable(example['target'])}")


def _recommendation(report: CorpusReport, settings: BatchingSettings) -> Iterator[str]:
    """Yield the settings that drop faulty pairs, if `settings` lacks some of them.

    Those that `settings` has are among them, so that someone who copies the block loses none.
    """
    can_drop = report.repeated.setting is not None  # None: held-out data
    has_repeated = can_drop and report.repeated.count > 0
    missing_rules = [rule for rule in report.drop if rule not in settings.drop]
    if not missing_rules and (settings.deduplicate or not has_repeated):
        return
    yield "Recommended settings (`mtkit init` uses them):"
    yield "  batching:"
    if settings.deduplicate or has_repeated:
        yield "    deduplicate: true"
    rules = [*settings.drop, *missing_rules]
    if rules:
        yield f"    drop: [{', '.join(rules)}]"
    yield ""
