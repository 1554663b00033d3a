"""Laws of truecasing and of emoji that the model does not know."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from architectures import transformer
from folders import SENTENCES, train, with_settings, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Hypothesis, Request
from mtkit.decoding.text.case import has_no_case, lowercase, truecase, uppercase
from mtkit.decoding.text.line import Context, Copied, Line, Segment
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.text import Text
from mtkit.decoding.text.verbatim import copy_verbatim
from mtkit.tokenizer.codec import Tokenizer

LINE = "Two men, one boat. Why? A dog runs in Spain."
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(vocab_size=350)  # every word has a subword


@pytest.fixture(scope="module")
def translator(tokenizer: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> Translator:
    """Random weights, so that different inputs have different translations."""
    folder = tmp_path_factory.mktemp("model") / "model"
    return load(write_model(folder, tokenizer, transformer(), max_length=40), "cpu", engine="torch")


TITLE = "Two Men, One Boat. Why? A Dog Runs In Spain."


@pytest.mark.parametrize("line", [LINE, LINE.upper(), LINE.lower(), TITLE])
def test_truecasing_restores_the_case_of_the_training_text(line: str, tokenizer: Tokenizer) -> None:
    assert truecase(f"  {line}\t", tokenizer) == f"  {LINE}\t"


TURKISH = ["Kızım dışarı çıktı.", "Işık yandı, iki kız baktı."]
TATAR = ["İzmirde iki kız bar.", "Iqlim yahşı, iki kız işte, kızıl."]
AZERBAIJANI = ["İki qız İsmayıllıda işıq yandırdı.", "Qızım işə getdi.", "Iğdır iki işıqdır."]


@pytest.mark.parametrize("lines", [TURKISH, AZERBAIJANI, TATAR])
@pytest.mark.parametrize("dotless_i", [True, None])
def test_truecasing_restores_dotted_and_dotless_i(lines: list[str], dotless_i: bool | None) -> None:
    tokenizer = train(lines, vocab_size=335)
    for line in lines:
        capitals = uppercase(line, dotless_i=True)
        for text in capitals, capitals.replace("İ", "I\u0307"), lowercase(line, dotless_i=True):
            assert truecase(text, tokenizer, dotless_i=dotless_i) == line


def test_letters_of_other_languages_are_not_dotless() -> None:
    tokenizer = train(["It is in Izmir.", *TURKISH], vocab_size=350)
    assert truecase("IT IS IN IZMIR.", tokenizer, dotless_i=False) == "It is in Izmir."
    assert lowercase("İI") == "ii" and uppercase("iı") == "II"


@given(st.text(st.sampled_from("abIİiıəğ ."), max_size=20))
def test_capitals_and_small_letters_of_turkish_correspond(text: str) -> None:
    capitals = uppercase(text, dotless_i=True)
    assert lowercase(capitals, dotless_i=True) == lowercase(text, dotless_i=True)
    assert uppercase(lowercase(capitals, dotless_i=True), dotless_i=True) == capitals


@pytest.mark.parametrize(
    ("side", "dotted"), [(None, False), ("source", False), ("target", True), ("both", True)]
)
def test_a_translation_in_capitals_dots_the_i_of_a_turkish_target(
    translator: Translator, side: Literal["source", "target", "both"] | None, dotted: bool
) -> None:
    text, tokenizer = "It is in Spain.", translator.tokenizer
    settings = translator.request.settings.model_copy(update={"truecase": True, "dotless_i": side})
    request = replace(translator.request, settings=settings)
    line = Line(text.upper())
    answer = Hypothesis(tokenizer.encode_target([text])[0], -1.0, True)
    (actual,) = open_window([line], tokenizer, request).join([[answer]])
    assert actual.text == ("IT İS İN SPAİN." if dotted else "IT IS IN SPAIN.")


def test_no_sentence_begins_after_an_abbreviation() -> None:
    lines = ["The man sees Mr. the mayor.", "We see the man, the mayor, the dog."] * 9
    tokenizer = train(lines, vocab_size=305)
    line = "THE MAN SEES MR. THE MAYOR."
    assert truecase(line, tokenizer) == "The man sees Mr. The mayor."
    assert truecase(line, tokenizer, abbreviations="Dr Mr") == "The man sees Mr. the mayor."


def test_truecasing_leaves_words_alone_that_the_tokenizer_does_not_know(
    tokenizer: Tokenizer,
) -> None:
    assert truecase("two men in xqzw.", tokenizer) == "Two men in xqzw."
    assert truecase("TWO MEN, ZQ-7 AND 500 KG.", tokenizer).startswith("Two men, ZQ-7")


def test_capitals_of_the_training_text_stay(tokenizer: Tokenizer) -> None:
    loud = train([line.upper() for line in SENTENCES], vocab_size=350)
    assert truecase(LINE.upper(), loud) == LINE.upper()
    mixed = train([*SENTENCES, "Two men of NATO.", "NATO runs."], vocab_size=350)
    assert truecase("TWO MEN OF NATO.", mixed) == "Two men of NATO."


@pytest.mark.parametrize(
    "line",
    [
        *(LINE, "It rains.", "Will you go to Spain?", "So Two Dogs ran In New York"),
        *("Hey, Anna is in Spain.", "我买了一张CD。", "ラジオはfm", "3:0", ""),
    ],
)
def test_ordinary_lines_have_case(line: str) -> None:
    assert not has_no_case(line)


@given(st.text(max_size=40))
@example("ǅ ẞ ŉ İSTANBUL ΣΊΣΥΦΟΣ")
@example("TWO MEN\u2028RUN\x85IN")
@example("Two\u2028Mend Runs\x85In")
def test_truecasing_only_ever_saves_subwords(tokenizer: Tokenizer, line: str) -> None:
    actual = truecase(line, tokenizer)
    now, before = tokenizer.encode_source([actual, line])
    assert actual == line or (has_no_case(line) and len(now) < len(before))
    assert re.findall(r"\s+", actual) == re.findall(r"\s+", line)


@pytest.mark.parametrize("settings", [{}, {"sentences": "en"}, {"max_length": 3}])
def test_a_truecased_line_is_translated_like_the_ordinary_one(
    translator: Translator, settings: dict[str, Any]
) -> None:
    truecased = with_settings(translator, **settings, truecase=True)
    as_it_is, *others = truecased.translate([LINE, LINE.lower(), TITLE, LINE.upper()])
    assert as_it_is.strip()
    assert others == [as_it_is, as_it_is, as_it_is.upper()]
    assert with_settings(translator, **settings).translate([LINE.upper()]) != others[-1:]


@pytest.mark.slow
@pytest.mark.parametrize(
    "emoji", ["😀", "👍🏽", FAMILY, "🏳️‍🌈", "☕️", "🇰🇷🇩🇪", *"⏰⌛⏩", "▶️", "↗️", "1️⃣", "©️", "‼️", "㊗️"]
)
def test_unknown_emoji_are_copied_in_place(translator: Translator, emoji: str) -> None:
    before, after = "Two men, one boat.", "A dog runs."
    lines = [before, after, f"{before} {emoji}", f"{emoji}{after}", emoji]
    first, second, *actual = translator.translate([*lines, f"{before}{emoji} {after} {emoji}"])
    assert actual == [
        f"{first} {emoji}",
        f"{emoji} {second}",
        emoji,
        f"{first} {emoji} {second} {emoji}",
    ]


def test_punctuation_beside_emoji_is_copied(translator: Translator) -> None:
    lines = ["A dog runs", "Two men."]
    lines += ["A dog runs 😀.", "“😀” A dog runs", "A dog runs 😀 !\u2028😀\t… Two men."]
    first, _, *actual = translator.translate([*lines, "😀?!", "1️⃣."])
    assert actual == [
        f"{first} 😀.",
        f"“😀 {translator.translate(['” A dog runs'])[0]}",
        f"{first} 😀 ! 😀 {translator.translate(['… Two men.'])[0]}",
        "😀?!",
        "1️⃣.",
    ]
    (copied,) = parts_of(" ?! ", translator.tokenizer)
    assert isinstance(copied, Copied) and copied.text.string == "?!"


def parts_of(text: str, tokenizer: Tokenizer) -> Sequence[Segment | Copied]:
    """Return what becomes of a text: parts that are translated, and parts that are copied."""
    segment = Segment(Text.of_line(text), Line(text))
    return copy_verbatim(segment, Context(tokenizer, Request(DecodingSettings())))


@pytest.mark.parametrize(
    ("line", "words", "emoji"),
    [
        ("It 😀 rains on 🙃 the plain.", "It rains on the plain.", "😀 🙃"),
        ("Two men😀one boat.", "Two men one boat.", "😀"),
        ("我😀爱你。", "我爱你。", "😀"),
        ("비가 ☕️ 온다", "비가 온다", "☕️"),
        (f"A {FAMILY} dog runs", "A dog runs", FAMILY),
    ],
)
def test_an_emoji_within_a_sentence_leaves_its_words_together(
    translator: Translator, line: str, words: str, emoji: str
) -> None:
    parts = parts_of(line, translator.tokenizer)
    (sentence,) = [part for part in parts if isinstance(part, Segment)]
    assert sentence.string == words
    for letter, place in zip(words, sentence.text.origin, strict=True):
        assert letter == line[place] or (letter == " " and not line[place].isspace())
    assert " ".join(part.text.string for part in parts if isinstance(part, Copied)) == emoji
    (actual,) = translator.results([line], translator.request.changed(alignments=True))
    written = actual.text.split()
    for number, word in enumerate(line.split()):
        if actual.alignment and word in emoji.split():  # it is aligned to itself alone
            assert [written[j] for i, j in actual.alignment if i == number] == [word]


def test_known_emoji_are_translated() -> None:
    knowing = train(["I see you. 😀", "We see them. 😀"], vocab_size=290)
    (known,) = parts_of("I see you. 😀", knowing)
    assert isinstance(known, Segment) and known.string == "I see you. 😀"
    sentence, unknown = parts_of("I see you. 🙃", knowing)
    assert isinstance(sentence, Segment) and sentence.string == "I see you."
    assert isinstance(unknown, Copied) and unknown.text.string == "🙃"


def test_a_prefix_disables_truecasing_and_emoji(translator: Translator) -> None:
    lines = [Line(text, prefix="Why? It") for text in (LINE.upper(), f"😀 {LINE}")]
    actual = translator.translate(lines, truecase=True)
    assert all(text.startswith("Why? It") for text in actual)


def test_alignments_count_the_words_of_the_original_line(translator: Translator) -> None:
    line = f"  😀 {LINE.upper()} {FAMILY} WHY? "
    request = translator.request.changed(sentences="en", truecase=True, alignments=True)
    (actual,) = translator.results([line], request)
    words, written = line.split(), actual.text.split()
    assert written.count("😀") == written.count(FAMILY) == 1
    for i, j in actual.alignment:
        for emoji in ("😀", FAMILY):
            assert (words[i] == emoji) == (written[j] == emoji)


def test_letters_without_capitals_stay() -> None:
    assert uppercase("ძაღლი and ß") == "ძაღლი AND SS"
