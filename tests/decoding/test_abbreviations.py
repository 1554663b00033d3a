"""Words whose full stop ends no sentence are learned from the corpus."""

from __future__ import annotations

import pytest

from mtkit.decoding.text.sentences import learn_abbreviations

PLAIN = [
    "It runs.",
    "A dog runs. A cat sleeps.",
    "Two men run.",
    "It runs. It is a dog.",
    "We talk.",
    "It runs.",
]


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("Mlle", "Je vois Mlle. Dupont dans la rue."),
        ("art", "selon l'art. 5 du code civil."),
        ("Av", "A Av. Brasil é longa."),
        ("tzw", "To jest tzw. dobra zmiana."),
        ("ул", "Он живёт на ул. Ленина."),
        ("πχ", "Φρούτα, πχ. Μήλα και αχλάδια."),
        ("մ", "Քրիստոսից մ. Թվական։"),
        ("دکتر", "او دکتر. احمدی را دید."),
    ],
)
def test_a_word_that_always_has_a_full_stop_inside_lines_is_an_abbreviation(
    word: str, line: str
) -> None:
    assert learn_abbreviations([*PLAIN, line, line, line]) == {word}
    assert learn_abbreviations([*PLAIN, line, line]) == set()


def test_words_at_the_ends_of_sentences_are_no_abbreviations() -> None:
    """Neither in lines of one sentence nor in lines of several."""
    assert learn_abbreviations(PLAIN * 5) == set()
    assert learn_abbreviations([*PLAIN, *(f"{line} {line}" for line in PLAIN)] * 3) == set()
