"""A translation memory: the baseline that copies the target of the most similar training source.

A model that is no better than this baseline does no more than a look-up in the training data. The
baseline does not depend on the vocabulary of the model: it compares words, or characters if the
sources are written without spaces.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import chain

import numpy as np

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.progress import progress
from mtkit.scoring.writing import Writing

MAX_COMPARISONS = 250_000_000
"""Most comparisons of a sentence with a training source; they take about half a minute."""
MIN_SAMPLED, MAX_SAMPLED = 10_000, 250_000
"""Fewest and most training pairs that are compared, if there are more."""


def count_compared(sentences: int) -> int:
    """Return how many training pairs can be compared with so many sentences in bounded time."""
    size = MAX_COMPARISONS // max(1, sentences)
    return min(MAX_SAMPLED, max(MIN_SAMPLED, size))


def group_by_tag(pairs: Sequence[Pair]) -> dict[str | None, list[int]]:
    """Return the rows of the pairs with each target tag, sorted by tag."""
    rows: dict[str | None, list[int]] = {}
    for row, pair in enumerate(pairs):
        rows.setdefault(pair.target_tag, []).append(row)
    return dict(sorted(rows.items(), key=lambda item: item[0] or ""))


def translate_each_by_memory(pairs: Sequence[Pair], training: Sequence[Pair]) -> list[str]:
    """Translate the sources by the memory, each by the training pairs with the same target tag."""
    targets = [""] * len(pairs)
    for tag, rows in group_by_tag(pairs).items():
        of_tag = [pair for pair in training if pair.target_tag == tag]
        memory = translate_by_memory([pairs[row].source for row in rows], of_tag)
        for row, target in zip(rows, memory, strict=True):
            targets[row] = target
    return targets


def translate_by_memory(sources: Sequence[str], training: Sequence[Pair]) -> list[str]:
    """Return the target of the training source that is most similar to each source.

    The similarity is the Dice coefficient of the sets of terms, which are words or characters. Each
    term has a weight: the negative logarithm of its relative frequency in the training sources.
    Without training pairs, each target is empty.
    """
    if not training:
        return [""] * len(sources)
    has_words = Writing.of(None, sources).has_words
    searched = [_terms(source, has_words=has_words) for source in sources]
    trained = [_terms(pair.source, has_words=has_words) for pair in training]
    counts = Counter(chain.from_iterable(trained))
    known = counts.keys() | set(chain.from_iterable(searched))
    # Counts start from 1, so that a term that training lacks has a weight.
    total = counts.total() + len(known)
    weights = {term: math.log(total / (counts[term] + 1)) for term in known}
    rows_by_term: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
    for row, terms in enumerate(trained):
        for term in terms:
            rows_by_term[term].append(row)
    trained_weights = np.array([sum(weights[term] for term in terms) for terms in trained])

    targets: list[str] = []
    with progress("searching the training data", len(sources), "sentences") as bar:
        for terms in searched:
            common = np.zeros(len(training))
            for term in terms:
                common[np.asarray(rows_by_term[term])] += weights[term]
            both = trained_weights + sum(weights[term] for term in terms)
            # Two empty sentences have nothing in common: 0, not 0/0.
            similarity = 2 * common / np.maximum(both, 1e-9)
            targets.append(training[int(similarity.argmax())].target)
            bar.advance()
    return targets


def _terms(text: str, *, has_words: bool) -> list[str]:
    """Return the distinct words, or characters, of a text; sorted, because sums are rounded."""
    words = normalised(text).split()
    return sorted(set(words if has_words else "".join(words)))
