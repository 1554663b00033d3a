"""Laws of the overlap: which test pairs training has seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.scoring.overlap import find_overlap

WORDS = st.sampled_from(["Yes", "yes!", "No", "はい", "ไม่", "№ 5", ""])
PAIRS = st.lists(st.builds(lambda s, t: Pair(s, t, 0, "", 1), WORDS, WORDS), max_size=8)


@given(PAIRS, PAIRS)
def test_a_text_is_seen_if_its_words_stand_on_the_same_side(
    tests: list[Pair], training: list[Pair]
) -> None:
    overlap = find_overlap(tests, iter(training))
    for side, found in (("source", overlap.sources), ("target", overlap.targets)):
        trained = {normalised(getattr(pair, side)) for pair in training}
        assert found == [normalised(getattr(pair, side)) in trained for pair in tests]
    sides = zip(overlap.sources, overlap.targets, strict=True)
    assert overlap.pairs == [any(found) for found in sides]


@pytest.mark.parametrize(
    ("tested", "trained"),
    [
        ("Guten Tag!", "guten tag"),
        ("ＡＢＣ　ｄｅｆ", "abc def"),
        ("你好世界。", "你好世界"),
        ("Ça va ?", "ça va"),
    ],
)
def test_case_width_and_punctuation_hide_no_overlap(tested: str, trained: str) -> None:
    overlap = find_overlap([Pair(tested, "x", 0, "", 1)], [Pair(trained, "y", 0, "", 1)])
    assert (overlap.sources, overlap.targets) == ([True], [False])
    assert str(overlap).startswith("1 source and 0 targets of 1 test pair ")
