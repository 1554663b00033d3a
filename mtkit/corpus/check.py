"""Check a corpus: apply the rules to a sample of it, and report the findings.

The corpus is read once, and a second time up to the last misaligned line. Blank pairs, repeated
pairs, misaligned lines and the rule `overlap`, of which a few pairs matter, need the whole corpus,
which takes about 100 bytes per pair.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.config.corpora import Corpus, listed
from mtkit.config.language_codes import language_code
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
from mtkit.corpus.rules import REPORT_RULES, RULES, Rule, held_out_sources, normalised
from mtkit.corpus.statistics import CorpusStatistics, Languages, compute_statistics, hash_of
from mtkit.errors import UserError
from mtkit.progress import progress

MAX_EXAMPLES = 3
IDENTIFIED_PAIRS = 10_000
"""Number of sampled pairs whose language is identified."""
MIN_PAIRS, MIN_HELD_OUT_PAIRS = (100, 2_000), (1, 100)
"""Fewest distinct pairs to pass with a warning, and without: in training and in held-out data."""

NamedCorpora = Mapping[str, Corpus | list[Corpus]]
"""Corpora by their names in `data`: train, then valid and test."""


@dataclass(frozen=True)
class CorpusReport:
    """The result of checking a corpus; `report[name]` is the finding of that name."""

    pairs: int
    distinct_pairs: int
    """Pairs without blank sides, each counted once."""
    statistics: CorpusStatistics
    findings: list[Finding]
    drop: list[DropRule]
    """Recommended rules for `batching.drop`."""

    def __getitem__(self, name: str) -> Finding:
        return next(finding for finding in self.findings if finding.name == name)

    @property
    def failed(self) -> list[Finding]:
        """Findings because of which the corpus should not be used for training as it is."""
        return [finding for finding in self.findings if finding.status == "failed"]

    @property
    def frequent(self) -> list[Finding]:
        """Findings of rules that many pairs break, so that someone should look at some of them."""
        names = {*DROP_RULES, "already split"}
        findings = [finding for finding in self.findings if finding.name in names]
        return [it for it in findings if it.count > Rule.recommended_share * it.checked]

    def estimate(self, rule: str) -> int:
        """Estimate, from the sample, how many pairs of the whole corpus break a rule."""
        return round(self[rule].count * self.distinct_pairs / max(1, self[rule].checked))


def check_part(name: str, corpora: NamedCorpora, languages: Languages) -> CorpusReport:
    """Check the corpus `name`; it should not contain sources of the corpora that follow it.

    Validation and test sets may be small; settings drop none of their pairs.
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
    """Check the corpora: apply rules to a sample (`overlap`: to all pairs), and all other checks.

    `languages`: declared codes; `held_out`: normalised sources of validation and test sets;
    `min_pairs`: fewest distinct pairs to pass with a warning, and without.

    Raises:
        UserError: the corpora cannot be read; files of different lengths are only a finding.
    """
    survey = _Survey(corpora, held_out)
    statistics = replace(compute_statistics(survey, languages), held_out=held_out)
    if not survey.count and survey.unequal:
        raise UserError(survey.unequal)
    source, target = np.concatenate(survey.features, axis=1)
    median_length = max(np.median(source["length"]), np.median(target["length"]))
    passages = find_passages(source, target)
    places = _find_places(corpora, {it.first for it in passages if it.shift != 0})
    by_rule = []
    rules = _rules(languages, has_held_out=bool(held_out))
    with progress("checking", len(rules), "rules") as bar:
        for rule in rules:
            by_rule.append(_apply(rule, statistics, survey))
            bar.advance()
    findings = [
        check_files(survey.unequal),
        check_alignment(passages, places, float(median_length)),
        check_size(survey.distinct, min_pairs),
        check_languages(statistics, languages),
        *survey.findings(),
        *by_rule,
    ]
    recommended = _recommended(findings, languages)
    return CorpusReport(survey.count, survey.distinct, statistics, findings, recommended)


class _Survey:
    """Yields the pairs of corpora once, and meanwhile counts faults for which all pairs are needed.

    The files may have different lengths.
    """

    def __init__(self, corpora: Corpus | list[Corpus], held_out: AbstractSet[str]) -> None:
        self._corpora, self._held_out = corpora, held_out
        self.count = self.distinct = 0
        """Pairs, and those without blank sides, each counted once."""
        self.unequal = ""
        """How long the files are, if their lengths differ."""
        self.leaked = 0
        """Number of the distinct pairs whose source is held out."""
        self.faults: Counter[str] = Counter()
        self.features: list[NDArray[Any]] = []
        """For each chunk of n pairs, the (2, n) features of their sides."""
        self.examples: defaultdict[str, list[dict[str, str]]] = defaultdict(list)
        """The first pairs with each fault, in the form of `Pair.excerpt`."""

    def __iter__(self) -> Iterator[Pair]:
        seen: set[int] = set()
        for chunk in chunks(self._read()):
            sides = [pair.source for pair in chunk], [pair.target for pair in chunk]
            self.features.append(np.stack([*map(line_features, sides)]))
            for pair in chunk:
                key = hash_of(pair)
                if pair.blank or key in seen:
                    fault = "blank" if pair.blank else "repeated"
                    self.faults[fault] += 1
                    self._show(fault, pair)
                elif self._held_out and normalised(pair.source) in self._held_out:
                    self.leaked += 1
                    self._show("overlap", pair)
                seen.add(key)
            self.count += len(chunk)
            self.distinct = self.count - self.faults.total()
            yield from chunk

    def _show(self, fault: str, pair: Pair) -> None:
        """Keep the pair as an example, unless there are enough."""
        if len(self.examples[fault]) < MAX_EXAMPLES:
            self.examples[fault].append(pair.excerpt())

    def findings(self) -> Iterator[Finding]:
        """Yield the findings about all pairs."""
        blank, repeated, examples = self.faults["blank"], self.faults["repeated"], self.examples
        status: Status = "failed" if 2 * blank > self.count else "warned" if blank else "passed"
        texts = "a side is empty", "always dropped"
        yield Finding("blank", status, blank, self.count, *texts, examples=examples["blank"])
        texts = "the same pair again, which would weigh more", "keep the first of each"
        setting, status = "batching.deduplicate: true", "warned" if repeated else "passed"
        pairs, shown = self.count - blank, examples["repeated"]
        yield Finding("repeated pairs", status, repeated, pairs, *texts, setting, examples=shown)

    def _read(self) -> Iterator[Pair]:
        try:
            yield from read_pairs(self._corpora)
        except UnequalSidesError as error:
            self.unequal = error.lengths


def _rules(languages: Languages, *, has_held_out: bool) -> list[Rule]:
    """Return the rules that apply."""
    is_one_language = None not in languages and len(set(map(language_code, languages))) == 1
    skipped = ["copied"] * is_one_language + ["overlap"] * (not has_held_out)
    return [rule for rule in (*REPORT_RULES, *RULES) if rule.name not in skipped]


def _apply(rule: Rule, statistics: CorpusStatistics, survey: _Survey) -> Finding:
    """Apply a rule to the sample; the slow rule `language` only to the start of the sample."""
    if rule.name == "overlap":
        count, checked = survey.leaked, survey.distinct
        examples = survey.examples["overlap"]
    else:
        pairs = statistics.sample[: IDENTIFIED_PAIRS if rule.name == "language" else None]
        faulty = [pair for pair in pairs if rule.check(pair, statistics)]
        count, checked = len(faulty), len(pairs)
        examples = [pair.excerpt() for pair in faulty[:MAX_EXAMPLES]]
    status: Status = "warned" if count > rule.min_share * checked else "passed"
    if count > rule.max_share * checked:
        status = "failed"
    setting = f"batching.drop: [{rule.name}]" if rule.name in DROP_RULES else None
    texts = rule.meaning, rule.advice, setting
    return Finding(rule.name, status, count, checked, *texts, examples=examples)


def _find_places(corpora: Corpus | list[Corpus], rows: set[int]) -> list[str]:
    """Return file and line of each pair of `rows`; rows are numbered from 0."""
    pairs = islice(read_pairs(corpora), max(rows) + 1) if rows else ()
    return [pair.where for row, pair in enumerate(pairs) if row in rows]


def _recommended(findings: list[Finding], languages: Languages) -> list[DropRule]:
    """Return the rules that few enough pairs break.

    Leave out `language` if a declared language cannot be identified: `mtkit batch` does not know
    the declaration, and would identify a related language instead.
    """
    shares = {rule.name: rule.recommended_share for rule in RULES}
    if not all(code is None or is_supported(code) for code in languages):
        shares["language"] = 0.0
    few = {it.name for it in findings if 0 < it.count <= shares.get(it.name, 0.0) * it.checked}
    return [name for name in DROP_RULES if name in few]
