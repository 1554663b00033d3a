"""Write every faulty pair of a corpus with its reasons, for `mtkit check --rows`."""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from mtkit.config.corpora import Corpus, listed
from mtkit.corpus.check import CorpusReport, NamedCorpora
from mtkit.corpus.findings import Finding
from mtkit.corpus.lost_letters import damaged_pairs, has_lost_letters
from mtkit.corpus.read import Pair, UnequalSidesError, hash_of, read_pairs
from mtkit.corpus.rules import ALREADY_SPLIT, INVALID_TEXT, RULES, Rule
from mtkit.corpus.statistics import CorpusStatistics
from mtkit.progress import progress

HEADER = ("file", "row", "reason", "source", "target")
_FORMULA = re.compile(r"\s*[=@]|\s*[+-](?![\d.,]*(?:[eE][+-]?\d+)?\Z)")

Faults = Mapping[str, Callable[[Pair], bool]]
"""Names and meanings of faults, and functions that return whether a pair has them."""


def write_faulty_rows(
    file: BinaryIO, corpora: NamedCorpora, reports: Mapping[str, CorpusReport]
) -> int:
    """Write a .csv of all pairs that the findings of the reports are about; return their number.

    It has a byte order mark, by which spreadsheet programs recognise UTF-8, and no cell that they
    would run as a formula. Misaligned lines are left out: the report names the passages.
    """
    file.write(codecs.BOM_UTF8)
    file.write(_as_row(HEADER))
    count = 0
    with progress("writing faulty rows", unit="pairs") as bar:
        for name, report in reports.items():
            seen: set[int] = set()
            for corpus, statistics in zip(listed(corpora[name]), report.statistics, strict=True):
                faults = _faults_of(report, statistics, seen)
                for pair in _pairs_of(corpus):
                    reasons = [reason for reason, is_faulty in faults.items() if is_faulty(pair)]
                    if reasons:
                        file.write(_as_row(_cells_of(pair, reasons)))
                        count += 1
                    bar.advance()
    return count


def _pairs_of(corpus: Corpus) -> Iterator[Pair]:
    with suppress(UnequalSidesError):  # the report has said so
        yield from read_pairs(corpus)


def _cells_of(pair: Pair, reasons: Sequence[str]) -> list[str]:
    texts = (pair.file, "; ".join(reasons), pair.source, pair.target)
    file, reason, source, target = map(disarm_formula, texts)
    return [file, str(pair.line), reason, source, target]


def disarm_formula(cell: str) -> str:
    """Return a cell that no spreadsheet program runs: with ' before the start of a formula.

    For cells of a file that mtkit itself makes; a number stays as it is.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def _as_row(cells: Sequence[str]) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text).writerow(cells)
    return text.getvalue().encode(errors="replace")  # names of files may have any bytes


def _faults_of(report: CorpusReport, statistics: CorpusStatistics, seen: set[int]) -> Faults:
    """Return what may be wrong with a pair; `seen`: hashes of earlier pairs, which one test adds.

    All pairs are tested, so a rule that no pair of the sample breaks belongs to it, too.
    """
    damaged_sides = list(damaged_pairs(statistics))

    def is_repeated(pair: Pair) -> bool:
        key = hash_of(pair)
        has_been_seen = key in seen and not pair.blank
        seen.add(key)
        return has_been_seen

    def is_damaged(pair: Pair) -> bool:
        return any(has_lost_letters(pair, side, statistics) for side in damaged_sides)

    def breaks(rule: Rule) -> Callable[[Pair], bool]:
        return lambda pair: not pair.blank and rule.check(pair, statistics)

    tests: list[tuple[Finding, Callable[[Pair], bool]]] = [
        (report.blank, lambda pair: pair.blank),
        (report.repeated, is_repeated),
        (report.invalid_text, breaks(INVALID_TEXT)),
        (report.lost_letters, is_damaged),
    ]
    if report.already_split.status != "passed":  # a few such lines are in every corpus
        tests.append((report.already_split, breaks(ALREADY_SPLIT)))
    for rule in RULES:
        if rule.name in report.rules:
            tests.append((report.rules[rule.name], breaks(rule)))
    return {f"{finding.name}: {finding.meaning}": test for finding, test in tests}
