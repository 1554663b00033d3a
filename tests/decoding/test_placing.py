"""Laws of placing: no demand is lost, whatever the alignment and the places of other demands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.decoding.text.demands import Demand
from mtkit.decoding.text.placing import AlignedTokens, place_demands
from mtkit.decoding.text.text import Text
from mtkit.decoding.text.words import Words, tokens_of

LINE = "foo<br/><b>bar x y</b>"
READ = Text("foobar x y", [0, 1, 2, *range(11, 18)])
"""What a model would read if the tags were only taken away: a tag and a pair share a word."""
DEMANDS = [
    Demand(3, 8, "<br/>", stand_in=""),
    Demand(8, 11, "<b>", stand_in="", pair=8),
    Demand(18, 22, "</b>", stand_in="", pair=8),
]


@given(written=st.text("abc ", max_size=12), seed=st.integers(0, 1000))
def test_a_lone_tag_and_a_pair_at_one_word_are_both_placed(written: str, seed: int) -> None:
    source = Words(tokens_of(READ.string))
    target = Words(tokens_of(written))
    shape = (len(target.ranges), len(source.ranges))
    weights = np.random.default_rng(seed).random(shape) if target.ranges else None
    text = place_demands(
        Text.of_line(written, len(LINE)),
        line=LINE,
        read=READ,
        demands=DEMANDS,
        tokens=AlignedTokens(source, target, weights),
    ).string
    for demand in DEMANDS:
        assert text.count(demand.text) == 1
    assert text.index("<b>") < text.index("</b>")


@pytest.mark.parametrize(
    ("noun", "expected"),
    [([0.4, 0.5], "Kerl sitzt"), ([0.2, 0.7], "Kerl Mann sitzt"), ([0.8, 0.2], "Kerl sitzt")],
)
def test_a_word_that_no_source_word_needs_goes_with_the_article_that_has_its_alignment(
    noun: list[float], expected: str
) -> None:
    read = "Man sits"
    written = "Ein Mann sitzt"
    text = place_demands(
        Text.of_line(written, len(read)),
        line=read,
        read=Text.of_line(read),
        demands=[Demand(0, 3, "Kerl")],
        tokens=AlignedTokens(
            Words(tokens_of(read)), Words(tokens_of(written)), np.array([[1, 0], noun, [0, 1]])
        ),
    )
    assert text.string == expected


def test_a_pair_does_not_hide_a_tag_before_it() -> None:
    source = Words(tokens_of(READ.string))
    target = Words(tokens_of("foobar x y"))
    text = place_demands(
        Text.of_line("foobar x y", len(LINE)),
        line=LINE,
        read=READ,
        demands=DEMANDS,
        tokens=AlignedTokens(source, target, np.eye(3)),
    )
    assert text.string == "<br/><b>foobar x y</b>"


def test_a_pair_whose_word_is_the_best_of_no_token_surrounds_its_best_token() -> None:
    weights = np.array([[0.6, 0.4, 0.0], [0.7, 0.2, 0.1], [0.0, 0.2, 0.8]])
    text = place_demands(
        Text.of_line("foobar x y", len("foo <b>bar</b> x")),
        line="foo <b>bar</b> x",
        read=Text("foo bar x", [0, 1, 2, 3, 7, 8, 9, 14, 15]),
        demands=[
            Demand(4, 7, "<b>", stand_in="", pair=4),
            Demand(10, 14, "</b>", stand_in="", pair=4),
        ],
        tokens=AlignedTokens(
            Words(tokens_of("foo bar x")), Words(tokens_of("foobar x y")), weights
        ),
    )
    assert text.string == "<b>foobar</b> x y"
