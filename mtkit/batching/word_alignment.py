"""Align the words of pairs, by IBM model 1 in both directions (Brown et al. 1993).

Two words are linked if each is the best partner of the other one. The probabilities are learned
from a sample of the corpus, so memory does not grow with the corpus.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.characters import is_word_character
from mtkit.corpus.text import UNSPACED_LETTER

MAX_WORDS = 100
"""Most words of a side; longer pairs are neither learned from nor aligned."""
MAX_COOCCURRENCES = 1 << 22
"""Number of word pairs in the sample, counted with repetition, at which learning stops reading."""
EM_ITERATIONS = 5
"""Steps of expectation maximisation; more would make rare words too certain."""
MIN_PROBABILITY = 0.05
"""Smallest geometric mean of both probabilities of a link."""
UNKNOWN = -1
"""The id of every word that the sample did not have."""
DISTANCE_WEIGHT = 2.0
"""How much less probable a link is if one word begins its sentence and the other one ends it.

The logarithm of the ratio; model 1 alone does not see order, and links the wrong one of two equal
words.
"""

Floats = NDArray[np.float64]
WordIds = NDArray[np.integer[Any]]
"""Ids of words or of pairs of words, or places of words in all sentences together."""


@dataclass(frozen=True)
class PlacedWord:
    """A word of a text, and its place in the text."""

    start: int
    end: int
    key: str
    """The word in lower case, as the aligner knows it."""


Splitter = Callable[[str], Sequence[int]]
"""A function that returns the offsets at which the subwords of a text begin."""


def find_words(text: str, splitter: Splitter) -> list[PlacedWord]:
    """Return the words of a text; in a script without spaces, its subwords."""
    has_unspaced = UNSPACED_LETTER.search(text) is not None
    boundaries = set(splitter(text)) if has_unspaced else set[int]()
    words: list[PlacedWord] = []
    offset = 0
    for is_word, characters in groupby(text, key=is_word_character):
        start = offset
        offset += sum(1 for _ in characters)
        if not is_word:
            continue
        cuts = [start]
        if boundaries and UNSPACED_LETTER.search(text, start, offset):
            cuts += [place for place in range(start + 1, offset) if place in boundaries]
        for begin, end in zip(cuts, [*cuts[1:], offset], strict=True):
            words.append(PlacedWord(begin, end, text[begin:end].lower()))
    return words


class WordAligner:
    """Translation probabilities of words, which link the words of a pair."""

    def __init__(self, pairs: Iterable[tuple[Sequence[PlacedWord], Sequence[PlacedWord]]]) -> None:
        """Learn from pairs of texts, until they have MAX_COOCCURRENCES word pairs."""
        self._ids: tuple[dict[str, int], dict[str, int]] = ({}, {})
        sources: list[WordIds] = []
        targets: list[WordIds] = []
        cooccurrences = 0
        for source, target in pairs:
            if not is_alignable(source, target):
                continue
            sources.append(self._learn_ids(source, side=0))
            targets.append(self._learn_ids(target, side=1))
            cooccurrences += len(source) * len(target)
            if cooccurrences >= MAX_COOCCURRENCES:
                break
        self._keys, self._probabilities = self._learn(sources, targets)

    def _learn_ids(self, words: Sequence[PlacedWord], side: int) -> WordIds:
        ids = self._ids[side]
        return np.array([ids.setdefault(word.key, len(ids)) for word in words], np.int64)

    def _learn(
        self, sources: Sequence[WordIds], targets: Sequence[WordIds]
    ) -> tuple[WordIds, Floats]:
        """Return the keys of all word pairs in ascending order, and their probabilities."""
        if not sources:
            return np.zeros(0, np.int64), np.zeros(0)
        source_sizes = np.array([len(ids) for ids in sources])
        target_sizes = np.array([len(ids) for ids in targets])
        target_words = np.concatenate(targets)
        # One row for each target word with each word of its source; places count all sentences.
        partners = np.repeat(source_sizes, target_sizes)  # rows of each target word
        target_places = np.repeat(np.arange(len(target_words), dtype=np.int32), partners)
        source_starts = source_sizes.cumsum() - source_sizes
        first_places = np.repeat(source_starts, target_sizes)
        first_rows = partners.cumsum() - partners
        # In the rows of a target word, the source place goes up by one from its first place.
        shifts = np.repeat(first_places - first_rows, partners)
        source_places = (np.arange(len(target_places)) + shifts).astype(np.int32)
        all_keys = np.concatenate(sources)[source_places] * self._factor
        all_keys += target_words[target_places]
        keys, pairs = np.unique(all_keys, return_inverse=True)
        pairs = pairs.astype(np.int32)
        source_of_key, target_of_key = np.divmod(keys, self._factor)
        forward = _expectation_maximisation(pairs, target_places, source_of_key)
        backward = _expectation_maximisation(pairs, source_places, target_of_key)
        return keys, np.sqrt(forward * backward)

    @property
    def _factor(self) -> int:
        """The key of a word pair is the id of the source word times this, plus the other id."""
        return max(1, len(self._ids[1]))

    def align(
        self, source: Sequence[PlacedWord], target: Sequence[PlacedWord]
    ) -> list[tuple[int, int]]:
        """Return links as places of words in source and target; a word has at most one link."""
        if not (len(self._keys) and is_alignable(source, target)):
            return []
        scores = self._score(source, target)
        best_targets = scores.argmax(axis=1).tolist()
        best_sources = scores.argmax(axis=0).tolist()
        links: list[tuple[int, int]] = []
        for source_place, target_place in enumerate(best_targets):
            is_mutual = best_sources[target_place] == source_place
            if is_mutual and scores[source_place, target_place] >= MIN_PROBABILITY:
                links.append((source_place, target_place))
        return links

    def _score(self, source: Sequence[PlacedWord], target: Sequence[PlacedWord]) -> Floats:
        """Return the scores of all links: (source words, target words)."""
        source_ids = self._find_ids(source, side=0)[:, None]
        target_ids = self._find_ids(target, side=1)[None, :]
        keys = source_ids * self._factor + target_ids
        # The place where each key is, or would be. The last key is in the place of larger ones.
        places = np.searchsorted(self._keys, keys)
        places = places.clip(max=len(self._keys) - 1)
        # Ids are tested as well: with UNKNOWN for a word, a key can be that of another pair.
        are_words = (source_ids != UNKNOWN) & (target_ids != UNKNOWN)
        is_pair = are_words & (self._keys[places] == keys)
        scores = np.where(is_pair, self._probabilities[places], 0.0)
        return scores * _closeness(len(source), len(target))

    def _find_ids(self, words: Sequence[PlacedWord], side: int) -> WordIds:
        """Return the id of each word; UNKNOWN if the sample did not have the word."""
        return np.array([self._ids[side].get(word.key, UNKNOWN) for word in words], np.int64)


def is_alignable(source: Sequence[PlacedWord], target: Sequence[PlacedWord]) -> bool:
    """Return whether both sides have words, and not too many: alignment takes quadratic time."""
    return 0 < len(source) <= MAX_WORDS and 0 < len(target) <= MAX_WORDS


def _expectation_maximisation(pairs: WordIds, places: WordIds, conditions: WordIds) -> Floats:
    """Return for each distinct word pair the probability of one word given the other.

    `pairs`: the distinct pair of each cooccurrence. `places`: the place of its first word, which
    chooses among all words of the other side. `conditions`: the other word of each distinct pair.
    """
    probabilities = np.ones(len(conditions))
    for _ in range(EM_ITERATIONS):
        # Sums by `bincount` are in order, so they are the same on every machine.
        weights = probabilities[pairs]
        totals = np.bincount(places, weights)
        counts = np.bincount(pairs, weights / totals[places], minlength=len(conditions))
        probabilities = counts / np.bincount(conditions, counts)[conditions]
    return probabilities


def _closeness(source_words: int, target_words: int) -> Floats:
    source_places = (np.arange(source_words) + 0.5) / source_words
    target_places = (np.arange(target_words) + 0.5) / target_words
    distances = np.abs(source_places[:, None] - target_places)
    return np.exp(-DISTANCE_WEIGHT * distances)
