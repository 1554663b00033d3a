"""Laws of the translation memory: it finds the most similar training source."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest

from mtkit.corpus.read import Pair
from mtkit.scoring.memory import translate_by_memory

WORDS = ["the", "a", "Dog", "cat", "runs", "sleeps,", "on", "under", "grass", "roof."]
LETTERS = "他今天在家看书我明学校"


def similarity(one: set[str], other: set[str], weights: dict[str, float]) -> float:
    """Return the Dice coefficient of two sets of weighted terms."""
    common, both = (sum(weights[i] for i in of) for of in (one & other, list(one) + list(other)))
    return 2 * common / both if both else 0.0


def pairs_of(sources: list[str]) -> list[Pair]:
    return [Pair(source, f"target {row}", 0, "file", row) for row, source in enumerate(sources)]


@pytest.mark.parametrize("separator", [" ", ""])
def test_the_nearest_source_is_that_of_an_exhaustive_search(separator: str) -> None:
    """By words where spaces separate them, and by characters where none do."""
    generator = random.Random(1)
    vocabulary = list(LETTERS) if separator == "" else WORDS
    trained = [
        separator.join(generator.choices(vocabulary, k=generator.randint(1, 6))) for _ in range(50)
    ]
    unheard = "Xx" if separator else "龘"
    sources = [
        separator.join(generator.choices([*vocabulary, unheard], k=generator.randint(0, 6)))
        for _ in range(10)
    ]

    def terms(text: str) -> set[str]:
        words = text.lower().replace(",", " ").replace(".", " ").split()
        return set(words) if separator else set("".join(words))

    counts = Counter(term for text in trained for term in terms(text))
    known = counts.keys() | {term for text in sources for term in terms(text)}
    total = counts.total() + len(known)
    weights = {term: math.log(total / (counts[term] + 1)) for term in known}
    memory = translate_by_memory(sources, pairs_of(trained))
    for source, target in zip(sources, memory, strict=True):
        exact = [similarity(terms(source), terms(text), weights) for text in trained]
        assert exact[int(target.split()[1])] == pytest.approx(max(exact), abs=1e-12)


def test_nothing_is_similar_to_a_memory_without_pairs() -> None:
    assert translate_by_memory(["a dog", ""], []) == ["", ""]
