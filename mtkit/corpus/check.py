"""Check a corpus: compute its statistics, apply all rules, and report what was found.

The corpus is read twice, for the statistics and for the rules. Memory holds 38 bytes for each pair,
and three times that for a moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice

from mtkit.config.batching import DROP_RULES, DropRule
from mtkit.config.corpora import Corpus, listed
from mtkit.corpus.findings import (
    MIN_PAIRS,
    Finding,
    check_alignment,
    check_declared_languages,
    check_distinct_languages,
    check_lengths,
    check_size,
    is_one_language,
)
from mtkit.corpus.languages import is_supported
from mtkit.corpus.misalignment import find_passages
from mtkit.corpus.read import Pair, UnequalSidesError, chunks, read_pairs
from mtkit.corpus.rules import RULES, Rule, held_out_sources
from mtkit.corpus.statistics import CorpusStatistics, Languages, compute_statistics
from mtkit.corpus.tally import SideReport, Tally
from mtkit.errors import UserError
from mtkit.progress import progress

MIN_HELD_OUT_PAIRS = 1, 100
"""Pairs below which a validation or test set fails, and below which there is a warning."""

NamedCorpora = Mapping[str, Corpus | list[Corpus]]
"""Corpora by their names in `data`: train, then valid and test."""


@dataclass(frozen=True)
class CorpusReport:
    """The result of checking a corpus."""

    pairs: int
    blank_pairs: int
    repeated_pairs: int
    source: SideReport
    target: SideReport
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
        names = {rule.name for rule in RULES}
        findings = [finding for finding in self.findings if finding.name in names]
        return [it for it in findings if it.count > Rule.recommended_share * it.checked]

    def estimate(self, rule: str) -> int:
        """Return how many pairs of the whole corpus break a rule of which only some are checked."""
        finding, pairs = self[rule], self.pairs - self.blank_pairs
        return round(finding.count * max(1.0, pairs / max(1, finding.checked)))


def check_corpus(
    corpora: Corpus | list[Corpus],
    languages: Languages = (None, None),
    held_out: AbstractSet[str] = frozenset(),
    min_pairs: tuple[int, int] = MIN_PAIRS,
) -> CorpusReport:
    """Check all pairs of the corpora.

    `languages`: declared codes; `held_out`: normalised sources of validation and test sets;
    `min_pairs`: pairs below which the corpus fails, or gets a warning.

    Raises:
        UserError: nothing can be read; files of unequal length are a finding instead.
    """
    pairs = _Pairs(corpora)
    statistics = replace(compute_statistics(pairs, languages), held_out=held_out)
    if not pairs.count and pairs.unequal:
        raise UserError(pairs.unequal)
    skipped = [] if held_out else ["overlap"]
    if is_one_language(languages):
        skipped.append("copied")
    tally = Tally(statistics, pairs.count, skipped)
    with progress("checking", pairs.count, "pairs") as bar:
        for chunk in chunks(pairs):
            tally.add(chunk)
            bar.advance(len(chunk))
    source, target = tally.source.report(), tally.target.report()
    passages = find_passages(tally.source.features, tally.target.features)
    places = [tally.place(passage.first) for passage in passages if passage.shift != 0]
    median_length = max(source.median_characters, target.median_characters)
    repeats, blank = tally.repeats(), tally.counts["blank"]
    repeated = repeats[0].count
    findings = [
        check_lengths(pairs.unequal),
        check_alignment(passages, places, median_length),
        check_size(pairs.count - blank - repeated, min_pairs),
        check_distinct_languages(statistics, languages, tally.equal_sides, pairs.count - blank),
        *check_declared_languages(statistics, languages),
        *tally.findings(),
        *repeats,
    ]
    drop = _recommended(findings, languages)
    return CorpusReport(
        pairs.count, blank, repeated, source, target, statistics, findings, drop, repeated > 0
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


def pairs_at(corpora: Corpus | list[Corpus], rows: AbstractSet[int]) -> dict[int, Pair]:
    """Read the pairs in these rows, which count from 0."""
    pairs = islice(_Pairs(corpora), max(rows, default=-1) + 1)
    return {row: pair for row, pair in enumerate(pairs) if row in rows}


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
