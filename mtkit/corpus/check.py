"""Check a corpus: apply the rules to a sample of it, and report the findings.

The corpus is read once, and a second time up to the first line of the last misaligned passage.
Blank pairs, repeated pairs, misaligned lines and the rule `overlap`, of which a few pairs matter,
need the whole corpus, which takes about 100 bytes per pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.config.corpora import Corpus, listed
from mtkit.config.language_codes import language_code
from mtkit.config.settings import DROP_RULES, DropRule
from mtkit.corpus.findings import (
    MAX_EXAMPLES,
    NO_ALIGNMENT,
    Finding,
    Status,
    check_alignment,
    check_files,
    check_languages,
    check_size,
    merge_findings,
)
from mtkit.corpus.languages import is_supported
from mtkit.corpus.lost_letters import check_lost_letters
from mtkit.corpus.misalignment import Passage, find_passages, line_features
from mtkit.corpus.read import Pair, UnequalSidesError, chunks, hash_of, name_of, read_pairs
from mtkit.corpus.rules import ALREADY_SPLIT, INVALID_TEXT, RULES, Rule, held_out_keys, is_held_out
from mtkit.corpus.statistics import CorpusStatistics, Languages, statistics_by_corpus
from mtkit.errors import UserError
from mtkit.progress import progress

IDENTIFIED_PAIRS = 10_000
"""Number of sampled pairs whose language is identified."""
MIN_PAIRS, MIN_HELD_OUT_PAIRS = (100, 2_000), (1, 100)
"""Fewest distinct pairs to pass with a warning, and without: in training and in held-out data."""

NamedCorpora = Mapping[str, Corpus | list[Corpus]]
"""Corpora by their names in `data`: train, then valid and test."""


@dataclass(frozen=True)
class CorpusReport:
    """The result of checking a corpus."""

    pairs: int
    distinct_pairs: int
    """Pairs without blank sides, each counted once."""
    statistics: list[CorpusStatistics]
    """Those of each corpus of a mix, in the order of the config."""
    names: list[str]
    """The files or datasets of these corpora."""
    unequal_files: Finding
    misalignment: Finding
    size: Finding
    languages: Finding
    blank: Finding
    repeated: Finding
    invalid_text: Finding
    lost_letters: Finding
    already_split: Finding
    rules: Mapping[str, Finding]
    """The findings of the rules of `batching.drop` that apply, by the names of the rules."""
    drop: list[DropRule]
    """Recommended rules for `batching.drop`."""

    @property
    def findings(self) -> list[Finding]:
        """All findings, in the order in which they are reported."""
        return [
            self.unequal_files,
            self.misalignment,
            self.size,
            self.languages,
            self.blank,
            self.repeated,
            self.invalid_text,
            self.lost_letters,
            self.already_split,
            *self.rules.values(),
        ]

    @property
    def failed(self) -> list[Finding]:
        """Findings because of which the corpus should not be used for training as it is."""
        return [finding for finding in self.findings if finding.status == "failed"]

    @property
    def frequent(self) -> list[Finding]:
        """Findings of rules that many pairs break, so that someone should look at some of them."""
        findings: list[Finding] = []
        for finding in (self.already_split, *self.rules.values()):
            if finding.count > Rule.recommended_share * finding.checked:
                findings.append(finding)
        return findings


def check_all(corpora: NamedCorpora, languages: Languages) -> dict[str, CorpusReport]:
    """Check all corpora; `languages`: declared codes of source and target.

    Raises:
        UserError: a corpus cannot be read.
    """
    return {name: check_part(name, corpora, languages) for name in corpora}


def check_part(name: str, corpora: NamedCorpora, languages: Languages) -> CorpusReport:
    """Check the corpus `name`; it should not contain text of the corpora that follow it."""
    names = list(corpora)
    later_names = names[names.index(name) + 1 :]
    later_corpora: list[Corpus] = []
    for later_name in later_names:
        later_corpora += listed(corpora[later_name])
    return check_corpus(
        corpora[name],
        languages,
        held_out=held_out_keys(read_pairs(later_corpora)),
        is_training=name == "train",
    )


def check_corpus(
    corpora: Corpus | list[Corpus],
    languages: Languages = (None, None),
    held_out: AbstractSet[int] = frozenset(),
    *,
    is_training: bool = True,
) -> CorpusReport:
    """Check the corpora: apply rules to a sample (`overlap`: to all pairs), and all other checks.

    Each corpus of a mix is compared with its own statistics; a finding counts the pairs of all.
    `languages`: declared codes; `held_out`: keys of validation and test sets;
    `is_training`: False for validation and test sets, which may be small, and of which no setting
    drops pairs.

    Raises:
        UserError: the corpora cannot be read; files of different lengths are only a finding.
    """
    survey = _Survey(listed(corpora), held_out)
    statistics = [
        replace(each, held_out=held_out)
        for each in statistics_by_corpus(survey, len(survey.corpora), languages)
    ]
    if not survey.count and survey.length_differences:
        raise UserError("; ".join(survey.length_differences))

    drop_rules = _applicable_rules(languages, has_held_out=bool(held_out))
    rules = [INVALID_TEXT, ALREADY_SPLIT, *drop_rules]
    findings: dict[str, list[Finding]] = {}
    """For each rule, the findings in each corpus."""
    with progress("checking", len(rules), "rules") as bar:
        for rule in rules:
            findings[rule.name] = _check_rule(rule, survey, statistics)
            bar.advance()

    names = [name_of(corpus) for corpus in survey.corpora]

    def merge(findings_by_corpus: Sequence[Finding]) -> Finding:
        return merge_findings(findings_by_corpus, names)

    merged_rules: dict[str, Finding] = {}
    for rule in drop_rules:
        setting = f"batching.drop: [{rule.name}]" if is_training else None
        merged_rules[rule.name] = replace(merge(findings[rule.name]), setting=setting)
    language_findings: list[Finding] = []
    for each, corpus in zip(statistics, survey.corpora, strict=True):
        is_tagged = corpus.target_tag is not None
        language_findings.append(check_languages(each, languages, is_tagged=is_tagged))
    return CorpusReport(
        pairs=survey.count,
        distinct_pairs=survey.distinct,
        statistics=statistics,
        names=names,
        unequal_files=check_files("; ".join(survey.length_differences)),
        misalignment=merge(_check_misalignment(survey)),
        size=check_size(survey.distinct, MIN_PAIRS if is_training else MIN_HELD_OUT_PAIRS),
        languages=merge(language_findings),
        blank=survey.blank_finding(),
        repeated=survey.repeated_finding(is_training=is_training),
        invalid_text=merge(findings[INVALID_TEXT.name]),
        lost_letters=merge([check_lost_letters(each) for each in statistics]),
        already_split=merge(findings[ALREADY_SPLIT.name]),
        rules=merged_rules,
        drop=_recommended(findings, languages) if is_training else [],
    )


@dataclass
class _FaultyPairs:
    """The number of pairs with a fault, and the first of them."""

    count: int = 0
    examples: list[dict[str, str]] = field(default_factory=list)
    """Up to MAX_EXAMPLES pairs, in the form of `Pair.excerpt`."""

    def add(self, pair: Pair, locate: Callable[[str], int] = lambda text: 0) -> None:
        """Count a pair, and keep it as an example unless there are enough.

        `locate` returns the place in a text that the example should show.
        """
        self.count += 1
        if len(self.examples) < MAX_EXAMPLES:
            self.examples.append(pair.excerpt(locate(pair.source), locate(pair.target)))


class _Survey:
    """Yields the pairs of corpora once, and meanwhile counts faults for which all pairs are needed.

    The files may have different lengths.
    """

    def __init__(self, corpora: list[Corpus], held_out: AbstractSet[int]) -> None:
        self.corpora = corpora
        self._held_out = held_out
        self.count = 0
        """Number of all pairs."""
        self.blank = _FaultyPairs()
        self.repeated = _FaultyPairs()
        self.overlap = _FaultyPairs()
        """The distinct pairs with a side that is held out."""
        self.length_differences: list[str] = []
        """How long the files of a corpus are, if their lengths differ."""
        self.features: list[list[NDArray[Any]]] = [[] for _ in corpora]
        """For each corpus a list of chunks; each chunk of n pairs is a (2, n) array.

        It has the `line_features` of the sources, then of the targets.
        """

    @property
    def distinct(self) -> int:
        """Number of pairs without blank sides, each counted once."""
        return self.count - self.blank.count - self.repeated.count

    def __iter__(self) -> Iterator[Pair]:
        """Yield every pair; all attributes are complete after the last pair."""
        seen: set[int] = set()
        for index, corpus in enumerate(self.corpora):
            for chunk in chunks(self._read(corpus)):
                source_features = line_features([pair.source for pair in chunk])
                target_features = line_features([pair.target for pair in chunk])
                self.features[index].append(np.stack([source_features, target_features]))
                for pair in chunk:
                    self._count_faults(pair, seen)
                self.count += len(chunk)
                yield from (pair._replace(corpus=index) for pair in chunk)

    def _count_faults(self, pair: Pair, seen: set[int]) -> None:
        """Count the pair if it has a fault; `seen`: hashes of earlier pairs, to which it adds."""
        key = hash_of(pair)
        if pair.blank:
            self.blank.add(pair)
        elif key in seen:
            self.repeated.add(pair)
        elif is_held_out(pair, self._held_out):
            self.overlap.add(pair)
        seen.add(key)

    def blank_finding(self) -> Finding:
        """Return the finding about pairs with a blank side."""
        status: Status = "passed"
        if self.blank.count:
            status = "warned"
        if 2 * self.blank.count > self.count:
            status = "failed"
        return Finding(
            name="blank",
            status=status,
            count=self.blank.count,
            checked=self.count,
            meaning="a side is empty",
            advice="always dropped",
            examples=self.blank.examples,
        )

    def repeated_finding(self, *, is_training: bool) -> Finding:
        """Return the finding about pairs that occur several times."""
        return Finding(
            name="repeated pairs",
            status="warned" if self.repeated.count else "passed",
            count=self.repeated.count,
            checked=self.count - self.blank.count,
            meaning="the same pair again, which would weigh more",
            advice="keep the first of each",
            setting="batching.deduplicate: true" if is_training else None,
            examples=self.repeated.examples,
        )

    def _read(self, corpus: Corpus) -> Iterator[Pair]:
        try:
            yield from read_pairs(corpus)
        except UnequalSidesError as error:
            self.length_differences.append(error.lengths)


def _applicable_rules(languages: Languages, *, has_held_out: bool) -> list[Rule]:
    """Return the rules of `batching.drop` that apply to the corpus."""
    source, target = languages
    are_declared = source is not None and target is not None
    skipped: set[str] = set()
    if are_declared and language_code(source) == language_code(target):
        skipped.add("copied")
    if not has_held_out:
        skipped.add("overlap")
    return [rule for rule in RULES if rule.name not in skipped]


def _check_rule(
    rule: Rule, survey: _Survey, statistics: Sequence[CorpusStatistics]
) -> list[Finding]:
    """Return the finding in each corpus; `overlap` has a single one, because all pairs count."""
    if rule.name == "overlap":
        return [_finding_of(rule, survey.overlap, checked=survey.distinct)]
    return [_apply(rule, each) for each in statistics]


def _apply(rule: Rule, statistics: CorpusStatistics) -> Finding:
    """Apply a rule to the sample; the slow rule `language` only to the start of the sample."""
    pairs: Sequence[Pair] = statistics.sample
    if rule.name == "language":
        pairs = pairs[:IDENTIFIED_PAIRS]
    faulty = _FaultyPairs()
    for pair in pairs:
        if rule.check(pair, statistics):
            faulty.add(pair, rule.locate)
    return _finding_of(rule, faulty, checked=len(pairs))


def _finding_of(rule: Rule, faulty: _FaultyPairs, checked: int) -> Finding:
    """Return the finding about the pairs that break a rule, without a setting."""
    status: Status = "passed"
    if faulty.count > rule.min_share * checked:
        status = "warned"
    if faulty.count > rule.max_share * checked:
        status = "failed"
    return Finding(
        name=rule.name,
        status=status,
        count=faulty.count,
        checked=checked,
        meaning=rule.meaning,
        advice=rule.advice,
        examples=faulty.examples,
    )


def _check_misalignment(survey: _Survey) -> list[Finding]:
    """Check each corpus with the features of all its lines; read it again to name the lines."""
    findings: list[Finding] = []
    for corpus, feature_chunks in zip(survey.corpora, survey.features, strict=True):
        if not feature_chunks:  # one of its files is empty, and another is not
            findings.append(NO_ALIGNMENT)
            continue
        source, target = np.concatenate(feature_chunks, axis=1)
        passages = find_passages(source, target)
        # The longer side: a sentence in Chinese has as few characters as an entry of a dictionary.
        median_length = max(np.median(source["length"]), np.median(target["length"]))
        places = _find_places(corpus, passages)
        findings.append(check_alignment(passages, places, float(median_length)))
    return findings


def _find_places(corpus: Corpus, passages: Iterable[Passage]) -> list[str]:
    """Return file and line of the first pair of each misaligned passage."""
    rows = {passage.first for passage in passages if passage.shift != 0}
    if not rows:
        return []
    pairs = islice(read_pairs(corpus), max(rows) + 1)
    return [pair.where for row, pair in enumerate(pairs) if row in rows]


def _recommended(findings: Mapping[str, Sequence[Finding]], languages: Languages) -> list[DropRule]:
    """Return the rules that few enough pairs of every corpus break.

    Leave out `language` if a declared language cannot be identified: `mtkit batch` does not know
    the declaration, and would identify a related language instead.
    """
    recommended: set[str] = set()
    for rule in RULES:
        of_corpora = findings.get(rule.name, ())
        is_broken = any(finding.count for finding in of_corpora)
        is_rare = all(
            finding.count <= rule.recommended_share * finding.checked for finding in of_corpora
        )
        if is_broken and is_rare:
            recommended.add(rule.name)
    if not all(code is None or is_supported(code) for code in languages):
        recommended.discard("language")
    return [name for name in DROP_RULES if name in recommended]
