"""Laws of exposure: which test pairs training has seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.scoring.overlap import describe_exposure, find_exposure

WORDS = st.sampled_from(["Yes", "yes!", "No", "はい", "ไม่", "№ 5", ""])
PAIRS = st.lists(st.builds(lambda s, t: Pair(s, t, 0, "", 1), WORDS, WORDS), max_size=8)


@given(PAIRS, PAIRS)
def test_a_text_is_seen_if_its_words_stand_on_the_same_side(
    tests: list[Pair], training: list[Pair]
) -> None:
    exposure = find_exposure(tests, iter(training))
    for place, side in enumerate(("source", "target")):
        trained = {normalised(getattr(pair, side)) for pair in training}
        expected = [normalised(getattr(pair, side)) in trained for pair in tests]
        assert [seen[place] for seen in exposure] == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Guten Tag!", "guten tag"),
        ("ＡＢＣ　ｄｅｆ", "abc def"),
        ("你好世界。", "你好世界"),
        ("Ça va ?", "ça va"),
    ],
)
def test_case_width_and_punctuation_hide_no_leak(one: str, other: str) -> None:
    exposure = find_exposure([Pair(one, "x", 0, "", 1)], [Pair(other, "y", 0, "", 1)])
    assert exposure == [(True, False)]
    assert describe_exposure(exposure).startswith("1 source and 0 targets of 1 test pair ")
