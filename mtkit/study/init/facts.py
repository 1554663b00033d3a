"""What a sample shows of a corpus: its letters, its case, whether lines are single sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from mtkit.config.settings import TokenizerSettings
from mtkit.corpus.check import CorpusReport
from mtkit.corpus.read import Pair
from mtkit.decoding.casing import has_no_case
from mtkit.decoding.sentences import split_sentences
from mtkit.study.init.presets import CorpusFacts
from mtkit.study.init.split import Split


def describe_corpus(
    report: CorpusReport, split: Split, source_language: str | None, existing: Mapping[str, int]
) -> tuple[CorpusFacts, list[Pair]]:
    """Return the facts of a corpus, and a sample of the pairs to train on without faulty ones.

    Counts are estimated from the sample; `existing`: those of sets that were not held out.
    """
    drawn = [Pair(*texts, 0, "", row) for row, texts in enumerate(report.statistics.sample)]
    scale = report.distinct_pairs / max(1, len(drawn))
    placed = list(split.split(drawn))
    parts = Counter(part for part, _ in placed)
    counts = {part: round(scale * parts[part]) for part in ("valid", "test")} | dict(existing)
    sample = [pair for part, pair in placed if part == "train" and not split.is_faulty(pair)]
    sources, targets = [pair.source for pair in sample], [pair.target for pair in sample]
    characters = [Counter("".join(lines).casefold()) for lines in (sources, targets)]
    is_joint = overlap(*characters) >= 0.5
    texts = [characters[0] + characters[1]] if is_joint else characters
    facts = CorpusFacts(
        pairs=round(scale * len(sample)),
        valid=counts["valid"],
        test=counts["test"],
        is_joint=is_joint,
        characters=max(count_frequent(text) for text in texts),
        deduplicate=report.deduplicate,
        drop={rule: report.estimate(rule) for rule in report.drop},
        sentences=source_language if has_single_sentences(sources, source_language) else None,
        truecase=is_usually_cased(sources),
    )
    return facts, sample


def overlap(source: Counter[str], target: Counter[str]) -> float:
    """Return how much the distributions of the letters of two texts have in common, 0 to 1."""
    sides = [{c: n for c, n in side.items() if c.isalpha()} for side in (source, target)]
    totals = [max(1, sum(side.values())) for side in sides]
    common = sides[0].keys() & sides[1].keys()
    shares = (min(sides[0][c] / totals[0], sides[1][c] / totals[1]) for c in common)
    return sum(shares, 0.0)


def count_frequent(characters: Counter[str]) -> int:
    """Return how many of the most frequent characters cover as much text as a tokenizer does."""
    counts = np.cumsum([count for _, count in characters.most_common()])
    needed = TokenizerSettings().character_coverage * characters.total()
    return int(np.searchsorted(counts, needed)) + 1


def has_single_sentences(sources: Sequence[str], language: str | None) -> bool:
    """Return whether under 5 % of the sources have several sentences: a model then learns none."""
    several = sum(len(split_sentences(source, language)) > 1 for source in sources)
    return several < 0.05 * len(sources)


def is_usually_cased(sources: Sequence[str]) -> bool:
    """Return whether most sources have capitals, and under 2 % have only capitals, or none."""
    capitals = sum(source != source.lower() for source in sources)
    caseless = sum(has_no_case(source) for source in sources)
    return 2 * capitals > len(sources) and caseless < 0.02 * len(sources)
