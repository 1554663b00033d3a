"""Check a corpus: compute its statistics, apply all rules to it, and report the findings.

The corpus is read twice, for the statistics and for the rules; memory holds about 150 bytes per
pair.
"""

from __future__ import annotations

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
"""Largest number of pairs whose language is identified; hashes select them in a larger corpus."""
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
    counts = [*_rule_counts(pairs.count, languages, has_held_out=bool(held_out))]
    features: list[NDArray[Any]] = []
    with progress("checking", pairs.count, "pairs") as bar:
        for chunk in chunks(pairs):
            for pair in chunk:
                for count in counts[:1] if pair.blank else counts:
                    count.add(pair, statistics)
            sides = [pair.source for pair in chunk], [pair.target for pair in chunk]
            features.append(np.stack([*map(line_features, sides)]))
            bar.advance(len(chunk))
    source, target = np.concatenate(features, axis=1)
    median_length = max(np.median(source["length"]), np.median(target["length"]))
    passages = find_passages(source, target)
    places = _find_places(pairs, {it.first for it in passages if it.shift != 0})
    by_rule = {count.rule.name: count.finding() for count in counts}
    distinct = pairs.count - by_rule["blank"].count - by_rule["repeated pairs"].count
    findings = [
        check_files(pairs.unequal),
        check_alignment(passages, places, float(median_length)),
        check_size(distinct, min_pairs),
        check_languages(statistics, languages),
        *by_rule.values(),
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
    every: int = 1
    """One of so many pairs is checked, selected by its hash."""
    count: int = 0
    checked: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)

    def add(self, pair: Pair, statistics: CorpusStatistics) -> None:
        if self.every > 1 and hash_of(pair) % self.every:
            return
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


def _rule_counts(pairs: int, languages: Languages, *, has_held_out: bool) -> Iterator[_RuleCount]:
    """Yield a count for each rule that applies, first the one for blank pairs."""
    seen: set[int] = set()

    def is_repeated(pair: Pair, _: CorpusStatistics) -> bool:
        before = len(seen)
        seen.add(hash_of(pair))
        return len(seen) == before

    is_one_language = None not in languages and len(set(map(language_code, languages))) == 1
    skipped = ["copied"] * is_one_language + ["overlap"] * (not has_held_out)
    for rule in (*REPORT_RULES, *RULES):
        if rule.name not in skipped:
            is_slow = rule.name == "language"
            yield _RuleCount(rule, -(-pairs // IDENTIFIED_PAIRS) if is_slow else 1)
    yield _RuleCount(Rule("repeated pairs", *REPEATED, is_repeated, max_share=1.0))


def _find_places(pairs: _Pairs, rows: set[int]) -> list[str]:
    """Return file and line of each of the rows, which are counted from 0."""
    return [pair.where for row, pair in enumerate(pairs) if row in rows] if rows else []


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
