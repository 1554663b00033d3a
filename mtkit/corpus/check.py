"""Check a corpus: compute its statistics, apply all rules to it, and report the findings.

The corpus is read twice, for the statistics and for the rules; memory holds about 150 bytes per
pair.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
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
    blank_pairs: int
    repeated_pairs: int
    statistics: CorpusStatistics
    findings: list[Finding]
    drop: list[DropRule]
    """Rules that are recommended for `batching.drop`."""
    deduplicate: bool
    """Whether `batching.deduplicate` is recommended."""

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)

    @property
    def distinct_pairs(self) -> int:
        """Pairs without blank sides, each counted once."""
        return self.pairs - self.blank_pairs - self.repeated_pairs

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
        finding, pairs = self[rule], self.pairs - self.blank_pairs
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
    return replace(report, findings=findings, drop=[], deduplicate=False)


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
    blank, repeated = tally.counts["blank"], tally.counts["repeated pairs"]
    passages = find_passages(source, target)
    places = [tally.place(passage.first) for passage in passages if passage.shift != 0]
    findings = [
        check_files(pairs.unequal),
        check_alignment(passages, places, median_length),
        check_size(pairs.count - blank - repeated, min_pairs),
        check_languages(statistics, languages, tally.copied, pairs.count - blank),
        *tally.findings(),
    ]
    drop = _recommended(findings, languages)
    return CorpusReport(pairs.count, blank, repeated, statistics, findings, drop, repeated > 0)


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


class _Tally:
    """Counts and examples of each rule, and features of each side, chunk by chunk."""

    def __init__(self, statistics: CorpusStatistics, pairs: int, rules: list[Rule]) -> None:
        self.counts: Counter[str] = Counter()
        self.copied = 0
        """Pairs whose sides are the same text."""
        self.source: list[NDArray[Any]] = []
        self.target: list[NDArray[Any]] = []
        self._statistics, self._pairs = statistics, pairs
        self._rules = [*rules, Rule("repeated pairs", *REPEATED, self._is_repeated, max_share=1.0)]
        self._checked: Counter[str] = Counter()
        self._examples: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        self._seen: set[int] = set()
        self._files: list[tuple[int, Pair]] = []
        """The row and the first pair of each file."""
        self._rows = 0

    def add(self, chunk: list[Pair]) -> None:
        """Apply the rules to the next pairs of the corpus."""
        for row, pair in enumerate(chunk, self._rows):
            if not self._files or self._files[-1][1].file != pair.file:
                self._files.append((row, pair))
            for rule in REPORT_RULES:
                self._count(rule, pair)
            if pair.blank:
                continue
            self.copied += pair.source == pair.target
            for rule in self._rules:
                # Identification is slow.
                if rule.name != "language" or hash_of(pair) % self._pairs < IDENTIFIED_PAIRS:
                    self._count(rule, pair)
        self._rows += len(chunk)
        self.source.append(line_features([pair.source for pair in chunk]))
        self.target.append(line_features([pair.target for pair in chunk]))

    def _count(self, rule: Rule, pair: Pair) -> None:
        self._checked[rule.name] += 1
        if rule.check(pair, self._statistics):
            self.counts[rule.name] += 1
            if len(self._examples[rule.name]) < MAX_EXAMPLES:
                self._examples[rule.name].append(pair.excerpt())

    def _is_repeated(self, pair: Pair, _: CorpusStatistics) -> bool:
        key, count = hash_of(pair), len(self._seen)
        self._seen.add(key)
        return len(self._seen) == count

    def place(self, row: int) -> str:
        """Return the name of the file, and the line, of a row."""
        first, pair = self._files[bisect_right(self._files, row, key=lambda it: it[0]) - 1]
        return pair._replace(line=pair.line + row - first).where

    def findings(self) -> Iterator[Finding]:
        """Yield the finding of each rule."""
        for rule in (*REPORT_RULES, *self._rules):
            count, checked = self.counts[rule.name], self._checked[rule.name]
            status: Status = "warned" if count > rule.min_share * checked else "passed"
            if count > rule.max_share * checked:
                status = "failed"
            setting = f"batching.drop: [{rule.name}]" if rule.name in DROP_RULES else None
            if rule.name == "repeated pairs":
                setting = "batching.deduplicate: true"
            yield Finding(
                rule.name,
                status,
                count,
                checked,
                rule.meaning,
                rule.advice,
                setting,
                examples=self._examples[rule.name],
            )


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
