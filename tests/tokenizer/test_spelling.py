"""Laws of how a source is spelled with the characters of the vocabulary."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from folders import train
from mtkit.corpus.characters import count_letters, is_letter
from mtkit.corpus.text import normalise
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.spelling import UnknownLetters
from scripts import SAMPLES

ALPHABET = "abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def learn(*lines: str) -> Tokenizer:
    options = {"normalization_rule_name": "identity", "hard_vocab_limit": False}
    return train(list(lines), vocab_size=400, character_coverage=1.0, **options)


@pytest.fixture(scope="module")
def typed() -> Tokenizer:
    """A vocabulary of text as it is typed, in ASCII."""
    return learn(ALPHABET, 'It\'s "a" - 0123456789 (b), c: d; e? f! g... * / 5 % &')


@pytest.fixture(scope="module")
def printed() -> Tokenizer:
    """A vocabulary of text as it is printed."""
    return learn(ALPHABET, "It’s “a” – b… • c — d")


@pytest.fixture(scope="module")
def romanian() -> Tokenizer:
    return learn(ALPHABET, "ăâîșțȘȚ -")


@pytest.fixture(scope="module")
def russian() -> Tokenizer:
    return learn("абвгдежзийклмнопрстуфхцчшщъыьэюя", "«а» — 0123456789.")


@pytest.fixture(scope="module")
def persian() -> Tokenizer:
    return learn("ابپتجچحخدذرزژسشصضطظعغفقکگلمنوهی", "۰۱۲۳۴۵۶۷۸۹ «ا»، ا؟ ا؛ ا.")


NEAREST_OF_TYPED = [
    ("It’s “a” „b‟ ‹c› «d» ‘e’ 「f」", 'It\'s "a" "b" "c" "d" \'e\' "f"'),
    ("It´s it`s itʼs it′s 5″", "It's it's it's it's 5\""),
    ("a – b ‐ c ‑ d ‒ e − f", "a - b - c - d - e - f"),
    ("a—b — c―d", "a - b - c - d"),
    ("10–12 a–b", "10-12 a-b"),
    ("a… b‥", "a... b.."),
    ("a\u2003b\u202fc\u200bd\u3000e\u00ad\u2060f", "a b cd ef"),
    ("a • b ‣ c ▪ d ◦ e", "a * b * c * d * e"),
    ("Ａｂ１％ ﬁne 𝐁𝐨𝐥𝐝 𝒾𝓉 ⓐ ⅷ", "Ab1% fine Bold it a viii"),
    ("١٢٣ ۴۵ ६७ ๘๙ 𝟎 ❶ ½", "123 45 67 89 0 1 1/2"),
    (
        "café naïve Ångström Łódź smørrebrød İzmir ılık",
        "cafe naive Angstrom Lodz smorrebrod Izmir ilik",
    ),
    ("straße Æsop œuvre", "strasse AEsop oeuvre"),
    ("e\u0301 o\u0323\u0300 n\u0303 z\u0351\u036b", "e o n z"),
    ("\u0301a", "a"),
    ("a，b；c？d！e：f（g）", "a,b;c?d!e:f(g)"),
    ("a؟ b، c؛ d。 e、", "a? b, c; d. e,"),
]
NEAREST_OF_PRINTED = [
    ('It\'s "a" b', "It’s “a” b"),
    ('("a" b) - "c"', "(“a” b) – “c”"),
    ("It's 'a'", "It’s ’a’"),
    ("« a »", "“ a ”"),
    ("a · b ∙ c", "a • b • c"),
]


@pytest.mark.parametrize(("line", "expected"), NEAREST_OF_TYPED)
def test_printed_signs_are_read_as_typed_ones(line: str, expected: str, typed: Tokenizer) -> None:
    assert typed.source_spelling.respell(line) == expected
    assert typed.encode_source([line]) == typed.encode_source([expected])
    assert typed.source_spelling.unknown_letters(line) == ""


@pytest.mark.parametrize(("line", "expected"), NEAREST_OF_PRINTED)
def test_typed_signs_are_read_as_printed_ones(line: str, expected: str, printed: Tokenizer) -> None:
    assert printed.source_spelling.respell(line) == expected


def test_letters_that_fonts_draw_alike_stand_for_each_other(
    romanian: Tokenizer, persian: Tokenizer
) -> None:
    assert romanian.source_spelling.respell("şi ţară Ş Ţ á") == "și țară Ș Ț a"
    assert persian.source_spelling.respell("علي كتاب ى") == "علی کتاب ی"


def test_marks_and_stretching_that_the_vocabulary_lacks_are_left_out(
    russian: Tokenizer, persian: Tokenizer
) -> None:
    assert (
        russian.source_spelling.respell("за\u0301мок и замо\u0301к, ёлка") == "замок и замок, елка"
    )
    assert persian.source_spelling.respell("سَلام ســـلام") == "سلام سلام"


def test_digits_are_read_as_those_of_the_vocabulary(persian: Tokenizer) -> None:
    assert persian.source_spelling.respell("12 ٣٤ ५") == "۱۲ ۳۴ ۵"


def test_quotes_of_each_language_are_read_as_those_of_the_vocabulary(russian: Tokenizer) -> None:
    assert russian.source_spelling.respell('"а" “б” „в“ - г') == "«а» «б» «в» — г"


def test_a_wide_quotation_mark_is_double() -> None:
    spelling = learn(ALPHABET, "‘a’ “b”").source_spelling
    assert spelling.respell("＂a＂") == "“a”"
    assert learn(ALPHABET, "＂a＂").source_spelling.respell("It’s “a”") == "It’s ＂a＂"


@pytest.mark.parametrize("word", ["сор", "книга", "мир", "РЕМОНТ", "АО"])
def test_a_word_of_another_script_is_not_read_by_its_looks(word: str, typed: Tokenizer) -> None:
    assert typed.source_spelling.respell(word) == word
    assert typed.source_spelling.respell(f"the {word} is") == f"the {word} is"
    assert typed.source_spelling.unknown_letters(f"the {word} is") == word


def test_a_letter_of_another_script_within_a_word_stays_and_counts_as_unknown(
    typed: Tokenizer,
) -> None:
    assert typed.source_spelling.respell("pаypal") == "pаypal"
    assert typed.source_spelling.unknown_letters("pаypal") == "а"


def test_a_tokenizer_that_was_sent_to_another_process_spells_alike(typed: Tokenizer) -> None:
    line = NEAREST_OF_TYPED[0][0]
    expected = typed.encode_source([line])
    assert pickle.loads(pickle.dumps(typed)).encode_source([line]) == expected


@pytest.mark.parametrize("sign", "€§→♪∞©°×÷{}[]<>=+#@~^|\\_")
def test_a_sign_without_a_near_one_stays(sign: str, typed: Tokenizer) -> None:
    assert typed.source_spelling.respell(f"a {sign} b") == f"a {sign} b"


def test_capitals_are_read_as_small_letters_if_the_vocabulary_has_no_capitals() -> None:
    spelling = learn("abcdefghijklmnopqrstuvwxyz é").source_spelling
    assert spelling.respell("Déjà Vu, É") == "déja vu, é"


def test_the_script_of_a_vocabulary_is_kept_in_bytes_whole(typed: Tokenizer) -> None:
    """A tokenizer that knows no letter of a script can still learn it from bytes."""
    for name, sample in SAMPLES.items():
        if not name.startswith("Latin"):
            words = "".join(filter(is_letter, sample.first))
            assert typed.source_spelling.unknown_letters(sample.first) == words


any_text = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="▁"),
        st.sampled_from("aeb \u0301\u0323\u0327'\"“”«»—–-…•аеоАԱ١1ـşș\u200b"),
    )
)


@given(line=any_text)
@example(line="a\u0323\u0302e\u0302\u0323")
@example(line="о\u0301 a—а")
def test_respelled_text_does_not_change_again(
    line: str, typed: Tokenizer, printed: Tokenizer, romanian: Tokenizer, persian: Tokenizer
) -> None:
    for tokenizer in (typed, printed, romanian, persian):
        for text in (line, normalise(line)):
            respelled = tokenizer.source_spelling.respell(text)
            assert tokenizer.source_spelling.respell(respelled) == respelled


@given(line=any_text)
def test_text_that_the_vocabulary_can_spell_never_changes(
    line: str, typed: Tokenizer, persian: Tokenizer
) -> None:
    for tokenizer in (typed, persian):
        if tokenizer.can_spell(line):
            assert tokenizer.source_spelling.respell(line) == line
        known = "".join(character for character in line if tokenizer.can_spell(character))
        assert tokenizer.source_spelling.respell(known) == known


@given(line=any_text)
def test_respelled_characters_keep_their_places(line: str, typed: Tokenizer) -> None:
    spelling = typed.source_spelling
    respelled = spelling.respell(line)
    origins = spelling.origins(line)
    assert len(origins) == len(respelled)
    assert origins == sorted(origins)
    for character, origin in zip(respelled, origins, strict=True):
        if typed.can_spell(line[origin]) and character != " ":
            following = line[origin + 1 : origin + 2]
            assert character == line[origin] or not typed.can_spell(following)
    offsets = typed.source_offsets(line)
    assert len(offsets) == len(typed.encode_source([line])[0])
    assert offsets == sorted(offsets)


@given(lines=st.lists(any_text, max_size=4))
def test_the_share_of_unknown_letters_is_over_all_lines(lines: list[str], typed: Tokenizer) -> None:
    unknown = [typed.source_spelling.unknown_letters(line) for line in lines]
    counted = UnknownLetters()
    for number, line in enumerate(lines):
        counted.count(count_letters(line), unknown[number], f"line {number}")
    letters = count_letters("".join(lines))
    assert counted.share == len("".join(unknown)) / max(letters, 1)
    assert (counted.example == "") == ("".join(unknown) == "")
