"""Laws of the normal form of texts, and of text that is already split."""

from __future__ import annotations

import sys
import unicodedata
from typing import Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mtkit.corpus.text import MAX_MARKS, compose, in_one_line, is_blank, is_presplit, normalise

any_text = st.text(st.characters(exclude_categories=["Cs"]))
spaced = st.text("aé \t\n\r\u2028\xa0\u3000\u0301", max_size=12)


@given(any_text | spaced)
@example("a\u2028\u0301")
def test_the_normal_form_is_a_fixed_point(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(any_text | spaced)
def test_only_spaces_and_composition_change(text: str) -> None:
    composed = unicodedata.normalize("NFC", text)
    assert normalise(text).split() == composed.split()
    assert "\n" not in normalise(text)


@given(any_text | spaced)
def test_white_space_around_a_text_changes_nothing(text: str) -> None:
    assert normalise(f"\t x{text}x \n") == normalise(f"x{text}x")


@given(any_text)
def test_canonically_equivalent_texts_have_one_form(text: str) -> None:
    assert normalise(unicodedata.normalize("NFD", text)) == normalise(text)


MARKS = "\u0300\u0301\u0327\u0344\u0345\u05b0\u05bc\u0f71\u0f72\u0f73\u0f74\u0f81\u3099\uff9e"
LETTERS = "aéがｶ가\u1161\u0958 "
Form = Literal["NFC", "NFKC"]
forms = st.sampled_from(["NFC", "NFKC"])


def letters_with_marks(least: int, most: int) -> st.SearchStrategy[str]:
    marks = st.text(MARKS, min_size=least, max_size=most)
    return st.lists(st.tuples(st.sampled_from(LETTERS), marks).map("".join)).map("".join)


@given(any_text | letters_with_marks(0, MAX_MARKS), forms)
def test_composed_texts_are_in_the_normal_form_of_unicode(text: str, form: Form) -> None:
    assert compose(text, form) == unicodedata.normalize(form, text)


@given(letters_with_marks(0, 2 * MAX_MARKS), forms)
def test_texts_with_long_runs_of_marks_are_composed_as_far_as_possible(
    text: str, form: Form
) -> None:
    composed = compose(text, form)
    assert compose(composed, form) == composed
    assert unicodedata.normalize(form, composed) == unicodedata.normalize(form, text)


def test_only_long_runs_of_marks_stay_as_they_are() -> None:
    run = "\u0300\u0327" * MAX_MARKS
    assert compose(f"e\u0301 a{run}e\u0301") == f"é a{run}é"


@pytest.mark.parametrize("form", ["NFC", "NFKC"])
def test_every_character_that_becomes_a_mark_counts_as_a_mark(form: Form) -> None:
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.combining(unicodedata.normalize(form, character)[0]):
            run = f"{character * MAX_MARKS}\u0300\u0327"
            assert compose(run, form) == run


@pytest.mark.parametrize(
    "text", ["5\xa0km", "10\u202f000", "東京\u3000大阪", "می\u200cروم", "m²", "½", "№ 5", "ﬁ，"]
)
def test_characters_that_only_look_alike_stay(text: str) -> None:
    assert normalise(text) == text


@given(any_text)
def test_text_with_a_letter_of_a_living_script_is_not_blank(text: str) -> None:
    assert not is_blank(f"{text}я")
    assert is_blank(text) == all(map(is_blank, text))


@pytest.mark.parametrize(
    "code", [0x20, 0xA0, 0xAD, 0x200B, 0x200D, 0x2060, 0x3000, 0x3164, 0xFE0F, 0xFEFF, 0xE0020, 0x7]
)
def test_invisible_characters_are_blank(code: int) -> None:
    assert is_blank(chr(code) * 2)


@given(any_text)
def test_one_line_stays_one_line(text: str) -> None:
    assert len(in_one_line(f"{text}.").splitlines()) == 1
    assert len(in_one_line(text)) == len(text)


NATURAL = [
    "The dog didn't see John's cat, did it?",
    "« Pourquoi ? » demanda-t-il ; elle se tut : rien !",
    "Er läuft ... schnell. 3,5 % der Leute – etwa 50 – kamen.",
    "¿Dónde está? ¡Aquí!",
    "他喜欢苹果，也喜欢茶。",
    "东京 2020 年奥运会 DJ 很好",
    "犬が走る。 猫は寝る。",
    "วันนี้อากาศดีมาก เราไปเที่ยวกันไหม พรุ่งนี้ก็ได้ ไม่เป็นไร",
    "나는 어제 학교 에 갔다.",
    "वह घर जाता है । वह आता है ।",
    "می\u200cروم به خانه.",
    "See ## Heading and a@b.org, @@mention or 5 > 3.",
    "Ġorġ u Ġanna Ġew il-Ġimgħa Ġdida.",
    "The '90s were great, weren't they?",
]


@pytest.mark.parametrize("line", NATURAL)
def test_natural_text_is_not_taken_for_split_text(line: str) -> None:
    assert not is_presplit(line)


@pytest.mark.parametrize(
    "line",
    [
        "A dog runs .",
        "However , he came",
        "Il n &apos; a rien",
        "the well @-@ known dog",
        "he did n't go",
        "John 's dog runs",
        "-LRB- sic -RRB-",
        "我 喜欢 苹果 和 茶",
        "犬 が 走る 。",
        "วันนี้ อากาศ ดี มาก",
        "يذهب إلى البيت ، ثم يعود",
        "the gar@@ den is gre@@ en",
        "я чит@@ аю кни@@ ги",
        "▁the ▁gar den",
        "the gar ##den",
        "the Ġgarden Ġis Ġgreen Ġ.",
        "gar ￭den",
        "the</w> gar den</w>",
        "我 喜@@ 欢",
    ],
)
def test_tokenised_text_and_subwords_are_recognised(line: str) -> None:
    assert is_presplit(line)
