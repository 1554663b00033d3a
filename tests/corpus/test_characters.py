"""Laws of predicates on characters, and of all that decides by them, in every script."""

from __future__ import annotations

import unicodedata
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folders import train
from mtkit.corpus.characters import (
    count_letters,
    has_case,
    has_letters,
    is_in_capitals,
    is_in_small_letters,
    is_letter,
    is_mark,
    is_number,
    is_sign,
    is_space,
    letters_and_marks,
    longest_run_of_letters,
)
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import RULES, normalised
from mtkit.corpus.statistics import compute_statistics
from mtkit.corpus.text import normalise
from mtkit.decoding.text.case import has_no_case, lowercase, truecase
from mtkit.decoding.text.sentences import split_sentences
from mtkit.tokenizer.codec import Tokenizer
from scripts import SAMPLES, Sample

OF_ONE_TEXT = ["letters", "glued", "markup", "mojibake", "script", "repetition"]
SPLIT = [name for name, sample in SAMPLES.items() if sample.second]
CASED = ["Latin", "Latin, Vietnamese", "Latin, Yoruba", "Cyrillic", "Greek", "Armenian"]


@pytest.fixture(scope="module")
def latin() -> Tokenizer:
    return train(normalization_rule_name="identity")


def of(name: str) -> Sample:
    return SAMPLES[name]


@given(st.characters())
def test_every_character_is_of_one_kind_at_most(character: str) -> None:
    kinds = (is_letter, is_mark, is_number, is_space, is_sign)
    is_control = category(character)[0] == "C"
    count = sum(kind(character) for kind in kinds)
    assert count == 1 or (is_control and count <= 1)


@given(st.text(st.characters(codec="ascii")))
def test_in_ascii_the_predicates_are_those_of_python(text: str) -> None:
    assert [is_letter(each) for each in text] == [each.isalpha() for each in text]
    assert [is_number(each) for each in text] == [each.isdigit() for each in text]
    assert [has_case(each) for each in text] == [each.isalpha() for each in text]
    assert [is_space(each) for each in text] == [each.isspace() for each in text]
    assert is_in_capitals(text) == text.isupper()
    assert is_in_small_letters(text) == text.islower()


@given(st.text())
def test_letters_and_marks_are_the_letters_with_what_stands_on_them(text: str) -> None:
    kept = letters_and_marks(text)
    letters = "".join(filter(is_letter, text))
    assert "".join(filter(is_letter, kept)) == letters
    assert count_letters(text) == len(letters)
    assert has_letters(text) == (count_letters(text) > 0)
    assert longest_run_of_letters(text) <= len(kept)


def test_letters_that_begin_no_sentence_as_capitals_have_no_case() -> None:
    assert not any(map(has_case, "აბგᎠªƻʰ中कا"))
    assert all(map(has_case, "aAßǅжΣև"))


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sentence_of_any_script_is_text(name: str) -> None:
    for sentence in of(name)[1:]:
        visible = [character for character in sentence if not is_space(character)]
        assert has_letters(sentence) == bool(sentence)
        assert len(letters_and_marks(sentence)) >= 0.7 * len(visible)
        assert letters_and_marks(normalise(sentence)) == letters_and_marks(sentence)


# The shad of Tibetan ends clauses, too, so that a line is not split there.
@pytest.mark.parametrize("name", [name for name in SPLIT if name != "Tibetan"])
def test_two_sentences_of_any_script_are_split(name: str) -> None:
    language, first, second = of(name)
    assert split_sentences(f"{first} {second}", language) == [first, second]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sentence_has_its_usual_case_in_any_script(name: str, latin: Tokenizer) -> None:
    sentence = of(name).first
    assert not has_no_case(sentence)
    assert truecase(sentence, latin) == sentence
    assert has_no_case(lowercase(sentence)) == (name in CASED)
    assert has_no_case(sentence.upper()) == (name in [*CASED, "Georgian"])


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sound_pair_of_any_script_breaks_no_rule(name: str) -> None:
    _, first, second = of(name)
    english = SAMPLES["Latin"]
    pairs = [
        Pair(f"{source} {number}", f"{target} {number}", 0, "file", number)
        for number in range(30)
        for source, target in [(english.first, first), (english.second, second or first)]
    ]
    statistics = compute_statistics(pairs)
    broken = {rule.name for rule in RULES for pair in pairs if rule.check(pair, statistics)}
    assert not broken.intersection(OF_ONE_TEXT)


@pytest.mark.parametrize("name", SAMPLES)
def test_the_normalised_form_keeps_all_letters_and_marks(name: str) -> None:
    sentence = of(name).first
    folded = unicodedata.normalize("NFKC", sentence).casefold()
    assert letters_and_marks(normalised(sentence)) == letters_and_marks(folded)


@pytest.mark.parametrize("name", SAMPLES)
def test_glued_words_are_found_in_scripts_with_marks(name: str) -> None:
    sentence = of(name).first
    glued = letters_and_marks(sentence) * 3
    assert longest_run_of_letters(glued) == len(glued)
