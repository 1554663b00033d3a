"""The demo corpus: its files, and the laws of the grammar that wrote them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grammar import english, korean
from grammar.conjugation import Level, Stem, adnominal, attach, finite, honorific, past
from grammar.draw import Chance, ImpossibleError, Meaning
from grammar.hangul import compose, decompose
from grammar.lexicon import NOUNS, PREDICATES
from grammar.meaning import Clause, NounPhrase
from grammar.numerals import cardinal, native, ordinal, sino
from grammar.say import pair

DATA = Path(__file__).parents[2] / "data"
DEMO = Path(__file__).parents[2] / "mtkit/demo"
SIZES = {"train": 20_000, "valid": 500, "test": 500}
FILES = [f"{part}.{side}" for part in SIZES for side in ("en", "ko")]
LEVELS: tuple[Level, ...] = ("formal", "polite", "casual", "plain")
syllables = st.integers(0xAC00, 0xD7A3).map(chr)


def lines(name: str) -> list[str]:
    text = (DEMO / name).read_bytes().decode("utf-8")
    assert text.endswith("\n") and "\r" not in text and not text.startswith("\ufeff")
    return text[:-1].split("\n")


@pytest.mark.slow
def test_the_committed_text_is_what_the_generator_writes(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, DATA / "generate.py", tmp_path], check=True, env=environment)
    for name in [*FILES, "valid.align", "test.align"]:
        assert (tmp_path / name).read_bytes() == (DEMO / name).read_bytes(), name


@pytest.mark.parametrize("side", ["en", "ko"])
def test_parts_have_their_size_and_share_no_sentence(side: str) -> None:
    parts = {part: lines(f"{part}.{side}") for part in SIZES}
    assert {part: len(text) for part, text in parts.items()} == SIZES
    everything = [line for text in parts.values() for line in text]
    assert len(set(everything)) == len(everything)
    assert all(line and line == " ".join(line.split()) for line in everything)
    lengths = [len(line.split()) for line in everything]
    assert side == "ko" or (min(lengths) >= 3 and max(lengths) <= 16)


def test_english_determines_korean_in_far_more_than_was_written() -> None:
    chance, translations = Chance(7), dict[str, str]()
    while len(translations) < 3000:
        with contextlib.suppress(ImpossibleError):
            said = pair(Meaning("text", chance))
            assert translations.setdefault(said.english, said.korean) == said.korean


@pytest.mark.parametrize("part", ["valid", "test"])
def test_alignments_are_sorted_in_range_and_cover_every_korean_word(part: str) -> None:
    rows = zip(*(lines(f"{part}.{kind}") for kind in ("en", "ko", "align")), strict=True)
    for heard, said, row in rows:
        pairs = [(int(i), int(j)) for i, _, j in (each.partition("-") for each in row.split())]
        assert pairs == sorted(set(pairs))
        assert {j for _, j in pairs} == set(range(len(said.split()))), said
        assert all(0 <= i < len(heard.split()) for i, _ in pairs), heard


@given(syllables)
def test_decomposition_inverts_composition(block: str) -> None:
    assert compose(*decompose(block)) == block


@given(syllables, st.sampled_from(["은/는", "이/가", "을/를", "과/와", "아/야"]))
def test_a_particle_follows_the_last_sound(block: str, shapes: str) -> None:
    # Independently of the tables of letters: 28 divides the Unicode of open syllables.
    closed = (ord(block) - 0xAC00) % 28 != 0
    first, second = shapes.split("/")
    if (block, first) not in {("저", "이"), ("나", "이"), ("뭐", "을")}:
        assert korean.with_particle(block, first) == block + (first if closed else second)


@given(syllables)
def test_the_instrumental_takes_rieul_for_a_vowel(block: str) -> None:
    open_or_rieul = (ord(block) - 0xAC00) % 28 in (0, 8)
    assert korean.with_particle(block, "으로") == block + ("로" if open_or_rieul else "으로")


def test_pronouns_fuse_with_their_particle() -> None:
    fused = {("저", "이"): "제가", ("나", "이"): "내가", ("누구", "이"): "누가", ("뭐", "을"): "뭘"}
    assert all(korean.with_particle(*each) == said for each, said in fused.items())


@given(st.integers(1, 10**8 - 1))
def test_sino_korean_numerals_can_be_read_back(number: int) -> None:
    total = group = digit = 0
    for sign in sino(number).replace(" ", ""):
        if sign in "일이삼사오육칠팔구":
            digit = "일이삼사오육칠팔구".index(sign) + 1
        elif sign in "십백천":
            group, digit = group + (digit or 1) * 10 ** ("십백천".index(sign) + 1), 0
        else:
            total, group, digit = (group + digit or 1) * 10**4, 0, 0
    assert total + group + digit == number


def test_numerals() -> None:
    assert [sino(n) for n in (1, 100, 10**4, 12_500)] == ["일", "백", "만", "만 이천오백"]
    assert [native(n) for n in (1, 5, 12, 20, 21)] == ["한", "다섯", "열두", "스무", "스물한"]
    assert [ordinal(n) for n in (1, 12, 20)] == ["first", "twelfth", "twentieth"]
    assert cardinal(12_521) == "twelve thousand five hundred twenty-one"


CONJUGATIONS = [  # class (*: adjective), 해요체, past, 하십시오체, 해라체, adnominals, (으)세요
    ("먹", "", "먹어요 먹었어요 먹습니다 먹는다 먹는 먹을 먹으세요"),
    ("오", "", "와요 왔어요 옵니다 온다 오는 올 오세요"),
    ("마시", "", "마셔요 마셨어요 마십니다 마신다 마시는 마실 마시세요"),
    ("보내", "", "보내요 보냈어요 보냅니다 보낸다 보내는 보낼 보내세요"),
    ("쓰", "", "써요 썼어요 씁니다 쓴다 쓰는 쓸 쓰세요"),
    ("고르", "르", "골라요 골랐어요 고릅니다 고른다 고르는 고를 고르세요"),
    ("만들", "", "만들어요 만들었어요 만듭니다 만든다 만드는 만들 만드세요"),
    ("공부하", "", "공부해요 공부했어요 공부합니다 공부한다 공부하는 공부할 공부하세요"),
    ("굽", "ㅂ", "구워요 구웠어요 굽습니다 굽는다 굽는 구울 구우세요"),
    ("돕", "ㅂ오", "도와요 도왔어요 돕습니다 돕는다 돕는 도울 도우세요"),
    ("듣", "ㄷ", "들어요 들었어요 듣습니다 듣는다 듣는 들을 들으세요"),
    ("짓", "ㅅ", "지어요 지었어요 짓습니다 짓는다 짓는 지을 지으세요"),
    ("있", "", "있어요 있었어요 있습니다 있다 있는 있을 있으세요"),
    ("크", "*", "커요 컸어요 큽니다 크다 큰 클 크세요"),
    ("춥", "ㅂ*", "추워요 추웠어요 춥습니다 춥다 추운 추울 추우세요"),
    ("빨갛", "ㅎ*", "빨개요 빨갰어요 빨갛습니다 빨갛다 빨간 빨갈 빨가세요"),
    ("하얗", "ㅎ*", "하얘요 하얬어요 하얗습니다 하얗다 하얀 하얄 하야세요"),
    ("조용하", "*", "조용해요 조용했어요 조용합니다 조용하다 조용한 조용할 조용하세요"),
]


@pytest.mark.parametrize(("text", "irregular", "expected"), CONJUGATIONS)
def test_verbs_and_adjectives_conjugate(text: str, irregular: str, expected: str) -> None:
    stem = Stem(text, irregular.strip("*"), quality="*" in irregular)
    shown = [finite(stem, "polite"), finite(past(stem), "polite"), finite(stem, "formal")]
    shown += [finite(stem, "plain"), adnominal(stem), attach(stem, "을"), attach(stem, "으세요")]
    assert shown == expected.split()


def test_the_copulas_and_the_honorific_have_forms_of_their_own() -> None:
    for noun, forms in (
        ("학생", "학생입니다 학생이에요 학생이야 학생이다 학생이었어요"),
        ("의사", "의사입니다 의사예요 의사야 의사다 의사였어요"),
    ):
        stem = Stem(noun + "이", "이", quality=True)
        shown = [*(finite(stem, level) for level in LEVELS), finite(past(stem), "polite")]
        assert shown == forms.split()
    read = honorific(Stem("읽"))
    shown = [finite(read, level) for level in LEVELS]
    assert shown == ["읽으십니다", "읽으세요", "읽으셔", "읽으신다"]
    assert finite(honorific(Stem("의사이", "이")), "polite") == "의사세요"
    assert finite(past(Stem("아니", "아니")), "polite") == "아니었어요"


NOT, PAST, DESIRE = {"negative": True}, {"tense": "past"}, {"mode": "desire"}
SAID: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("Minsu", "know", NOT, "does not know", "몰라요"),
    ("teacher", "eat", PAST, "ate", "드셨어요"),
    ("I", "tall", PAST | {"degree": "more"}, "was taller", "키가 더 컸어요"),
    ("we", "go", {"tense": "future"}, "will go", "갈 거예요"),
    ("teacher", "swim", {"mode": "progressive"}, "is swimming", "수영하고 계세요"),
    ("father", "read", {"mode": "obligation"}, "has to read", "읽으셔야 해요"),
    ("I", "read", NOT | {"mode": "ability"}, "cannot read", "읽을 수 없어요"),
    ("Minsu", "run", NOT | PAST | {"mode": "ability"}, "could not run", "못 뛰었어요"),
    ("Mina", "run", NOT | DESIRE, "does not want to run", "뛰고 싶어 하지 않아요"),
]


@pytest.mark.parametrize(("subject", "verb", "features", "heard", "said"), SAID)
def test_predicates_say_the_same_in_both_languages(
    subject: str, verb: str, features: dict[str, Any], heard: str, said: str
) -> None:
    clause = Clause(PREDICATES[verb][0], NounPhrase(NOUNS[subject][0]), **features)
    assert [word.text for word in english.verb(clause)] == heard.split()
    assert [word.text for word in korean.predicate(clause, "", "polite")] == said.split()


def test_english_inflects() -> None:
    forms = {"dictionary": "dictionaries", "box": "boxes", "ring": "rings", "go": "goes"}
    forms |= {"study": "studies", "watch": "watches", "play": "plays", "have": "has"}
    assert {word: english.with_s(word) for word in forms} == forms
