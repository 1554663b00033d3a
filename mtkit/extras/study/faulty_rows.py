"""Write every faulty pair of a corpus with its reasons, for `mtkit check --rows`."""

from __future__ import annotations

import codecs
import csv
import io
from collections.abc import Callable, Mapping, Sequence
from typing import BinaryIO

from mtkit.corpus.check import CorpusReport, NamedRows
from mtkit.corpus.columns import disarm_formula
from mtkit.corpus.findings import Finding
from mtkit.corpus.lost_letters import damaged_pairs, has_lost_letters
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import ALREADY_SPLIT, INVALID_TEXT, RULES, Rule
from mtkit.corpus.statistics import CorpusStatistics
from mtkit.corpus.store import find_repeated
from mtkit.progress import progress

HEADER = ("file", "row", "reason", "source", "target")

Faults = Mapping[str, Callable[[Pair], bool]]
"""Names and meanings of faults, and functions that return whether a pair has them."""


def write_faulty_rows(file: BinaryIO, texts: NamedRows, reports: Mapping[str, CorpusReport]) -> int:
    """Write a .csv of all pairs that the findings of the reports are about; return their number.

    It has a byte order mark, by which spreadsheet programs recognise UTF-8, and no cell that they
    would run as a formula. Misaligned lines are left out: the report names the passages.
    """
    file.write(codecs.BOM_UTF8)
    file.write(_as_row(HEADER))
    count = 0
    with progress("writing faulty rows", unit="pairs") as bar:
        for name, report in reports.items():
            rows = texts[name]
            repeated = find_repeated(rows.keys)
            faults = [_faults_of(report, statistics) for statistics in report.statistics]
            for is_repeated, pair in zip(repeated, rows, strict=True):
                reasons = [
                    reason for reason, is_faulty in faults[pair.corpus].items() if is_faulty(pair)
                ]
                if is_repeated:
                    reasons.append(_describe(report.repeated))
                if reasons:
                    file.write(_as_row(_cells_of(pair, reasons)))
                    count += 1
                bar.advance()
    return count


def _cells_of(pair: Pair, reasons: Sequence[str]) -> list[str]:
    texts = (pair.file, "; ".join(reasons), pair.source, pair.target)
    file, reason, source, target = map(disarm_formula, texts)
    return [file, str(pair.line), reason, source, target]


def _as_row(cells: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue().encode(errors="replace")  # names of files may have any bytes


def _faults_of(report: CorpusReport, statistics: CorpusStatistics) -> Faults:
    """Return what may be wrong with a pair, besides its repetition.

    All pairs are tested, so a rule that no pair of the sample breaks belongs to it, too.
    """
    damaged_sides = list(damaged_pairs(statistics))

    def is_damaged(pair: Pair) -> bool:
        return any(has_lost_letters(pair, side, statistics) for side in damaged_sides)

    def breaks(rule: Rule) -> Callable[[Pair], bool]:
        return lambda pair: not pair.blank and rule.check(pair, statistics)

    tests: list[tuple[Finding, Callable[[Pair], bool]]] = [
        (report.blank, lambda pair: pair.blank),
        (report.invalid_text, breaks(INVALID_TEXT)),
        (report.lost_letters, is_damaged),
    ]
    if report.already_split.status != "passed":  # a few such lines are in every corpus
        tests.append((report.already_split, breaks(ALREADY_SPLIT)))
    for rule in RULES:
        if rule.name in report.rules:
            tests.append((report.rules[rule.name], breaks(rule)))
    return {_describe(finding): test for finding, test in tests}


def _describe(finding: Finding) -> str:
    return f"{finding.name}: {finding.meaning}"
