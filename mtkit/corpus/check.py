"""Check a corpus: compute its statistics, apply all rules to it, and report the findings.

The corpus is read twice, for the statistics and for the rules; memory holds about 150 bytes per
pair.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.config.corpora import Corpus, listed
from mtkit.config.languages import language_code
from mtkit.config.settings import DROP_RULES, DropRule
from mtkit.corpus.findings import (
    Finding,
    Status,
    check_alignment,
    check_files,
    check_languages,
    check_size,
)
from mtkit.corpus.languages import is_supported
from mtkit.corpus.misalignment import find_passages, line_features
from mtkit.corpus.read import Pair, UnequalSidesError, chunks, read_pairs
from mtkit.corpus.rules import REPORT_RULES, RULES, Rule, held_out_sources
from mtkit.corpus.statistics import CorpusStatistics, Languages, compute_statistics, hash_of
from mtkit.errors import UserError
from mtkit.progress import progress

MAX_EXAMPLES = 3
IDENTIFIED_PAIRS = 10_000
"""Pairs whose language is identified; of a larger corpus, those that their hashes select."""
MIN_PAIRS, MIN_HELD_OUT_PAIRS = (100, 2_000), (1, 100)
"""Distinct pairs below which a corpus fails, or gets a warning: for training, and held out."""
REPEATED = "the same pair again, which would weigh more", "keep the first of each"

NamedCorpora = Mapping[str, Corpus | list[Corpus]]
"""Corpora by their names in `data`: train, then valid and test."""


@dataclass(frozen=True)
class CorpusReport:
    """The result of checking a corpus; `report[name]` is the finding of that name."""

    pairs: int
    statistics: CorpusStatistics
    findings: list[Finding]
    drop: list[DropRule]
    """Rules that are recommended for `batching.drop`."""

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)

    @property
    def distinct_pairs(self) -> int:
        """Pairs without blank sides, each counted once."""
        return self.pairs - self["blank"].count - self["repeated pairs"].count

    @property
    def failed(self) -> list[Finding]:
        """Reasons not to train on the corpus as it is."""
        return [finding for finding in self.findings if finding.status == "failed"]

    @property
    def frequent(self) -> list[Finding]:
        """Findings of rules that so many pairs break that some should be looked at."""
        names = {*DROP_RULES, "already split"}
        findings = [finding for finding in self.findings if finding.name in names]
        return [it for it in findings if it.count > Rule.recommended_share * it.checked]

    def estimate(self, rule: str) -> int:
        """Return how many pairs of the whole corpus break a rule of which only some are checked."""
        finding, pairs = self[rule], self.pairs - self["blank"].count
        return round(finding.count * max(1.0, pairs / max(1, finding.checked)))


def check_part(name: str, corpora: NamedCorpora, languages: Languages) -> CorpusReport:
    """Check the corpus `name`, which should have no source of those that follow it.

    Validation and test sets may be small, and no setting drops any of their pairs.
    """
    names = list(corpora)
    later = [corpora[other] for other in names[names.index(name) + 1 :]]
    held_out = held_out_sources(corpus for named in later for corpus in listed(named))
    if name == "train":
        return check_corpus(corpora[name], languages, held_out)
    report = check_corpus(corpora[name], languages, held_out, MIN_HELD_OUT_PAIRS)
    findings = [replace(finding, setting=None) for finding in report.findings]
    return replace(report, findings=findings, drop=[])


def check_corpus(
    corpora: Corpus | list[Corpus],
    languages: Languages = (None, None),
    held_out: AbstractSet[str] = frozenset(),
    min_pairs: tuple[int, int] = MIN_PAIRS,
) -> CorpusReport:
    """Check all pairs of the corpora.

    `languages`: declared codes; `held_out`: normalised sources of validation and test sets;
    `min_pairs`: distinct pairs below which the corpus fails, or gets a warning.

    Raises:
        UserError: nothing can be read; files of unequal length are a finding instead.
    """
    pairs = _Pairs(corpora)
    statistics = replace(compute_statistics(pairs, languages), held_out=held_out)
    if not pairs.count and pairs.unequal:
        raise UserError(pairs.unequal)
    is_one_language = None not in languages and len(set(map(language_code, languages))) == 1
    skipped = ["copied"] * is_one_language + ["overlap"] * (not held_out)
    tally = _Tally(statistics, pairs.count, [rule for rule in RULES if rule.name not in skipped])
    with progress("checking", pairs.count, "pairs") as bar:
        for chunk in chunks(pairs):
            tally.add(chunk)
            bar.advance(len(chunk))
    source, target = np.concatenate(tally.source), np.concatenate(tally.target)
    median_length = max(float(np.median(side["length"])) for side in (source, target))
    blank, repeated = tally.counts["blank"].count, tally.counts["repeated pairs"].count
    passages = find_passages(source, target)
    places = [tally.place(passage.first) for passage in passages if passage.shift != 0]
    findings = [
        check_files(pairs.unequal),
        check_alignment(passages, places, median_length),
        check_size(pairs.count - blank - repeated, min_pairs),
        check_languages(statistics, languages, tally.copied, pairs.count - blank),
        *(count.finding() for count in tally.counts.values()),
    ]
    return CorpusReport(pairs.count, statistics, findings, _recommended(findings, languages))


class _Pairs:
    """The pairs of corpora, which can be read several times; files may be of unequal length."""

    def __init__(self, corpora: Corpus | list[Corpus]) -> None:
        self._corpora = corpora
        self.count = 0
        self.unequal = ""
        """How long the files are, if their lengths differ."""

    def __iter__(self) -> Iterator[Pair]:
        self.count = 0
        try:
            for pair in read_pairs(self._corpora):
                self.count += 1
                yield pair
        except UnequalSidesError as error:
            self.unequal = error.lengths


@dataclass
class _RuleCount:
    """How many pairs break a rule, and the first of them."""

    rule: Rule
    count: int = 0
    checked: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)

    def add(self, pair: Pair, statistics: CorpusStatistics) -> None:
        self.checked += 1
        if self.rule.check(pair, statistics):
            self.count += 1
            if len(self.examples) < MAX_EXAMPLES:
                self.examples.append(pair.excerpt())

    def finding(self) -> Finding:
        rule, count, checked = self.rule, self.count, self.checked
        status: Status = "warned" if count > rule.min_share * checked else "passed"
        if count > rule.max_share * checked:
            status = "failed"
        setting = f"batching.drop: [{rule.name}]" if rule.name in DROP_RULES else None
        if rule.name == "repeated pairs":
            setting = "batching.deduplicate: true"
        texts = rule.meaning, rule.advice, setting
        return Finding(rule.name, status, count, checked, *texts, examples=self.examples)


class _Tally:
    """Counts of each rule, and features of each side, chunk by chunk."""

    def __init__(self, statistics: CorpusStatistics, pairs: int, rules: list[Rule]) -> None:
        repeated = Rule("repeated pairs", *REPEATED, self._is_repeated, max_share=1.0)
        all_rules = *REPORT_RULES, *rules, repeated
        self.counts = {rule.name: _RuleCount(rule) for rule in all_rules}
        self.copied = 0
        """Pairs whose sides are the same text."""
        self.source: list[NDArray[Any]] = []
        self.target: list[NDArray[Any]] = []
        self._statistics, self._pairs = statistics, pairs
        self._seen: set[int] = set()
        self._files: list[tuple[int, Pair]] = []
        """The row and the first pair of each file."""
        self._rows = 0

    def add(self, chunk: list[Pair]) -> None:
        """Apply the rules to the next pairs of the corpus."""
        for row, pair in enumerate(chunk, self._rows):
            if not self._files or self._files[-1][1].file != pair.file:
                self._files.append((row, pair))
            if pair.blank:
                self.counts["blank"].add(pair, self._statistics)
                continue
            self.copied += pair.source == pair.target
            for name, count in self.counts.items():
                # Identification is slow.
                if name != "language" or hash_of(pair) % self._pairs < IDENTIFIED_PAIRS:
                    count.add(pair, self._statistics)
        self._rows += len(chunk)
        self.source.append(line_features([pair.source for pair in chunk]))
        self.target.append(line_features([pair.target for pair in chunk]))

    def _is_repeated(self, pair: Pair, _: CorpusStatistics) -> bool:
        key, count = hash_of(pair), len(self._seen)
        self._seen.add(key)
        return len(self._seen) == count

    def place(self, row: int) -> str:
        """Return the name of the file, and the line, of a row."""
        first, pair = self._files[bisect_right(self._files, row, key=lambda it: it[0]) - 1]
        return pair._replace(line=pair.line + row - first).where


def _recommended(findings: list[Finding], languages: Languages) -> list[DropRule]:
    """Return the rules that few enough pairs break.

    Without `language` if a declared language cannot be identified: `mtkit batch` does not know the
    declaration, and would take the side for a relative.
    """
    shares = {rule.name: rule.recommended_share for rule in RULES}
    if not all(code is None or is_supported(code) for code in languages):
        shares["language"] = 0.0
    few = {it.name for it in findings if 0 < it.count <= shares.get(it.name, 0.0) * it.checked}
    return [name for name in DROP_RULES if name in few]
