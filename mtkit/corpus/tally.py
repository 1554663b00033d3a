"""Counts of one reading of a corpus: what each rule finds, and what each side holds."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import PurePath

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.findings import Finding, Status, rule_finding
from mtkit.corpus.misalignment import LineFeatures
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import RULES, Rule
from mtkit.corpus.scripts import count_words
from mtkit.corpus.statistics import CorpusStatistics, SideStatistics, hash_of

MAX_EXAMPLES = 3
IDENTIFIED_PAIRS = 10_000
"""Pairs whose language is identified; of a larger corpus, those that their hashes select."""
MAX_WORDS, MAX_LETTERS, MAX_CHARACTERS = 150, 250, 1000
"""Words, letters of a script without spaces, or characters above which a line is long."""
_INVALID = re.compile("[\ufffd\0]")
_UNTIDY = re.compile(r"^\s|\s$|\s\s|\t")

Hashes = NDArray[np.int64]


@dataclass(frozen=True)
class SideReport:
    """The size, scripts and language of one side."""

    characters: int
    words: int
    """Words, or letters of scripts without spaces."""
    median_characters: float
    unique: int
    """Distinct texts, without pairs that have a blank side."""
    scripts: list[str]
    language: str | None
    """Code of the language of most lines; None if too few lines were long enough to tell."""
    language_share: float
    """Share of the identified lines in that language."""
    is_certain: bool
    """Whether nearly all lines are in that language; else it may be a relative of the right one."""


def _either_side(check: Callable[[str], object]) -> Callable[[Pair, CorpusStatistics], bool]:
    return lambda pair, _: bool(check(pair.source) or check(pair.target))


def _is_long(pair: Pair, statistics: CorpusStatistics) -> bool:
    return _is_long_text(pair.source, statistics.source) or _is_long_text(
        pair.target, statistics.target
    )


def _is_long_text(text: str, side: SideStatistics) -> bool:
    if len(text) <= MAX_LETTERS:
        return False
    limit = MAX_WORDS if side.is_spaced else MAX_LETTERS
    return len(text) > MAX_CHARACTERS or count_words(text, is_spaced=side.is_spaced) > limit


def _is_quoted_cell(text: str) -> bool:
    return text[:1] == text[-1:] == '"' and '""' in text[1:-1]


def _is_changed_by_nfkc(text: str) -> bool:
    return not (text.isascii() or unicodedata.is_normalized("NFKC", text))


REPORT_RULES = (
    Rule("blank", "a side is empty", "always dropped", lambda pair, _: pair.blank),
    Rule(
        "invalid text",
        "not UTF-8",
        "convert the file to UTF-8, for instance by iconv",
        _either_side(_INVALID.search),
        max_share=0.1,
    ),
    Rule(
        "long",
        f"over {MAX_WORDS} words or {MAX_CHARACTERS:,} characters",
        "batching.max_length drops by subwords",
        _is_long,
        max_share=1.0,
    ),
    Rule(
        "quoted cells",
        "cells of a spreadsheet, with doubled quotation marks",
        "name the .csv itself, with --columns",
        _either_side(_is_quoted_cell),
    ),
    Rule(
        "spaces",
        "spaces at the ends, tabs, or several spaces in a row",
        "the tokenizer removes them",
        _either_side(_UNTIDY.search),
        is_harmless=True,
    ),
    Rule(
        "unicode forms",
        "characters that NFKC normalisation changes",
        "the tokenizer normalises them",
        _either_side(_is_changed_by_nfkc),
        is_harmless=True,
    ),
)
"""Rules that `mtkit check` applies to all pairs, blank ones too, and that drop nothing."""


class Tally:
    """The counts of each rule and side, chunk by chunk."""

    def __init__(self, statistics: CorpusStatistics, pairs: int, skipped: Collection[str]) -> None:
        """Prepare to count `pairs` pairs in all, without the rules of the names `skipped`."""
        self.source, self.target = _Side(statistics.source), _Side(statistics.target)
        self.counts: Counter[str] = Counter()
        self.checked: Counter[str] = Counter()
        self.equal_sides = 0
        """Pairs whose sides are the same text."""
        self._rules = [rule for rule in RULES if rule.name not in skipped]
        self._rows: defaultdict[str, list[int]] = defaultdict(list)
        self._statistics, self._pairs = statistics, pairs
        self._next_row = 0
        self._files: list[tuple[int, str, int]] = []
        """Row, file and line of the first pair of each file."""

    def add(self, chunk: Sequence[Pair]) -> None:
        """Apply the rules to the next pairs of the corpus."""
        for row, pair in enumerate(chunk, self._next_row):
            if not self._files or self._files[-1][1] != pair.file:
                self._files.append((row, pair.file, pair.line))
            for rule in REPORT_RULES:
                self._apply(rule, row, pair)
            if pair.blank:
                continue
            self.equal_sides += pair.source == pair.target
            for rule in self._rules:
                # Identification is slow.
                if rule.name != "language" or hash_of(pair) % self._pairs < IDENTIFIED_PAIRS:
                    self._apply(rule, row, pair)
        self._next_row += len(chunk)
        blank = np.array([pair.blank for pair in chunk], np.bool_)
        self.source.add([pair.source for pair in chunk], blank)
        self.target.add([pair.target for pair in chunk], blank)

    def _apply(self, rule: Rule, row: int, pair: Pair) -> None:
        self.checked[rule.name] += 1
        if rule.check(pair, self._statistics):
            self.counts[rule.name] += 1
            if len(self._rows[rule.name]) < MAX_EXAMPLES:
                self._rows[rule.name].append(row)

    def place(self, row: int) -> str:
        """Return the file and line of a pair."""
        first, file, line = self._files[bisect_right(self._files, row, key=lambda it: it[0]) - 1]
        return f"{PurePath(file).name}:{line + row - first}"

    def findings(self) -> list[Finding]:
        """Return a finding for each rule that was applied."""
        return [
            rule_finding(rule, self.counts[rule.name], checked, self._rows[rule.name])
            for rule in (*REPORT_RULES, *RULES)
            if (checked := self.checked[rule.name])
        ]

    def repeats(self) -> list[Finding]:
        """Return the findings about repeated pairs, and about repeated sides of distinct pairs."""
        source, target = self.source.hashes(), self.target.hashes()
        rows = np.flatnonzero(source)
        is_new = _is_first(source[rows] * np.int64(1_000_003) ^ target[rows])
        again, distinct = rows[~is_new], rows[is_new]
        status: Status = "warned" if len(again) else "passed"
        meaning, advice = "the same pair again, which would weigh more", "keep the first of each"
        setting = "batching.deduplicate: true"
        first = again[:MAX_EXAMPLES].tolist()
        pairs = len(source)
        findings = [
            Finding(
                "repeated pairs", status, len(again), pairs, meaning, advice, setting, rows=first
            )
        ]
        for name, hashes in (("source", source), ("target", target)):
            rows = distinct[~_is_first(hashes[distinct])]
            meaning = f"the same {name} in several distinct pairs"
            advice = "keep them in the same part when you hold out pairs"
            findings.append(
                Finding(f"repeated {name}s", "passed", len(rows), pairs, meaning, advice)
            )
        return findings


class _Side:
    """What is counted of one side."""

    def __init__(self, statistics: SideStatistics) -> None:
        self.features = LineFeatures()
        self._statistics = statistics
        self._hashes: list[Hashes] = []
        self._words = 0

    def add(self, lines: Sequence[str], blank: NDArray[np.bool_]) -> None:
        self.features.add(lines)
        hashes = np.fromiter(map(hash, lines), np.int64, len(lines))
        self._hashes.append(np.where(blank, 0, hashes))
        is_spaced = self._statistics.is_spaced
        self._words += sum(count_words(line, is_spaced=is_spaced) for line in lines)

    def hashes(self) -> Hashes:
        """Return a hash of each text, 0 for pairs with a blank side."""
        return np.concatenate(self._hashes)

    def report(self) -> SideReport:
        lengths, hashes, votes = self.features.lengths(), self.hashes(), self._statistics.votes
        language = self._statistics.likely_language
        return SideReport(
            int(lengths.sum(dtype=np.int64)),
            self._words,
            float(np.median(lengths)),
            len(np.unique(hashes[hashes != 0])),
            sorted(self._statistics.scripts),
            language,
            votes[language] / votes.total() if language else 0.0,
            self._statistics.language is not None,
        )


def _is_first(hashes: Hashes) -> NDArray[np.bool_]:
    """(n,) whether each value occurs for the first time."""
    first = np.zeros(len(hashes), np.bool_)
    first[np.unique(hashes, return_index=True)[1]] = True
    return first
