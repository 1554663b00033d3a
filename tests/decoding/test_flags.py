"""Each flag finds the lines that were corrupted for it, and no sound line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from folders import Copier, train, with_settings
from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.characters import count_letters
from mtkit.corpus.read import Pair
from mtkit.corpus.statistics import compute_statistics
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.estimation.bigrams import MAX_BYTES, MIN_BYTES, SeenBigrams
from mtkit.decoding.estimation.estimator import Estimator
from mtkit.decoding.estimation.facts import TrainingFacts, TranslatedLine
from mtkit.decoding.estimation.flags import FLAGS, find_flags
from mtkit.decoding.text.demands import find_unmet
from mtkit.decoding.text.line import Context, Line
from mtkit.decoding.text.pipeline import begin_line, demands_of, list_first_steps, own_text_of
from mtkit.decoding.text.text import Text
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import UserError

PAIRS = [
    ("The dog runs through the park.", "Der Hund rennt durch den Park."),
    ("Two men are standing in front of a house.", "Zwei Männer stehen vor einem Haus."),
    ("Is she reading a book at the library?", "Liest sie ein Buch in der Bibliothek?"),
    ("We will meet at the station tomorrow evening.", "Wir treffen uns morgen Abend am Bahnhof."),
    ("A woman in a red dress is singing.", "Eine Frau in einem roten Kleid singt."),
    ("In 2015 it had 254 rooms.", "Im Jahr 2015 hatte es 254 Zimmer."),
    ("It costs 1,000,000 dollars.", "Es kostet 1000000 Dollar."),
    ("Hello {name}, see www.example.com now.", "Hallo {name}, siehe jetzt www.example.com nach."),
    ("Five dogs bark, very very loudly.", "5 Hunde bellen sehr, sehr laut."),
    ("Ha ha ha ha, hahahaha!", "Ha ha ha ha, hahahaha, lustig!"),
]
TERMS = [("dog", "Hund"), ("library", "Bibliothek"), ("dress", "Kleid")]
"""A glossary, which the translations above keep to."""
SOURCES = train([source for source, _ in PAIRS], vocab_size=400)
TARGETS = train([target for _, target in PAIRS], vocab_size=400)


def bigrams_of(sentences: Iterable[list[int]]) -> SeenBigrams:
    listed = list(sentences)
    ids = np.array([i for sentence in listed for i in sentence], np.int64)
    return SeenBigrams.of([(ids, np.array([len(sentence) for sentence in listed], np.int64))])


@pytest.fixture(scope="module")
def facts() -> TrainingFacts:
    pairs = [Pair(s, t, 0, "corpus", row) for row, (s, t) in enumerate(PAIRS * 20)]
    numbered = [pair._replace(source=f"{pair.source} {pair.line}") for pair in pairs]
    return TrainingFacts(
        statistics=compute_statistics(numbered, ("en", "de")),
        source_bigrams=bigrams_of(SOURCES.encode_source([source for source, _ in PAIRS])),
        target_bigrams=bigrams_of(TARGETS.encode_target([target for _, target in PAIRS])),
        max_unseen_share=0.5,
    )


def with_stand_in(facts: TrainingFacts) -> TrainingFacts:
    return replace(facts, stand_in="house", stand_in_translation="Haus")


def line_of(source: str, text: str, *, is_finished: bool = True) -> TranslatedLine:
    request = Request(DecodingSettings()).changed(glossary=dict(TERMS))
    pieces = begin_line(Line(source), Context(SOURCES, request), list_first_steps())
    unmet = find_unmet(demands_of(pieces), Text(text, ()))
    return TranslatedLine(
        source,
        text,
        letters=count_letters(own_text_of(pieces)),
        is_finished=is_finished,
        lost=[demand.text for demand in unmet if not demand.is_term],
        missing_terms=[demand.text for demand in unmet if demand.is_term],
        has_placeholder=any(demand.stand_in for demand in demands_of(pieces)),
        source_parts=SOURCES.encode_source([source]),
        target_parts=TARGETS.encode_target([text]),
    )


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_a_sound_line_has_no_flag(source: str, target: str, facts: TrainingFacts) -> None:
    assert find_flags(line_of(source, target), facts) == ()


CORRUPTED = [
    ("loop", PAIRS[0][0], "Der Hund rennt rennt rennt rennt durch den Park."),
    ("loop", PAIRS[1][0], "Zwei Männer vor einem Haus vor einem Haus vor einem Haus."),
    ("loop", PAIRS[4][0], "Eine Frau in einem Kartartartartarton singt."),
    ("loop", "A man is drawing at a desk.", "我不擅長畫畫畫畫畫。"),
    ("copied", PAIRS[3][0], "We will meet at the station tomorrow evening."),
    ("copied", PAIRS[3][0], "we will meet AT the station, tomorrow evening!"),
    ("empty", PAIRS[0][0], ""),
    ("empty", PAIRS[0][0], " \u200b "),
    ("length", PAIRS[1][0], "Zwei."),
    ("length", PAIRS[1][0], " ".join(target for _, target in PAIRS[:5])),
    ("number", PAIRS[5][0], "Im Jahr 2015 hatte es 245 Zimmer."),
    ("number", PAIRS[5][0], "Im Jahr 2105 hatte es 254 Zimmer."),
    ("number", PAIRS[5][0], "Im Jahr 2015 hatte es Zimmer."),
    ("number", PAIRS[6][0], "Es kostet 1.000 Dollar."),
    ("number", PAIRS[0][0], "Der Hund rennt 47 durch den Park."),
    ("number", "6 people are in the park.", "4 Menschen sind im Park."),
    ("placeholder", PAIRS[7][0], "Hallo {nmae}, siehe jetzt www.example.com nach."),
    ("placeholder", PAIRS[7][0], "Hallo {name}, siehe jetzt www. example.com nach."),
    ("stand-in", PAIRS[7][0], "Hallo Hausmeister {name}, siehe jetzt www.example.com nach."),
    ("term", PAIRS[0][0], "Der Köter rennt durch den Park."),
    ("language", PAIRS[0][0], "Le chien court à travers le parc avec ses amis."),
    ("language", PAIRS[0][0], "The black dog is running over the green field."),
    ("language", PAIRS[0][0], "Собака бежит по парку."),
    ("unlike", "Quantum chromodynamics: jvpq xzkw!", "Der Hund rennt durch den Park."),
]


@pytest.mark.parametrize(("name", "source", "text"), CORRUPTED)
def test_a_corrupted_line_has_its_flag(
    name: str, source: str, text: str, facts: TrainingFacts
) -> None:
    assert name in find_flags(line_of(source, text), with_stand_in(facts))


def test_a_translation_that_was_cut_is_unfinished(facts: TrainingFacts) -> None:
    source, target = PAIRS[0]
    assert find_flags(line_of(source, target, is_finished=False), facts) == ("unfinished",)


def test_every_flag_is_tested_on_corrupted_lines() -> None:
    tested = {name for name, _, _ in CORRUPTED} | {"unfinished"}
    assert tested == {flag.name for flag in FLAGS}


def test_without_facts_only_flags_that_need_them_are_missing(facts: TrainingFacts) -> None:
    for name, source, text in CORRUPTED:
        line = line_of(source, text)
        needs_facts = {flag.name for flag in FLAGS if flag.compare is not None}
        expected = [flag for flag in find_flags(line, facts) if flag not in needs_facts]
        assert list(find_flags(line, None)) == expected, name


def test_a_stand_in_that_the_line_has_is_no_reason_for_a_flag(facts: TrainingFacts) -> None:
    line = line_of("The house of {name} is old.", "Das Haus von {name} ist alt.")
    assert "stand-in" not in find_flags(line, with_stand_in(facts))


def test_an_unreliable_flag_is_never_set(facts: TrainingFacts) -> None:
    line = line_of(PAIRS[5][0], "Im Jahr 2105 hatte es 254 Zimmer.")
    unreliable = replace(facts, unreliable_flags=frozenset(["number"]))
    assert find_flags(line, unreliable) == ()


@pytest.mark.parametrize("source", ["", "12:30", "{name} %s", "www.example.com", "***"])
def test_a_line_without_letters_to_translate_has_no_flag(source: str, facts: TrainingFacts) -> None:
    assert find_flags(line_of(source, ""), facts) == ()


@given(source=st.text(max_size=80), text=st.text(max_size=80))
def test_any_text_has_flags_from_the_table_in_its_order(
    source: str, text: str, facts: TrainingFacts
) -> None:
    names = [flag.name for flag in FLAGS]
    found = find_flags(line_of(source, text), facts)
    assert list(found) == [name for name in names if name in found]


SENTENCES = st.lists(st.lists(st.integers(0, 50_000), max_size=12), min_size=1, max_size=20)


@given(sentences=SENTENCES)
def test_all_pairs_of_a_seen_sentence_are_seen(sentences: list[list[int]]) -> None:
    bigrams = bigrams_of(sentences)
    assert bigrams.unseen_share(sentences) == 0
    assert SeenBigrams(bigrams.bits).unseen_share(sentences) == 0


def test_the_share_of_unseen_pairs_is_right_up_to_chance() -> None:
    generator = np.random.default_rng(1)
    seen = generator.integers(10, 30_000, (3_000, 20))
    bigrams = bigrams_of(seen.tolist())
    unseen = generator.integers(10, 30_000, (500, 20))
    assert bigrams.unseen_share(unseen.tolist()) == pytest.approx(1, abs=0.02)
    half_seen = [
        [*old[:10], *new] for old, new in zip(seen.tolist(), unseen[:, :9].tolist(), strict=False)
    ]
    assert bigrams.unseen_share(half_seen) == pytest.approx(0.5, abs=0.03)


def test_the_filter_of_a_large_corpus_stays_small() -> None:
    generator = np.random.default_rng(1)
    ids = generator.integers(0, 1 << 20, 2_000_000)
    bigrams = SeenBigrams.of([(ids, np.full(len(ids) // 40, 40))])
    assert len(bigrams.bits) == MAX_BYTES
    unseen = generator.integers(0, 1 << 20, (2_000, 20))
    assert bigrams.unseen_share(unseen.tolist()) == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("size", [0, 1, MIN_BYTES - 1, MIN_BYTES + 1, 3 * MIN_BYTES, 2 * MAX_BYTES])
def test_other_bytes_are_no_filter(size: int) -> None:
    with pytest.raises(ValueError, match="no filter"):
        SeenBigrams(bytes(size))


@pytest.fixture
def copier(facts: TrainingFacts) -> Translator:
    tokenizer = train([text for pair in PAIRS for text in pair], vocab_size=400)
    request = Request(DecodingSettings(beam=2, max_length=60))
    engine = PyTorchEngine(Copier(tokenizer.source_vocab).eval())
    return Translator(engine, tokenizer, request, estimator=Estimator(facts))


def test_flags_change_no_translation(copier: Translator) -> None:
    lines = [*(source for source, _ in PAIRS), "", "12", "Собака"]
    plain = list(replace(copier, estimator=Estimator()).results(lines))
    flagged = list(copier.results(lines))
    for before, after in zip(plain, flagged, strict=True):
        assert replace(after, estimate=before.estimate) == before
    assert "copied" in flagged[0].flags


def test_no_flags_without_scores(copier: Translator) -> None:
    (translation,) = with_settings(copier, scores=False).results([PAIRS[0][0]])
    assert translation.flags == () and translation.confidence is None


def test_the_flags_file_has_an_object_for_each_line(
    tmp_path: Path, copier: Translator, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [PAIRS[0][0], "", "12", PAIRS[7][0], "last line, not ended"]
    (tmp_path / "in").write_text("\n".join(lines))
    files = Files(tmp_path / "in", tmp_path / "out", flags=tmp_path / "flags")
    translate(copier, files, Format())
    records = [json.loads(line) for line in (tmp_path / "flags").read_text().splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert ["copied" in record["flags"] for record in records] == [True, False, False, True, True]
    assert (tmp_path / "out").read_text().count("\n") == len(lines)
    assert "flagged lines: copied 3" in capsys.readouterr().err
    (tmp_path / "json").write_text("")
    translate(copier, Files(tmp_path / "in", tmp_path / "json"), Format(jsonl=True))
    as_json = [json.loads(line) for line in (tmp_path / "json").read_text().splitlines()]
    assert [record["flags"] for record in as_json] == [record["flags"] for record in records]


@pytest.mark.parametrize("flags", ["in", "out", "flags.gz"])
def test_flags_are_written_to_no_other_file_of_the_command(tmp_path: Path, flags: str) -> None:
    (tmp_path / "in").write_text("A dog.\n")
    files = Files(tmp_path / "in", tmp_path / "out", flags=tmp_path / flags)
    with pytest.raises(UserError):
        files.check()
