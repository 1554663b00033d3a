"""The demo corpus: its files, and the laws of the grammar that wrote them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import mtkit.demo
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mtkit.demo import temporal
from mtkit.demo.conjugation import (
    Irregular,
    Level,
    Stem,
    adnominal,
    copula,
    finite,
    honorific,
    imperative,
    infinitive,
    past,
    prospective,
    with_consonant,
    with_eu,
)
from mtkit.demo.english import article, cardinal, compared, gerund, ordinal, plural, third_singular
from mtkit.demo.grammar import realise
from mtkit.demo.hangul import compose, decompose
from mtkit.demo.korean import Particle, attach, month, native, native_prenominal, sino
from mtkit.demo.meaning import (
    Adjunct,
    Clause,
    Determiner,
    Mode,
    Mood,
    NounPhrase,
    Relation,
    Sentence,
    Tense,
)
from mtkit.demo.nouns import WHAT, WHO, YOU, I, nouns
from mtkit.demo.predicates import ADJECTIVES, DITRANSITIVE, INTRANSITIVE, STATIVE, TRANSITIVE

FOLDER = Path(mtkit.demo.__file__).parent
SIZES = {"train": 20_000, "valid": 500, "test": 500}
syllables = st.integers(0xAC00, 0xD7A3).map(chr)


def lines(name: str) -> list[str]:
    text = (FOLDER / name).read_bytes().decode("utf-8")
    assert text.endswith("\n") and "\r" not in text and not text.startswith("\ufeff")
    return text[:-1].split("\n")


def test_the_committed_text_is_what_the_generator_writes(tmp_path: Path) -> None:
    copy = tmp_path / "demo"
    shutil.copytree(FOLDER, copy, ignore=shutil.ignore_patterns("*.en", "*.ko", "*.align", "__*"))
    (copy / "__init__.py").touch()
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, copy / "generate.py"], check=True, env=environment)
    names = [f"{part}.{side}" for part in SIZES for side in ("en", "ko")]
    for name in [*names, "valid.align", "test.align"]:
        assert (copy / name).read_bytes() == (FOLDER / name).read_bytes(), name


@pytest.mark.parametrize("side", ["en", "ko"])
def test_parts_have_their_size_and_share_no_sentence(side: str) -> None:
    parts = {part: lines(f"{part}.{side}") for part in SIZES}
    assert {part: len(text) for part, text in parts.items()} == SIZES
    everything = [line for text in parts.values() for line in text]
    assert len(set(everything)) == len(everything)
    assert all(line and line == " ".join(line.split()) for line in everything)


def test_english_sentences_are_of_moderate_length() -> None:
    lengths = [len(line.split()) for part in SIZES for line in lines(f"{part}.en")]
    assert min(lengths) >= 3 and max(lengths) <= 16
    assert 7 <= sum(lengths) / len(lengths) <= 9


@pytest.mark.parametrize("part", ["valid", "test"])
def test_alignments_are_sorted_in_range_and_cover_every_korean_word(part: str) -> None:
    rows = zip(*(lines(f"{part}.{kind}") for kind in ("en", "ko", "align")), strict=True)
    for english, korean, row in rows:
        pairs = [(int(i), int(j)) for i, _, j in (each.partition("-") for each in row.split())]
        assert pairs == sorted(set(pairs))
        assert {j for _, j in pairs} == set(range(len(korean.split()))), korean
        assert all(0 <= i < len(english.split()) for i, _ in pairs), english


@given(syllables)
def test_decomposition_inverts_composition(block: str) -> None:
    assert compose(decompose(block)) == block


@given(syllables, st.sampled_from(["은/는", "이/가", "을/를", "과/와", "아/야"]))
def test_a_particle_follows_the_last_sound(block: str, pair: str) -> None:
    # Independently of the jamo tables: Unicode gives each open syllable a code divisible by 28.
    closed = (ord(block) - 0xAC00) % 28 != 0
    first, second = pair.split("/")
    if (block, pair) not in {("저", "이/가"), ("나", "이/가"), ("뭐", "을/를")}:
        assert attach(block, Particle(pair)) == block + (first if closed else second)


@given(syllables)
def test_the_instrumental_takes_rieul_for_a_vowel(block: str) -> None:
    closed = (ord(block) - 0xAC00) % 28 not in (0, 8)
    assert attach(block, Particle.INSTRUMENTAL) == block + ("으로" if closed else "로")


def test_pronouns_fuse_with_their_particle() -> None:
    assert attach("저", Particle.NOMINATIVE) == "제가"
    assert attach("나", Particle.NOMINATIVE) == "내가"
    assert attach("누구", Particle.NOMINATIVE) == "누가"
    assert attach("뭐", Particle.ACCUSATIVE) == "뭘"
    assert attach("지하철", Particle.INSTRUMENTAL) == "지하철로"


@given(st.integers(1, 10**12 - 1))
def test_sino_korean_numerals_can_be_read_back(number: int) -> None:
    digits = dict(zip("일이삼사오육칠팔구", range(1, 10), strict=True))
    total = group = digit = 0
    for sign in sino(number).replace(" ", ""):
        if sign in digits:
            digit = digits[sign]
        elif sign in "십백천":
            group, digit = group + (digit or 1) * 10 ** ("십백천".index(sign) + 1), 0
        else:
            total, group, digit = (
                total + (group + digit or 1) * 10 ** (8 if sign == "억" else 4),
                0,
                0,
            )
    assert total + group + digit == number


def test_numerals() -> None:
    assert [sino(n) for n in (1, 10, 15, 21, 100, 10_000, 12_500)] == (
        ["일", "십", "십오", "이십일", "백", "만", "만 이천오백"]
    )
    assert [native(n) for n in (1, 5, 11, 20, 21, 99)] == (
        ["하나", "다섯", "열하나", "스물", "스물하나", "아흔아홉"]
    )
    assert [native_prenominal(n) for n in (1, 2, 3, 4, 5, 12, 20, 21, 23, 30)] == (
        ["한", "두", "세", "네", "다섯", "열두", "스무", "스물한", "스물세", "서른"]
    )
    assert [month(n) for n in (1, 6, 10, 12)] == ["일월", "유월", "시월", "십이월"]


@given(st.integers(1, 99))
def test_only_the_last_member_of_a_prenominal_numeral_shortens(number: int) -> None:
    short = {1: "한", 2: "두", 3: "세", 4: "네"}
    stem = native(number - number % 10) if number >= 10 else ""
    if number % 10 in short:
        assert native_prenominal(number) == stem + short[number % 10]
    elif number != 20:
        assert native_prenominal(number) == native(number)


@given(st.integers(1, 12), st.integers(0, 59), st.sampled_from(["morning", "afternoon"]))
def test_clock_times_take_native_hours_and_sino_korean_minutes(h: int, m: int, part: str) -> None:
    minutes = {0: "", 30: " 반"}.get(m, f" {sino(m)} 분" if m else "")
    expected = f"{'오전' if part == 'morning' else '오후'} {native_prenominal(h)} 시{minutes}에"
    assert " ".join(word for word, _ in temporal.clock(h, m, part).korean) == expected


CONJUGATIONS = [  # stem, 해요체, past 해요체, 하십시오체, present adnominal, (으)ㄹ, (으)세요
    ("먹", "", "먹어요 먹었어요 먹습니다 먹는 먹을 먹으세요"),
    ("가", "", "가요 갔어요 갑니다 가는 갈 가세요"),
    ("오", "", "와요 왔어요 옵니다 오는 올 오세요"),
    ("마시", "", "마셔요 마셨어요 마십니다 마시는 마실 마시세요"),
    ("배우", "", "배워요 배웠어요 배웁니다 배우는 배울 배우세요"),
    ("보내", "", "보내요 보냈어요 보냅니다 보내는 보낼 보내세요"),
    ("되", "", "돼요 됐어요 됩니다 되는 될 되세요"),
    ("쉬", "", "쉬어요 쉬었어요 쉽니다 쉬는 쉴 쉬세요"),
    ("쓰", "", "써요 썼어요 씁니다 쓰는 쓸 쓰세요"),
    ("모으", "", "모아요 모았어요 모읍니다 모으는 모을 모으세요"),
    ("만들", "", "만들어요 만들었어요 만듭니다 만드는 만들 만드세요"),
    ("살", "", "살아요 살았어요 삽니다 사는 살 사세요"),
    ("공부하", "", "공부해요 공부했어요 공부합니다 공부하는 공부할 공부하세요"),
    ("굽", "ㅂ", "구워요 구웠어요 굽습니다 굽는 구울 구우세요"),
    ("돕", "ㅂ오", "도와요 도왔어요 돕습니다 돕는 도울 도우세요"),
    ("듣", "ㄷ", "들어요 들었어요 듣습니다 듣는 들을 들으세요"),
    ("걷", "ㄷ", "걸어요 걸었어요 걷습니다 걷는 걸을 걸으세요"),
    ("짓", "ㅅ", "지어요 지었어요 짓습니다 짓는 지을 지으세요"),
    ("부르", "르", "불러요 불렀어요 부릅니다 부르는 부를 부르세요"),
    ("고르", "르", "골라요 골랐어요 고릅니다 고르는 고를 고르세요"),
    ("있", "", "있어요 있었어요 있습니다 있는 있을 있으세요"),
]


@pytest.mark.parametrize(("text", "irregular", "expected"), CONJUGATIONS)
def test_verbs_conjugate(text: str, irregular: str, expected: str) -> None:
    stem = Stem(text, Irregular(irregular))
    assert expected.split() == [
        finite(stem, Level.POLITE),
        finite(past(stem), Level.POLITE),
        finite(stem, Level.FORMAL),
        adnominal(stem),
        prospective(stem),
        imperative(stem, Level.POLITE),
    ]


@pytest.mark.parametrize(
    ("text", "irregular", "expected"),
    [
        ("크", "", "커요 컸어요 큰"),
        ("바쁘", "", "바빠요 바빴어요 바쁜"),
        ("작", "", "작아요 작았어요 작은"),
        ("길", "", "길어요 길었어요 긴"),
        ("춥", "ㅂ", "추워요 추웠어요 추운"),
        ("빨갛", "ㅎ", "빨개요 빨갰어요 빨간"),
        ("하얗", "ㅎ", "하얘요 하얬어요 하얀"),
        ("빠르", "르", "빨라요 빨랐어요 빠른"),
        ("조용하", "", "조용해요 조용했어요 조용한"),
        ("맛있", "", "맛있어요 맛있었어요 맛있는"),
    ],
)
def test_adjectives_conjugate(text: str, irregular: str, expected: str) -> None:
    stem = Stem(text, Irregular(irregular), adjective=True)
    forms = [finite(stem, Level.POLITE), finite(past(stem), Level.POLITE), adnominal(stem)]
    assert forms == expected.split()


def test_the_copula_and_the_honorific_have_forms_of_their_own() -> None:
    assert [finite(copula(noun), level) for noun in ("학생", "의사") for level in Level] == (
        ["학생입니다", "학생이에요", "학생이야", "의사입니다", "의사예요", "의사야"]
    )
    assert finite(past(copula("학생")), Level.POLITE) == "학생이었어요"
    assert finite(past(copula("의사")), Level.POLITE) == "의사였어요"
    read = honorific(Stem("읽"))
    assert [finite(read, level) for level in Level] == ["읽으십니다", "읽으세요", "읽으셔"]
    assert finite(honorific(copula("의사")), Level.POLITE) == "의사세요"
    negative = Stem("아니", Irregular.NEGATIVE_COPULA)
    assert finite(past(negative), Level.POLITE) == "아니었어요"
    assert imperative(Stem("말"), Level.FORMAL) == "마십시오"


@given(syllables)
def test_eu_falls_after_a_vowel_and_rieul_only(block: str) -> None:
    closed = (ord(block) - 0xAC00) % 28 not in (0, 8)
    assert with_eu(Stem(block), "으러") == block + ("으러" if closed else "러")
    assert with_consonant(Stem(block), "고") == block + "고"
    assert finite(Stem(block), Level.POLITE) == infinitive(Stem(block)) + "요"


def test_english_inflects() -> None:
    assert [plural(n) for n in ("child", "knife", "dictionary", "box", "police officer")] == (
        ["children", "knives", "dictionaries", "boxes", "police officers"]
    )
    assert [third_singular(v) for v in ("go", "study", "watch", "look for", "play")] == (
        ["goes", "studies", "watches", "looks for", "plays"]
    )
    assert [gerund(v) for v in ("make", "run", "see", "write", "turn on", "fix")] == (
        ["making", "running", "seeing", "writing", "turning on", "fixing"]
    )
    assert [compared(a, "er") for a in ("big", "cute", "white", "heavy", "famous", "good")] == (
        ["bigger", "cuter", "whiter", "heavier", None, "better"]
    )
    assert [article(w) for w in ("apple", "university", "house", "old")] == ["an", "a", "a", "an"]
    assert [ordinal(n) for n in (1, 12, 20, 23)] == [
        "first",
        "twelfth",
        "twentieth",
        "twenty-third",
    ]
    assert cardinal(12_500) == "twelve thousand five hundred"


VERBS = {each.english: each for each in (*TRANSITIVE, *INTRANSITIVE, *STATIVE)}
GIVE = next(verb for verb in DITRANSITIVE if verb.english == "give")
QUALITIES = {each.english: each for each in ADJECTIVES}


def the(name: str, determiner: Determiner = Determiner.THE) -> NounPhrase:
    noun = nouns(name)[0]
    return NounPhrase(noun, Determiner.NONE if noun.bare else determiner)


def bought_by(name: str) -> NounPhrase:
    relative = Clause(VERBS["buy"], the(name), tense=Tense.PAST)
    return NounPhrase(nouns("hat")[0], Determiner.THE, relative=relative)


SELF = NounPhrase(I)
PAIRS = [
    (
        Clause(VERBS["lose"], SELF, bought_by("Minsu"), tense=Tense.PAST),
        "I lost the hat that Minsu bought.",
        "저는 민수가 산 모자를 잃어버렸어요.",
        "0-0 1-4 3-3 5-1 6-2",
    ),
    (
        Clause(VERBS["lose"], SELF, bought_by("professor"), tense=Tense.PAST),
        "I lost the hat that the professor bought.",
        "저는 교수님께서 사신 모자를 잃어버렸어요.",
        "0-0 1-4 3-3 6-1 7-2",
    ),
    (
        Clause(VERBS["drink"], the("teacher"), the("coffee", Determiner.NONE), tense=Tense.PAST),
        "The teacher drank coffee.",
        "선생님은 커피를 드셨어요.",
        "1-0 2-2 3-1",
    ),
    (
        Clause(
            GIVE,
            SELF,
            NounPhrase(nouns("rose")[0], plural=True, count=20),
            (Adjunct(the("mother", Determiner.MY), Relation.RECIPIENT),),
            tense=Tense.PAST,
        ),
        "I gave twenty roses to my mother.",
        "저는 우리 어머니께 장미를 스무 송이 드렸어요.",
        "0-0 1-6 2-4 3-3 3-5 4-2 5-1 6-2",
    ),
    (
        Clause(VERBS["know"], the("Sora"), the("song"), negative=True),
        "Sora does not know the song.",
        "소라는 노래를 몰라요.",
        "0-0 1-2 2-2 3-2 5-1",
    ),
    (
        Clause(VERBS["sleep"], SELF, tense=Tense.PAST, mode=Mode.ABILITY, negative=True),
        "I could not sleep.",
        "저는 못 잤어요.",
        "0-0 1-1 2-1 3-2",
    ),
    (
        Clause(VERBS["study"], the("Jihun"), the("math"), mode=Mode.DESIRE, negative=True),
        "Jihun does not want to study math.",
        "지훈은 수학을 공부하고 싶어 하지 않아요.",
        "0-0 1-5 2-5 3-3 3-4 4-3 4-4 5-2 6-1",
    ),
    (
        Clause(VERBS["read"], the("grandmother", Determiner.MY), the("book"), mode=Mode.OBLIGATION),
        "My grandmother has to read the book.",
        "우리 할머니는 책을 읽으셔야 해요.",
        "0-0 1-1 2-4 3-4 4-3 6-2",
    ),
    (
        Clause(
            QUALITIES["fast"],
            the("train"),
            adjuncts=(Adjunct(the("taxi"), Relation.STANDARD),),
        ),
        "The train is faster than the taxi.",
        "기차는 택시보다 더 빨라요.",
        "1-0 2-3 3-2 3-3 4-1 6-1",
    ),
    (
        Clause(QUALITIES["tall"], the("Minjun"), negative=True),
        "Minjun is not tall.",
        "민준은 키가 크지 않아요.",
        "0-0 1-3 2-3 3-1 3-2",
    ),
]


@pytest.mark.parametrize(("clause", "english", "korean", "alignment"), PAIRS)
def test_statements(clause: Clause, english: str, korean: str, alignment: str) -> None:
    pair = realise(Sentence(clause))
    assert (pair.english, pair.korean) == (english, korean)
    assert " ".join(f"{i}-{j}" for i, j in pair.alignment) == alignment


@pytest.mark.parametrize(
    ("level", "vocative", "english", "korean"),
    [
        (Level.FORMAL, "Sir,/a = 선생님,/a", "Sir, what", "선생님, 무엇을 사셨습니까?"),
        (Level.POLITE, "", "What", "무엇을 샀어요?"),
        (Level.CASUAL, "Jihun,/a = 지훈아,/a", "Jihun, what", "지훈아, 뭘 샀어?"),
    ],
)
def test_the_address_sets_the_level(level: Level, vocative: str, english: str, korean: str) -> None:
    asked = NounPhrase(WHAT, interrogative=True)
    clause = Clause(VERBS["buy"], NounPhrase(YOU), asked, tense=Tense.PAST)
    address = temporal.tied(vocative) if vocative else None
    pair = realise(Sentence(clause, Mood.QUESTION, level, address))
    assert (pair.english, pair.korean) == (f"{english} did you buy?", korean)


def test_a_questioned_subject_is_nominative() -> None:
    clause = Clause(VERBS["meet"], NounPhrase(WHO, interrogative=True), the("Yuna"))
    pair = realise(Sentence(clause, Mood.QUESTION))
    assert (pair.english, pair.korean) == ("Who meets Yuna?", "누가 유나를 만나요?")
