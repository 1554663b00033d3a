"""Laws of exposure: which test pairs training has seen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.corpus.exposure import Exposure
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised

WORDS = st.sampled_from(["Yes", "yes!", "No", "はい", "ไม่", "№ 5", ""])
PAIRS = st.lists(st.builds(lambda s, t: Pair(s, t, 0, "", 1), WORDS, WORDS), max_size=8)


@given(PAIRS, PAIRS)
def test_a_text_is_seen_if_its_words_stand_on_the_same_side(
    tests: list[Pair], training: list[Pair]
) -> None:
    exposure = Exposure.of(tests, iter(training))
    for seen, side in ((exposure.sources, "source"), (exposure.targets, "target")):
        trained = {normalised(getattr(pair, side)) for pair in training}
        assert seen == [normalised(getattr(pair, side)) in trained for pair in tests]
    assert exposure.is_seen == [
        a or b for a, b in zip(exposure.sources, exposure.targets, strict=True)
    ]


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
    exposure = Exposure.of([Pair(one, "x", 0, "", 1)], [Pair(other, "y", 0, "", 1)])
    assert (exposure.sources, exposure.targets) == ([True], [False])
    assert str(exposure).startswith("1 source and 0 targets of 1 test pair ")
