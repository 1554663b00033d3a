"""Check a corpus: apply the rules to a sample of it, and report the findings.

Blank pairs, repeated pairs, misaligned lines and the rule `overlap`, of which a few pairs matter,
need the whole corpus, which takes about 25 bytes of memory per pair.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.config.corpora import Corpus
from mtkit.config.language_codes import language_code
from mtkit.config.settings import DROP_RULES, DropRule
from mtkit.corpus.findings import (
    MAX_EXAMPLES,
    FaultyPairs,
    Finding,
    check_alignment,
    check_files,
    check_languages,
    check_size,
    merge_findings,
)
from mtkit.corpus.languages import is_supported
from mtkit.corpus.lost_letters import check_lost_letters
from mtkit.corpus.misalignment import find_passages, line_features
from mtkit.corpus.read import Pair, chunks, name_of
from mtkit.corpus.rules import (
    ALREADY_SPLIT,
    BLANK_SIDE,
    INVALID_TEXT,
    REPEATED,
    RULES,
    Rule,
    held_out_keys,
    is_held_out,
)
from mtkit.corpus.statistics import CorpusStatistics, Languages, statistics_by_corpus
from mtkit.corpus.store import BLANK_KEY, CorpusRows, find_repeated, temporary_rows
from mtkit.errors import UserError
from mtkit.progress import progress

IDENTIFIED_PAIRS = 10_000
"""Number of sampled pairs whose language is identified."""
MIN_PAIRS, MIN_HELD_OUT_PAIRS = (100, 2_000), (1, 100)
"""Fewest distinct pairs to pass with a warning, and without: in training and in held-out data."""

NamedCorpora = Mapping[str, Corpus | list[Corpus]]
"""Corpora by their names in `data`: train, then valid and test."""
NamedRows = Mapping[str, CorpusRows]
"""The rows of such corpora."""


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


@contextmanager
def open_corpora(corpora: NamedCorpora) -> Iterator[NamedRows]:
    """Read corpora, whose files may have different lengths, and yield their rows by name.

    Raises:
        UserError: a corpus cannot be read.
    """
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(temporary_rows(corpus, allow_unequal=True))
            for name, corpus in corpora.items()
        }


def check_all(texts: NamedRows, languages: Languages) -> dict[str, CorpusReport]:
    """Check all corpora; `languages`: declared codes of source and target.

    A corpus should not contain text of the corpora that follow it.

    Raises:
        UserError: a corpus has no pairs.
    """
    reports: dict[str, CorpusReport] = {}
    names = list(texts)
    for number, name in enumerate(names, start=1):
        later = chain.from_iterable(texts[other] for other in names[number:])
        reports[name] = check_rows(
            texts[name], languages, held_out_keys(later), is_training=name == "train"
        )
    return reports


def check_rows(
    rows: CorpusRows,
    languages: Languages = (None, None),
    held_out: AbstractSet[int] = frozenset(),
    *,
    is_training: bool = True,
) -> CorpusReport:
    """Check corpora: apply rules to a sample (`overlap`: to all pairs), and all other checks.

    Each corpus of a mix is compared with its own statistics; a finding counts the pairs of all.
    `languages`: declared codes; `held_out`: keys of validation and test sets;
    `is_training`: False for validation and test sets, which may be small, and of which no setting
    drops pairs.

    Raises:
        UserError: there are no pairs; files of different lengths are only a finding.
    """
    if not len(rows) and rows.unequal:
        raise UserError("; ".join(rows.unequal))
    survey = _survey(rows, held_out)
    statistics = [
        replace(each, held_out=held_out) for each in statistics_by_corpus(rows, languages)
    ]

    drop_rules = _applicable_rules(languages, has_held_out=bool(held_out))
    rules = [INVALID_TEXT, ALREADY_SPLIT, *drop_rules]
    findings: dict[str, list[Finding]] = {}
    """For each rule, the findings in each corpus."""
    with progress("checking", len(rules), "rules") as bar:
        for rule in rules:
            findings[rule.name] = _check_rule(rule, survey, statistics)
            bar.advance()

    names = [name_of(corpus) for corpus in rows.corpora]

    def merge(findings_by_corpus: Sequence[Finding]) -> Finding:
        return merge_findings(findings_by_corpus, names)

    def drop_by(setting: str, finding: Finding) -> Finding:
        return replace(finding, setting=setting) if is_training else finding

    merged_rules: dict[str, Finding] = {}
    for rule in drop_rules:
        setting = f"batching.drop: [{rule.name}]"
        merged_rules[rule.name] = drop_by(setting, merge(findings[rule.name]))
    repeated = Finding.of_pairs(REPEATED, survey.repeated, len(rows) - survey.blank.count)
    language_findings: list[Finding] = []
    for each, corpus in zip(statistics, rows.corpora, strict=True):
        is_tagged = corpus.target_tag is not None
        language_findings.append(check_languages(each, languages, is_tagged=is_tagged))
    return CorpusReport(
        pairs=len(rows),
        distinct_pairs=survey.distinct,
        statistics=statistics,
        names=names,
        unequal_files=check_files("; ".join(rows.unequal)),
        misalignment=merge(_check_misalignment(survey)),
        size=check_size(survey.distinct, MIN_PAIRS if is_training else MIN_HELD_OUT_PAIRS),
        languages=merge(language_findings),
        blank=Finding.of_pairs(BLANK_SIDE, survey.blank, len(rows)),
        repeated=drop_by("batching.deduplicate: true", repeated),
        invalid_text=merge(findings[INVALID_TEXT.name]),
        lost_letters=merge([check_lost_letters(each) for each in statistics]),
        already_split=merge(findings[ALREADY_SPLIT.name]),
        rules=merged_rules,
        drop=_recommended(findings, languages) if is_training else [],
    )


@dataclass(frozen=True)
class _Survey:
    """What is found by a look at all pairs."""

    rows: CorpusRows
    blank: FaultyPairs
    repeated: FaultyPairs
    overlap: FaultyPairs
    """The distinct pairs with a side that is held out."""
    features: NDArray[Any]
    """(2, n): the `line_features` of the n sources and of the targets."""

    @property
    def distinct(self) -> int:
        """Number of pairs without blank sides, each counted once."""
        return len(self.rows) - self.blank.count - self.repeated.count


def _survey(rows: CorpusRows, held_out: AbstractSet[int]) -> _Survey:
    """Look at all pairs."""
    is_blank = rows.keys == BLANK_KEY
    is_repeated = find_repeated(rows.keys)
    are_held_out: list[bool] = []
    features: list[NDArray[Any]] = []
    with progress("checking", len(rows), "pairs") as bar:
        for chunk in chunks(rows):
            sources = line_features([pair.source for pair in chunk])
            targets = line_features([pair.target for pair in chunk])
            features.append(np.stack([sources, targets]))
            are_held_out += [is_held_out(pair, held_out) for pair in chunk]
            bar.advance(len(chunk))
    return _Survey(
        rows=rows,
        blank=_faulty_rows(rows, is_blank),
        repeated=_faulty_rows(rows, is_repeated),
        overlap=_faulty_rows(rows, np.array(are_held_out) & ~is_blank & ~is_repeated),
        features=np.concatenate(features, axis=1),
    )


def _faulty_rows(rows: CorpusRows, is_faulty: NDArray[np.bool_]) -> FaultyPairs:
    """Count the rows that are marked, and read the first of them."""
    faulty = np.flatnonzero(is_faulty)
    examples = [pair.excerpt() for pair in rows.read(faulty[:MAX_EXAMPLES])]
    return FaultyPairs(len(faulty), examples)


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
        return [Finding.of_pairs(rule, survey.overlap, checked=survey.distinct)]
    return [_apply(rule, each) for each in statistics]


def _apply(rule: Rule, statistics: CorpusStatistics) -> Finding:
    """Apply a rule to the sample; the slow rule `language` only to the start of the sample."""
    pairs: Sequence[Pair] = statistics.sample
    if rule.name == "language":
        pairs = pairs[:IDENTIFIED_PAIRS]
    faulty = FaultyPairs()
    for pair in pairs:
        if rule.check(pair, statistics):
            faulty.add(pair, rule.locate)
    return Finding.of_pairs(rule, faulty, checked=len(pairs))


def _check_misalignment(survey: _Survey) -> list[Finding]:
    """Check each corpus with the features of all its lines."""
    rows = survey.rows
    findings: list[Finding] = []
    for corpus in range(len(rows.corpora)):
        own_rows = rows.rows_of(corpus)
        source, target = survey.features[:, own_rows.start : own_rows.stop]
        passages = find_passages(source, target)
        places = [
            rows[own_rows.start + passage.first].where for passage in passages if passage.shift != 0
        ]
        medians = [np.median(side["length"]) for side in (source, target) if len(side)]
        findings.append(check_alignment(passages, places, float(max(medians, default=0))))
    return findings


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
