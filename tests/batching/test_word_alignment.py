"""Words are linked by IBM model 1, as a plain implementation of its equations links them."""

from __future__ import annotations

import math
from collections import defaultdict
from random import Random

import pytest

from mtkit.batching import word_alignment
from mtkit.batching.word_alignment import (
    DISTANCE_WEIGHT,
    EM_ITERATIONS,
    MAX_WORDS,
    MIN_PROBABILITY,
    PlacedWord,
    WordAligner,
    find_words,
)

Sentence = list[str]
Pairs = list[tuple[Sentence, Sentence]]
Probabilities = dict[tuple[str, str], float]


def words_of(text: str) -> list[PlacedWord]:
    return find_words(text, lambda text: [])


def corpus(seed: int, size: int) -> Pairs:
    """Return sentences of made-up words, and their translations word by word in another order."""
    random = Random(seed)
    vocabulary = [f"word{number}" for number in range(30)]
    pairs: Pairs = []
    for _ in range(size):
        source = random.sample(vocabulary, random.randint(1, 7))
        target = [word.replace("word", "wort") for word in source]
        random.shuffle(target)
        pairs.append((source, target))
    return pairs


def aligner_of(pairs: Pairs) -> WordAligner:
    return WordAligner((words_of(" ".join(s)), words_of(" ".join(t))) for s, t in pairs)


def expectation_maximisation(pairs: Pairs) -> Probabilities:
    """Return P(target word | source word) by the equations of the paper, without vectors."""
    probability: Probabilities = defaultdict(lambda: 1.0)
    for _ in range(EM_ITERATIONS):
        counts: Probabilities = defaultdict(float)
        totals: dict[str, float] = defaultdict(float)
        for source, target in pairs:
            for target_word in target:
                total = sum(probability[word, target_word] for word in source)
                for word in source:
                    share = probability[word, target_word] / total
                    counts[word, target_word] += share
                    totals[word] += share
        probability = defaultdict(float, {key: n / totals[key[0]] for key, n in counts.items()})
    return probability


def test_links_are_those_of_a_plain_implementation() -> None:
    pairs = corpus(1, 60)
    forward = expectation_maximisation(pairs)
    backward = expectation_maximisation([(target, source) for source, target in pairs])

    def score(source: Sentence, target: Sentence, row: int, column: int) -> float:
        product = forward[source[row], target[column]] * backward[target[column], source[row]]
        distance = abs((row + 0.5) / len(source) - (column + 0.5) / len(target))
        return math.sqrt(product) * math.exp(-DISTANCE_WEIGHT * distance)

    aligner = aligner_of(pairs)
    for source, target in pairs:
        scores = {
            (row, column): score(source, target, row, column)
            for row in range(len(source))
            for column in range(len(target))
        }
        expected = []
        for (row, column), value in scores.items():
            is_best_of_row = value == max(scores[row, other] for other in range(len(target)))
            is_best_of_column = value == max(scores[other, column] for other in range(len(source)))
            if is_best_of_row and is_best_of_column and value >= MIN_PROBABILITY:
                expected.append((row, column))
        links = aligner.align(words_of(" ".join(source)), words_of(" ".join(target)))
        assert links == expected


def test_words_that_always_occur_together_are_linked() -> None:
    pairs = corpus(2, 400)
    aligner = aligner_of(pairs)
    for source, target in pairs:
        for row, column in aligner.align(words_of(" ".join(source)), words_of(" ".join(target))):
            assert target[column] == source[row].replace("word", "wort")


def test_a_word_has_at_most_one_link() -> None:
    aligner = aligner_of(corpus(3, 50))
    links = aligner.align(words_of("word1 word1 word2"), words_of("wort2 wort1 wort1 wort1"))
    assert len({row for row, _ in links}) == len({column for _, column in links}) == len(links)


def test_case_does_not_matter() -> None:
    aligner = aligner_of(corpus(4, 200))
    assert aligner.align(words_of("WORD1"), words_of("Wort1")) == [(0, 0)]


def test_unknown_and_too_many_words_have_no_links() -> None:
    aligner = aligner_of(corpus(5, 50))
    assert aligner.align(words_of("new"), words_of("neu")) == []
    assert aligner.align([], words_of("wort1")) == []
    long = words_of("word1 " * (MAX_WORDS + 1))
    assert aligner.align(long, words_of("wort1")) == []
    assert WordAligner([]).align(words_of("word1"), words_of("wort1")) == []


def test_learning_stops_after_enough_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_alignment, "MAX_COOCCURRENCES", 20)
    pairs = iter(corpus(6, 1000))
    aligner_of(pairs)  # type: ignore[arg-type]
    assert len(list(pairs)) > 900


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A dog, 2 cats!", ["A", "dog", "2", "cats"]),
        ("कुत्ता दौड़ता है।", ["कुत्ता", "दौड़ता", "है"]),
        ("", []),
        ("...", []),
    ],
)
def test_words_are_letters_marks_and_numbers(text: str, words: list[str]) -> None:
    found = words_of(text)
    assert [text[word.start : word.end] for word in found] == words


def test_scripts_without_spaces_are_cut_where_subwords_begin() -> None:
    text = "我喜欢 DVD 光盘，你呢"
    subwords = [0, 1, 3, 5, 8, 10, 11, 12]  # also within DVD, which is a word
    found = find_words(text, lambda text: subwords)
    words = [text[word.start : word.end] for word in found]
    assert words == ["我", "喜欢", "DVD", "光盘", "你", "呢"]
