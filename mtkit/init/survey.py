"""The corpora that `mtkit init` has checked, and what becomes of their pairs.

Several corpora with a target tag each are for several languages in one model. They share a
vocabulary and a plan. A text that one of them holds out is in the training data of none.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from mtkit.batching.text_lines import write_lines
from mtkit.config.corpora import Corpus
from mtkit.config.settings import DROP_RULES, DropRule
from mtkit.corpus.check import CorpusReport
from mtkit.corpus.languages import is_supported
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import PairFilter, key_of
from mtkit.corpus.statistics import Languages
from mtkit.corpus.store import CorpusRows
from mtkit.init.facts import CorpusFacts, count_frequent, describe_corpus
from mtkit.init.partition import Partition

TEMPERATURE = 5.0
"""How far corpora of unequal size are balanced: 1 keeps the sizes, infinity makes them equal.

The value of Arivazhagan et al. 2019 for very unequal sizes; it changes little for similar ones.
"""


@dataclass(frozen=True)
class SurveyedCorpus:
    """A corpus, and how it is divided into training, validation and test pairs."""

    rows: CorpusRows
    report: CorpusReport
    partition: Partition
    facts: CorpusFacts
    sample: Sequence[Pair]
    """A sample of the training pairs without faulty ones."""

    @property
    def corpus(self) -> Corpus:
        """The corpus whose rows these are."""
        (corpus,) = self.rows.corpora
        return corpus

    @property
    def tag(self) -> str | None:
        """The target tag; None if there is one corpus without a tag."""
        return self.corpus.target_tag

    @property
    def languages(self) -> Languages:
        """The languages of source and target."""
        return languages_of(self.report)


@dataclass(frozen=True)
class WrittenCorpus:
    """A corpus whose pairs were written to files."""

    surveyed: SurveyedCorpus
    counts: Counter[str]
    """The number of pairs of each part that was written."""
    repeated: int
    """How many of the training pairs are repetitions."""
    held_out: Sequence[int]
    """The hashes of the pairs that are held out."""

    @property
    def tag(self) -> str | None:
        """The target tag, as of the surveyed corpus."""
        return self.surveyed.tag

    @property
    def facts(self) -> CorpusFacts:
        """The facts, with estimates that add up to the counted pairs."""
        return self.surveyed.facts.counted(distinct_pairs=self.counts["train"] - self.repeated)


def languages_of(report: CorpusReport) -> Languages:
    """Return the declared languages of a corpus, and where none is declared, the identified one."""
    statistics = report.statistics[0]
    source, target = statistics.source, statistics.target
    return source.declared or source.language, target.declared or target.language


def survey(
    texts: Sequence[CorpusRows],
    reports: Sequence[CorpusReport],
    held_out: AbstractSet[int],
    untrained: AbstractSet[int],
    existing: Mapping[str, int],
) -> list[SurveyedCorpus]:
    """Plan how each corpus is divided, and collect the facts about it.

    `held_out` and `untrained`: keys of text, as in `Partition`; `existing`: the numbers of pairs in
    the validation and test sets of the user, by part.
    """
    drop = common_rules(reports)
    partitions: list[Partition] = []
    for report in reports:
        partition = Partition(
            pairs=report.distinct_pairs,
            parts=frozenset({"valid", "test"} - existing.keys()),
            held_out=held_out,
            untrained=untrained,
            pair_filter=PairFilter(drop, report.statistics),
        )
        partitions.append(partition)
    surveyed: list[SurveyedCorpus] = []
    separated = _separate(texts, partitions)
    for rows, report, partition in zip(texts, reports, separated, strict=True):
        report = replace(report, drop=drop)  # the common rules, as `batching.drop` has them
        facts, sample = describe_corpus(report, partition, languages_of(report), existing)
        surveyed.append(SurveyedCorpus(rows, report, partition, facts, sample))
    return surveyed


def _separate(all_rows: Sequence[CorpusRows], partitions: Sequence[Partition]) -> list[Partition]:
    """Return the partitions, each of which trains on no text that another corpus may hold out.

    Corpora of several languages often have the same sources, and those of both directions have each
    other's targets. Without this step, a test pair of one language would be a training pair of
    another.
    """
    if len(all_rows) == 1:
        return list(partitions)
    texts_by_corpus: list[set[int]] = []
    for rows, partition in zip(all_rows, partitions, strict=True):
        texts: set[int] = set()
        for pair in rows:
            source = key_of(pair.source)
            if partition.holds_out(source):
                texts |= {source, key_of(pair.target)}
        texts_by_corpus.append(texts)
    number_of_corpora = Counter(chain.from_iterable(texts_by_corpus))
    separated: list[Partition] = []
    for partition, texts in zip(partitions, texts_by_corpus, strict=True):
        elsewhere = {key for key, count in number_of_corpora.items() if count > (key in texts)}
        separated.append(replace(partition, untrained=partition.untrained | elsewhere))
    return separated


def common_rules(reports: Sequence[CorpusReport]) -> list[DropRule]:
    """Return the rules that are recommended for some corpus, and harm none.

    `batching.drop` applies to all corpora. So a rule is left out if a corpus breaks it and does not
    recommend it. `language` is also left out if a language of such a corpus cannot be identified.
    """
    rules: list[DropRule] = []
    for rule in DROP_RULES:
        is_recommended = any(rule in report.drop for report in reports)
        is_harmful = any(_harms(rule, report) for report in reports)
        if is_recommended and not is_harmful:
            rules.append(rule)
    return rules


def _harms(rule: DropRule, report: CorpusReport) -> bool:
    """Return whether the rule would drop good pairs of a corpus that does not recommend it."""
    if rule in report.drop:
        return False
    finding = report.rules.get(rule)
    if finding is not None and finding.count > 0:
        return True
    # The rule would take every line in an unsupported language for another language.
    known_codes = [code for code in languages_of(report) if code is not None]
    return rule == "language" and not all(map(is_supported, known_codes))


def join_facts(surveyed: Sequence[SurveyedCorpus]) -> tuple[CorpusFacts, Sequence[Pair]]:
    """Return the facts of all corpora together, and a sample of their training pairs.

    `sentences` and `dotless_i` get their defaults if the corpora differ. The vocabulary is joint,
    and text is truecased, only if that suits all corpora. Abbreviations are united.
    """
    if len(surveyed) == 1:
        return surveyed[0].facts, surveyed[0].sample
    all_facts = [each.facts for each in surveyed]
    sample = _join_samples(surveyed)
    sources = [pair.source for pair in sample]
    targets = [pair.target for pair in sample]
    is_joint = all(facts.is_joint for facts in all_facts)
    vocabulary_texts = [sources + targets] if is_joint else [sources, targets]
    broken = Counter[str]()
    abbreviations: set[str] = set()
    frequent_words = 0
    for facts in all_facts:
        broken.update(facts.broken_rules)
        abbreviations.update(facts.abbreviations.split())
        frequent_words += facts.frequent_words or 0
    are_spaced = all(facts.frequent_words is not None for facts in all_facts)
    joined = CorpusFacts(
        pairs=sum(facts.pairs for facts in all_facts),
        valid=sum(facts.valid for facts in all_facts),
        test=sum(facts.test for facts in all_facts),
        is_joint=is_joint,
        characters=max(count_frequent(lines) for lines in vocabulary_texts),
        has_repeated_pairs=any(facts.has_repeated_pairs for facts in all_facts),
        broken_rules=dict(broken),
        sentences=_common(facts.sentences for facts in all_facts),
        abbreviations=" ".join(sorted(abbreviations)),
        truecase=all(facts.truecase for facts in all_facts),
        dotless_i=_common(facts.dotless_i for facts in all_facts),
        frequent_words=frequent_words if are_spaced else None,
    )
    return joined, sample


def with_counted_pairs(
    facts: CorpusFacts, written: Sequence[WrittenCorpus], counts: Mapping[str, int]
) -> CorpusFacts:
    """Return the joint facts with pairs that were counted in the files, not estimated.

    `counts`: the pairs of each part of all corpora.
    """
    broken = Counter[str]()
    for corpus in written:
        broken.update(corpus.facts.broken_rules)
    pairs = sum(corpus.facts.pairs for corpus in written)
    return replace(
        facts,
        pairs=pairs,
        valid=counts["valid"],
        test=counts["test"],
        broken_rules=dict(broken),
    )


def write_corpora(
    pairs: Iterable[Pair], folder: Path, name: str, place: Path | None = None
) -> list[dict[str, str]]:
    """Write the pairs of each target tag to two files; return their corpora, as settings.

    `place`: where the files will be, if the folder is a draft.
    """
    by_tag: dict[str | None, list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_tag[pair.target_tag].append(pair)
    corpora: list[dict[str, str]] = []
    for tag, tagged in by_tag.items():
        stem = name if tag is None else f"{name}.{tag}"
        corpus: dict[str, str] = {}
        for side in ("source", "target"):
            file = f"{stem}.{side}"
            write_lines(folder / file, [getattr(pair, side) for pair in tagged])
            corpus[side] = str((place or folder) / file)
        corpora.append(corpus if tag is None else corpus | {"target_tag": tag})
    return corpora


def _common(values: Iterable[str | None]) -> str | None:
    """Return the value that all corpora have; None if they differ."""
    different = set(values)
    return different.pop() if len(different) == 1 else None


def _join_samples(surveyed: Sequence[SurveyedCorpus]) -> list[Pair]:
    """Join the samples in the proportions of training, as far as there are enough pairs."""
    sizes = [corpus.facts.pairs for corpus in surveyed]
    sampled_pairs = sum(len(corpus.sample) for corpus in surveyed)
    joined: list[Pair] = []
    for corpus, size, weight in zip(surveyed, sizes, balance(sizes), strict=True):
        # The weight says how often each pair of the corpus is drawn in an epoch.
        share_of_epoch = weight * size / sum(sizes)
        # A sample that is too small gives all its pairs.
        joined += corpus.sample[: math.ceil(share_of_epoch * sampled_pairs)]
    return joined


def balance(pairs: Sequence[int]) -> list[float]:
    """Return the weight of each corpus in an epoch, from its number of pairs.

    A pair of corpus l is drawn with p_l ∝ n_l^(1/T) (Arivazhagan et al. 2019), where T is
    TEMPERATURE. The weights are scaled so that an epoch has as many pairs as all corpora together.
    """
    sizes = [max(1, size) for size in pairs]
    total = sum(sizes)
    # Ratios, so that the weights of equal corpora are exactly 1.
    powers = [(size / max(sizes)) ** (1 / TEMPERATURE) for size in sizes]
    return [total * power / (sum(powers) * size) for size, power in zip(sizes, powers, strict=True)]
