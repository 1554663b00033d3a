"""Rules on pairs, and the statistics that they compare with."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.config.settings import DROP_RULES
from mtkit.corpus.languages import count_scripts, is_foreign
from mtkit.corpus.read import Pair
from mtkit.corpus.rules import RULES, PairFilter, held_out_keys
from mtkit.corpus.statistics import (
    MAX_SAMPLED_CHARACTERS,
    CorpusStatistics,
    SideStatistics,
    compute_statistics,
)
from mtkit.corpus.text import is_blank

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
def statistics() -> CorpusStatistics:
    return compute_statistics(pairs_of(USUAL_LINES))


@pytest.fixture(scope="module")
def swapped() -> CorpusStatistics:
    return compute_statistics(pairs_of([(target, source) for source, target in USUAL_LINES]))


def broken(statistics: CorpusStatistics, source: str, target: str) -> set[str]:
    (pair,) = pairs_of([(source, target)])
    return {rule.name for rule in RULES if rule.check(pair, statistics)}


FAULTS = [
    ("uneven", "The dog runs through the park and over the hill, then back home.", "Der Hund."),
    ("glued", f"The {'dog' * 20} runs.", "Der Hund rennt."),
    ("letters", "*** --- *** !!! ### a", "*** --- *** !!! ### b"),
    ("letters", "1 2 3 4 5 6 7 8 9 ten", "1 2 3 4 5 6 7 8 9 zehn"),
    ("markup", "The dog <b>runs</b>.", "Der Hund rennt."),
    ("markup", "Bread &amp; butter.", "Brot und Butter."),
    ("markup", "The <b>dog</b> runs.", "Der <i>Hund</i> rennt."),
    ("markup", "The <b>dog</b> runs.", "Der <b>Hund rennt."),
    ("mojibake", "Two men.", "Zwei MÃ¤nner."),
    ("mojibake", "Two men.", "Zwei M\ufffdnner."),
    ("script", "The dog runs.", "Собака бежит."),
    ("language", "The dog runs through the park.", "El perro corre por el parque grande."),
    ("repetition", "The dog runs.", "Der Hund rennt der Hund rennt der Hund rennt."),
    ("copied", "The dog runs fast.", "the dog runs fast"),
]


@pytest.mark.parametrize(("rule", "source", "target"), FAULTS)
def test_each_rule_finds_its_fault_on_either_side(
    statistics: CorpusStatistics, swapped: CorpusStatistics, rule: str, source: str, target: str
) -> None:
    assert rule in broken(statistics, source, target)
    assert rule in broken(swapped, target, source)


def test_names_that_both_sides_share_say_nothing_about_a_language(
    statistics: CorpusStatistics,
) -> None:
    english = "Olusegun Obasanjo Babatunde left at noon."
    german = "Olusegun Obasanjo Babatunde ging am Mittag."
    assert is_foreign(english, "en") and is_foreign(german, "de")
    assert "language" not in broken(statistics, english, german)
    spanish = "El perro corre por el parque grande con Nwachukwu Egbuni."
    assert "language" in broken(statistics, "The dog and Nwachukwu Egbuni run.", spanish)
    assert "language" in broken(statistics, spanish, spanish)


def test_overlap_ignores_case_punctuation_and_spaces(statistics: CorpusStatistics) -> None:
    pair = Pair("The dog runs through the park", "Der Hund", 0, "", 1)
    held_out = replace(statistics, held_out=held_out_keys([pair]))
    for source, target in (("The dog runs  through: the PARK!", "x"), ("x", "DER Hund.")):
        assert "overlap" in broken(held_out, source, target)
        assert "overlap" in broken(held_out, target, source)  # held out in the other direction
    assert "overlap" not in broken(held_out, "The dog runs through the park again.", "x")


def test_the_config_names_every_rule_and_each_has_a_test() -> None:
    names = [rule.name for rule in RULES]
    assert list(DROP_RULES) == names
    assert {rule for rule, *_ in FAULTS} | {"overlap"} == set(names)


@pytest.mark.parametrize(("source", "target"), LINES)
def test_good_pairs_break_no_rule(statistics: CorpusStatistics, source: str, target: str) -> None:
    assert not broken(statistics, source, target)


@pytest.mark.parametrize(
    ("rule", "source", "target"),
    [
        ("glued", f"See https://example.com/{'ab/' * 60}.", "Siehe dort."),
        ("glued", f"The hash is {'0af3' * 16}.", "Der Hash fehlt."),
        ("markup", "Hello, {name}: 100% of AT&T; 3 < 4.", "Hallo, {name}: 100 % von AT&T."),
        ("mojibake", "Ça va, São Paulo? Größe Ž Ñandú", "ÅÄÖ ÀÉÈ “öffnen” — ¡Ándale!"),
        ("repetition", "No, no, no!", "Nein, nein, nein!"),
        ("repetition", "No, no, no, no!", "Нет, нет, нет!"),
        ("repetition", "哈哈哈", "Ha!"),
        ("repetition", "Do you really want to give it up?", "நிச்சயமாக கைவிட வேண்டுமா?"),
        ("letters", "42 %", "42 %"),
        ("letters", "नमस्ते किताबें", "สวัสดีค่ะ"),
        ("copied", "Berlin", "Berlin"),
        ("copied", "1984", "1984"),
    ],
)
def test_habits_of_good_translations_are_no_fault(
    statistics: CorpusStatistics, rule: str, source: str, target: str
) -> None:
    assert rule not in broken(statistics, source, target)
    assert rule not in broken(statistics, target, source)


anything = st.text(st.characters(exclude_characters="\n"), max_size=60)


@given(anything, anything)
def test_a_filter_names_the_first_rule_that_a_pair_breaks(
    statistics: CorpusStatistics, source: str, target: str
) -> None:
    (pair,) = pairs_of([(source, target)])
    names = broken(statistics, source, target)
    first = next((name for name in DROP_RULES if name in names), None)
    assert PairFilter(DROP_RULES, [statistics]).broken_rule(pair) == first
    assert PairFilter([], [statistics]).broken_rule(pair) is None


def test_statistics_keep_only_the_beginning_of_long_lines_but_their_ratio() -> None:
    pairs = pairs_of([(f"{number} " * 10_000, f"{number} " * 15_000) for number in range(200)])
    statistics = compute_statistics(pairs)
    for pair in statistics.sample:
        assert 0 < len(pair.source) < len(pair.target) <= MAX_SAMPLED_CHARACTERS
    assert statistics.ratio == pytest.approx(1.5, rel=0.01)
    assert compute_statistics(pairs_of([("a", "b" * 100_000)])).sample[0].source == "a"


@given(st.lists(st.tuples(anything, anything), max_size=30), st.randoms(use_true_random=False))
def test_a_sample_depends_neither_on_order_nor_on_repetition(
    lines: list[tuple[str, str]], random: Random
) -> None:
    def sample(lines: list[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("mtkit.corpus.statistics.SAMPLE_SIZE", 5)
            sample = compute_statistics(pairs_of(lines)).sample
        return tuple((pair.source, pair.target) for pair in sample)

    filled = {pair for pair in lines if not (is_blank(pair[0]) or is_blank(pair[1]))}
    sampled = sample(lines)
    assert sample([*random.sample(lines, len(lines)), *lines[:7]]) == sampled
    assert len(sampled) == min(5, len(filled)) and filled >= set(sampled)


@pytest.mark.parametrize(
    ("votes", "is_foreign"), [(Counter(lij=36, it=34, es=30), False), (Counter(it=30), True)]
)
def test_lines_are_foreign_only_if_most_others_share_a_language(
    votes: Counter[str], is_foreign: bool
) -> None:
    english, side = (SideStatistics(frozenset({"LATIN"}), it) for it in (Counter(en=30), votes))
    statistics = CorpusStatistics(english, side, ratio=1.0, spread=0.2)
    source, target = "A man is walking down the street.", "Ein Mann geht die Straße entlang."
    assert ("language" in broken(statistics, source, target)) == is_foreign


def test_letters_belong_to_their_scripts() -> None:
    texts = ["aé", "яж", "漢字", "かナ", "한글", "ไทย", "नमस्ते"]
    scripts = [set(count_scripts(f"{text} 12.")) for text in texts]
    names = ["LATIN", "CYRILLIC", "HAN", "KANA", "HANGUL", "THAI", "DEVANAGARI"]
    assert scripts == [{name} for name in names]
    assert count_scripts("नमस्ते").total() == 6
