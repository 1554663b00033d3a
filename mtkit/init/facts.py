"""What `mtkit init` learns of a corpus from a sample: sizes, vocabularies, and kinds of lines."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mtkit.config.language_codes import dotless_side
from mtkit.config.settings import TokenizerSettings
from mtkit.corpus.check import CorpusReport
from mtkit.corpus.languages import main_script
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import Languages
from mtkit.decoding.text.case import has_no_case
from mtkit.decoding.text.sentences import learn_abbreviations, split_sentences
from mtkit.init.partition import Partition

MAX_CASELESS = 0.02
"""Largest share of lines without case that a model may have seen, if lines are to be truecased."""
MAX_SEVERAL = 0.05
"""From this share of lines with several sentences on, a model learns to translate such lines."""
MIN_TRIED = 100
"""Fewest held-out pairs whose sentences are representative; otherwise all pairs are examined."""
_DIGIT = re.compile(r"\d")
MIN_USES = 5
"""Fewest uses of a word from which a model can learn it."""


@dataclass(frozen=True)
class CorpusFacts:
    """Facts about a corpus, for the plan and the config."""

    pairs: int
    """Number of training pairs without repeated and faulty ones."""
    valid: int
    test: int
    is_joint: bool
    """Whether both sides share a vocabulary."""
    characters: int
    """Number of different characters that the larger vocabulary must cover."""
    has_repeated_pairs: bool = False
    broken_rules: Mapping[str, int] = field(default_factory=dict)
    """The rules that training should apply, with the estimated number of pairs that each drops."""
    sentences: str | None = None
    """The language whose rules split lines into sentences; None: do not split."""
    abbreviations: str = ""
    """Words of the source whose full stop does not end a sentence, separated by spaces."""
    truecase: bool = False
    dotless_i: str | None = None
    """The sides whose language has ı, as in the decoding settings."""
    frequent_words: int | None = None
    """Estimated number of words with at least MIN_USES uses, of the larger vocabulary.

    None if a side puts no spaces between words.
    """
    max_vocabulary: int | None = None
    """The largest vocabulary that can be trained on the text, if known."""

    def counted(self, distinct_pairs: int) -> CorpusFacts:
        """Return the facts with estimates that add up to the counted number of distinct pairs.

        These are the pairs of the training files, before training drops faulty ones.
        """
        estimated = self.pairs + sum(self.broken_rules.values())
        scale = distinct_pairs / max(1, estimated)
        broken = {rule: round(scale * count) for rule, count in self.broken_rules.items()}
        pairs = distinct_pairs - sum(broken.values())
        return replace(self, pairs=pairs, broken_rules=broken)


def describe_corpus(
    report: CorpusReport, partition: Partition, languages: Languages, existing: Mapping[str, int]
) -> tuple[CorpusFacts, list[Pair]]:
    """Return the facts of a corpus, and a sample of the training pairs without faulty ones.

    Counts are estimated from the sample; `existing`: pairs in validation and test sets of the user.
    """
    statistics = report.statistics[0]  # `init` reads one corpus
    drawn = statistics.sample
    scale = report.distinct_pairs / max(1, len(drawn))
    by_part: dict[str, list[Pair]] = defaultdict(list)
    for part, pair in partition.divide(drawn):
        by_part[part].append(pair)
    broken = [partition.broken_rule(pair) for pair in by_part["train"]]
    sample = [pair for pair, rule in zip(by_part["train"], broken, strict=True) if rule is None]
    dropped = Counter(broken)
    sources = [pair.source for pair in sample]
    targets = [pair.target for pair in sample]

    is_joint = main_script(sources) == main_script(targets)
    vocabulary_texts = [sources + targets] if is_joint else [sources, targets]
    truecase = is_cased(sources)
    abbreviations = learn_abbreviations(sources)
    examined = by_part["valid"] + by_part["test"]
    if len(examined) < MIN_TRIED:
        examined += by_part["train"]

    frequent_words = None
    if statistics.source.is_spaced and statistics.target.is_spaced:
        frequent_words = round(scale * max(map(count_frequent_words, vocabulary_texts)))

    facts = CorpusFacts(
        pairs=round(scale * len(sample)),
        valid=existing.get("valid", round(scale * len(by_part["valid"]))),
        test=existing.get("test", round(scale * len(by_part["test"]))),
        is_joint=is_joint,
        characters=max(count_frequent(lines) for lines in vocabulary_texts),
        frequent_words=frequent_words,
        has_repeated_pairs=report.repeated.count > 0,
        broken_rules={rule: round(scale * dropped[rule]) for rule in report.drop},
        sentences=_splitting_language(examined, languages, abbreviations),
        abbreviations=" ".join(sorted(abbreviations)),
        truecase=truecase,
        dotless_i=dotless_side(*languages) if truecase else None,
    )
    return facts, sample


def is_cased(sources: Sequence[str]) -> bool:
    """Return whether most sources have capitals, and hardly any is in capitals or lower case only.

    A model of such sources has not learnt to translate a line in capitals, so truecasing helps.
    """
    with_capitals = sum(source != source.lower() for source in sources)
    caseless = sum(has_no_case(source) for source in sources)
    return 2 * with_capitals > len(sources) and caseless < MAX_CASELESS * len(sources)


def _splitting_language(
    pairs: Sequence[Pair], languages: Languages, abbreviations: Container[str]
) -> str | None:
    """Return the language whose rules split sources into sentences, or None to split none.

    If many lines have several sentences, the model learns such lines itself. The split is wrong if
    most of their targets are single sentences.
    """
    source_language, target_language = languages
    several = [
        pair
        for pair in pairs
        if len(split_sentences(pair.source, source_language, abbreviations)) > 1
    ]
    confirmed = sum(
        len(split_sentences(pair.target, target_language or source_language)) > 1
        for pair in several
    )
    are_rare = len(several) < MAX_SEVERAL * len(pairs)
    are_real = 2 * confirmed >= len(several)
    return source_language if are_rare and are_real else None


def count_frequent(lines: Iterable[str]) -> int:
    """Return how many of the most frequent characters cover the share that a tokenizer needs."""
    characters = Counter("".join(lines).casefold())
    counts = np.cumsum([count for _, count in characters.most_common()])
    needed = TokenizerSettings().character_coverage * characters.total()
    return int(np.searchsorted(counts, needed)) + 1


def count_frequent_words(lines: Iterable[str]) -> int:
    """Return how many strings between spaces are used MIN_USES times; numbers do not count."""
    uses = Counter(word for line in lines for word in line.split())
    return sum(count >= MIN_USES and _DIGIT.search(word) is None for word, count in uses.items())
