"""Rules on the text of pairs: what each accuses, and what it is too fair to accuse."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.batching import DropRule, Filtering
from mtkit.corpus import texts
from mtkit.corpus.characters import FIRST_SCRIPT, census, scripts
from mtkit.corpus.numbers import numbers_differ
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import ALL_RULES, Judge
from mtkit.corpus.statistics import Sample, Usual, usual_of

LINES = [
    ("The dog runs through the park.", "Der Hund rennt durch den Park."),
    ("Two men are standing in front of a house.", "Zwei Männer stehen vor einem Haus."),
    ("Is she reading a book at the library?", "Liest sie ein Buch in der Bibliothek?"),
    ("We will meet at the station tomorrow evening.", "Wir treffen uns morgen Abend am Bahnhof."),
    ("A woman in a red dress is singing.", "Eine Frau in einem roten Kleid singt."),
]

USUAL_LINES = [*((f"{s} {i}", f"{t} {i}") for i in range(40) for s, t in LINES), *LINES * 10]


def pairs_of(lines: list[tuple[str, str]]) -> list[Pair]:
    return [Pair(s, t, 0, "corpus", number) for number, (s, t) in enumerate(lines, 1)]


@pytest.fixture(scope="module")
def usual() -> Usual:
    return usual_of(pairs_of(USUAL_LINES))


def accusers(usual: Usual, source: str, target: str) -> set[DropRule]:
    judged = Judge(ALL_RULES, usual).judge(pairs_of([(source, target)]))
    return {rule for rule, faults in judged.items() if faults[0]}


FAULTS: list[tuple[DropRule, str, str]] = [
    ("uneven", "The dog runs through the park and over the hill, then back home.", "Der Hund."),
    ("glued", f"The {'dog' * 20} runs.", f"Der {'Hund' * 20} rennt."),
    ("letters", "*** --- *** !!! ### a", "*** --- *** !!! ### b"),
    ("digits", "1 2 3 4 5 6 7 8 9 ten", "1 2 3 4 5 6 7 8 9 zehn"),
    ("numbers", "It was in 1987, I think.", "Es war 1978, denke ich."),
    ("links", "See https://example.com/en for more.", "Mehr dazu steht hier."),
    ("markup", "The dog <b>runs</b>.", "Der Hund rennt."),
    ("markup", "Bread &amp; butter.", "Brot und Butter."),
    ("markup", "Hello, %s!", "Hallo!"),
    ("mojibake", "Two men.", "Zwei MÃ¤nner."),
    ("mojibake", "Two men.", "Zwei M\ufffdnner."),
    ("script", "The dog runs.", "Собака бежит."),
    ("language", "The dog runs through the park.", "El perro corre por el parque grande."),
    ("repetition", "The dog runs.", "Der Hund rennt der Hund rennt der Hund rennt."),
    ("copied", "The dog runs fast.", "the dog runs fast"),
    ("markup", "Home | Animals | The dog runs.", "Der Hund rennt."),
    ("numbers", "The law of 2018.", "平成20年の法律。"),
    ("brackets", "The dog (a poodle) runs.", "Der Hund rennt."),
    ("ending", "Is the dog running?", "Der Hund rennt"),
]


@pytest.mark.parametrize(("rule", "source", "target"), FAULTS)
def test_every_fault_is_accused_on_either_side(
    usual: Usual, rule: DropRule, source: str, target: str
) -> None:
    assert rule in accusers(usual, source, target)
    backwards = usual_of(pairs_of([(target, source) for source, target in USUAL_LINES]))
    assert rule in accusers(backwards, target, source)


def test_every_rule_is_shown_a_fault_and_has_a_place_in_the_record() -> None:
    assert {rule for rule, _, _ in FAULTS} | {"overlap"} == set(get_args(DropRule))


@pytest.mark.parametrize(("source", "target"), LINES)
def test_good_pairs_are_accused_by_none(usual: Usual, source: str, target: str) -> None:
    assert not accusers(usual, source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("It costs 1,250.50 euros.", "Es kostet 1.250,50 Euro."),
        ("The train leaves at 3:00 pm.", "Der Zug fährt um 15 Uhr."),
        ("2 of the 20 men.", "Zwei der 20 Männer."),
        ("It was on 05/03/2020.", "Es war am 5.3.2020."),
        ("About 30,000 people.", "约3万人。"),
        ("In 1999.", "一九九九年。"),
        ("In 1999.", "في ١٩٩٩."),
        ("The class of '98.", "Der Jahrgang 1998."),
        ("Call 555-1234.", "Ruf 5551234 an."),
        ("10 000 people", "10000 Menschen"),
        ("Chapter 007.", "Kapitel 7."),
        ("25,000 people.", "2만 5천 명."),
        ("1.2 million people.", "120만 명."),
        ("350 million.", "3.5亿。"),
        ("250 thousand.", "25万。"),
        ("30 million people.", "3천만 명."),
        ("In 1970.", "ในปี พ.ศ. 2513"),
        ("In 2020.", "در سال ۱۳۹۹."),
        ("On April 1, 2000.", "平成12年4月1日。"),
        ("On May 1, 2019.", "令和元年5月1日。"),
        ("In 2021.", "民國110年。"),
        ("From 9:40 am to 5:20 pm.", "Von 9.40 bis 17.20 Uhr."),
        ("At 5.30 pm.", "À 17h30."),
        ("At 8:20 p.m.", "Um 20.20 Uhr."),
        ("It costs $3.20 at 5:30 pm.", "Es kostet 3,20 $ um 17.30 Uhr."),
        ("On 5.10.2020 at 5:30.", "2020年10月5日 17:30。"),
    ],
)
def test_numbers_may_be_written_in_many_ways(source: str, target: str) -> None:
    assert not numbers_differ(source, target)
    assert not numbers_differ(target, source)


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        (texts.links_differ, "See https://en.wikipedia.org/wiki/A.", "Siehe www.wikipedia.de."),
        (texts.markup, "Hello, {name}: 100% of AT&T; 3 < 4.", "Hallo, {name}: 100 % von AT&T."),
        (texts.mojibake, "Ça va, São Paulo? Größe Ž Ñandú", "ÅÄÖ ÀÉÈ “öffnen” — ¡Ándale!"),
        (texts.repetition, "No, no, no!", "Nein, nein, nein!"),
        (texts.repetition, "No, no, no, no!", "Нет, нет, нет!"),
        (texts.links_differ, "Write to info@example.com.", "请发邮件至info@example.com联系我们。"),
        (texts.links_differ, "See http://www.example.com!", "见http://www.example.com获取更多信息"),
        (texts.links_differ, "See https://qq.com.", "https://qq.com，欢迎您"),
        (texts.links_differ, "www.hp.com", "www.hp.de"),
        (texts.markup, "Ram went. He came. He slept.", "राम गया | वह आया | फिर सो गया |"),
        (texts.markup, "Shirt | Men | Blue", "Hemd | Herren | Blau"),
        (texts.glued, f"The hash {'0af3' * 16}.", f"Der Hash {'0af3' * 16}."),
        (texts.repetition, "哈哈哈", "Ha!"),
        (texts.repetition, "Do you really want to give it up?", "நிச்சயமாக கைவிட வேண்டுமா?"),
        (texts.markup, "%s in %d", "%2$d に %1$s"),
        (texts.copied, "Berlin", "Berlin"),
        (texts.copied, "1984", "1984"),
        (texts.brackets_differ, "Hi :-)", "Hallo!"),
        (texts.brackets_differ, "a) one (two)", "一（二）"),
        (texts.glued, "https://example.com/" + "a" * 60, "中" * 60),
        (texts.glued, "/Users/Shared/" + "Folder/" * 9, "[Terminal](command:" + "a" * 60 + ")"),
    ],
)
def test_what_good_translations_do_is_no_fault(rule: object, source: str, target: str) -> None:
    assert callable(rule)
    assert not rule(source, target)
    assert not rule(target, source)


anything = st.text(st.characters(exclude_characters="\n"), max_size=60)


@given(st.lists(st.tuples(anything, anything), min_size=1, max_size=12), st.randoms())
@settings(deadline=None, max_examples=50)
def test_no_rule_depends_on_the_other_pairs_or_on_their_order(
    usual: Usual, lines: list[tuple[str, str]], random: Random
) -> None:
    judge = Judge(ALL_RULES, usual)
    pairs = pairs_of(lines)
    together = judge.judge(pairs)
    shuffled = random.sample(pairs, len(pairs))
    alone = [judge.judge([pair]) for pair in pairs]
    again = judge.judge(shuffled)
    for rule in ALL_RULES:
        assert together[rule].tolist() == [bool(one[rule][0]) for one in alone]
        by_line = {p.line: bool(fault) for p, fault in zip(shuffled, again[rule], strict=True)}
        assert together[rule].tolist() == [by_line[pair.line] for pair in pairs]


@given(st.lists(st.sampled_from(LINES), min_size=1, max_size=40), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=20)
def test_what_is_usual_does_not_depend_on_the_order(
    lines: list[tuple[str, str]], random: Random
) -> None:
    shuffled = random.sample(lines, len(lines))
    assert usual_of(pairs_of(lines)) == usual_of(pairs_of(shuffled))


@given(st.lists(st.tuples(anything, anything), max_size=30), st.randoms(use_true_random=False))
def test_a_sample_depends_neither_on_the_order_nor_on_what_repeats(
    lines: list[tuple[str, str]], random: Random
) -> None:
    def sampled(lines: list[tuple[str, str]]) -> list[tuple[str, str]]:
        sample = Sample(size=5)
        for pair in pairs_of(lines):
            sample.add(pair)
        return sample.pairs()

    known = {pair for pair in lines if pair[0].strip() and pair[1].strip()}
    found = sampled(lines)
    assert sampled([*random.sample(lines, len(lines)), *lines[:7]]) == found
    assert len(found) == min(5, len(known)) and known >= set(found)


@given(anything)
def test_each_character_is_counted_once(text: str) -> None:
    assert census([text, "", text]).sum(axis=1).tolist() == [len(text), 0, len(text)]


def test_pairs_are_uneven_by_what_is_usual_of_those_as_long() -> None:
    """A dictionary: most entries are one word for one, some explain one in a sentence or two."""
    words = [(f"{row}{'a' * (row % 11)}", f"{row}{'b' * (row * 7 % 13)}") for row in range(700)]
    explained = [(f"{row} aaa", f"{row} {'b ' * (row * 13 % 90)}") for row in range(100)]
    pairs = [Pair(*texts, 0, "file", row) for row, texts in enumerate([*words, *explained])]
    usual = usual_of(pairs)
    assert Judge(["uneven"], usual).judge(pairs)["uneven"].sum() == 0
    assert (
        Judge(["uneven"], replace(usual, spreads=usual.spreads[:1])).judge(pairs)["uneven"].sum()
        > 20
    )


def test_letters_belong_to_their_scripts() -> None:
    counts = census(["aé", "яж", "漢字", "かナ", "한글", "ไทย", "नमस्ते"])
    names = scripts()
    found = [names[row[FIRST_SCRIPT:].argmax() + FIRST_SCRIPT] for row in counts]
    assert found == ["LATIN", "CYRILLIC", "HAN", "KANA", "HANGUL", "THAI", "DEVANAGARI"]
    assert counts[6, FIRST_SCRIPT:].max() == 6


def test_neither_order_nor_repetition_of_rules_is_another_request() -> None:
    one = Filtering.model_validate({"drop": ["copied", "numbers", "copied"]})
    assert one == Filtering.model_validate({"drop": ["numbers", "copied"]})
    assert Filtering().without_defaults() == {}
