"""Hints for terms: what the model reads, what survives the other steps, and what is missing."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from architectures import transformer
from commands import call
from folders import SENTENCES, copier_of, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.line import Line, Translation, WantedTerm
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.terms import find_missing, mask_hints
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import TranslationWarning, UserError
from mtkit.report import silently
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import HINT_BEGIN, HINT_END, HINT_MEANS, HINT_SYMBOLS

GLOSSARY = {"dog": "Hund", "plain": "flaches Land", "Two men": "Zwei", "Spain": "", "犬": "狗"}
HINT = re.compile(f"{HINT_BEGIN}([^{HINT_MEANS}]*){HINT_MEANS}([^{HINT_END}]*){HINT_END}")


class Obeying(Engine):
    """An engine that copies its source, but for terms with hints, which it translates."""

    name = "obeying"

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        answers: NBestLists = []
        for sentence in sentences:
            source = self.tokenizer.decode_source([sentence.source[:-1]])[0]
            ids = self.tokenizer.encode_target([HINT.sub(r"\2", source)])[0]
            attention = np.ones((len(ids), len(sentence.source) - 1), np.float32)
            answers.append([Hypothesis(ids, 0.0, True, attention if request.alignments else None)])
        future: Future[NBestLists] = Future()
        future.set_result(answers)
        return future

    def close(self) -> None:
        pass


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(
        [*SENTENCES, "Dog: Hund, Zwei, flaches Land", "小犬走。狗"],
        vocab_size=380,
        normalization_rule_name="identity",
        user_defined_symbols=list(HINT_SYMBOLS),
    )


@pytest.fixture(scope="module")
def without_hints() -> Tokenizer:
    return train(normalization_rule_name="identity")


@pytest.fixture(scope="module")
def obeying(tokenizer: Tokenizer) -> Translator:
    request = Request(DecodingSettings(beam=1, max_length=60))
    return Translator(Obeying(tokenizer), tokenizer, request)


TOO_LONG = "Xylophone am Saxophon " * 3 + "und Xylophon"
"""More subwords than `max_length` of the models of these tests allows."""


def request_of(**settings: Any) -> Request:
    return Request(DecodingSettings(max_length=60)).changed(**{"glossary": GLOSSARY, **settings})


def read_by_model(lines: Sequence[str], tokenizer: Tokenizer, request: Request) -> list[str]:
    window = open_window([Line(line) for line in lines], tokenizer, request)
    return [tokenizer.decode_source([sentence.source[:-1]])[0] for sentence in window.sentences]


def test_the_vocabulary_says_whether_a_model_can_know_hints(
    tokenizer: Tokenizer, without_hints: Tokenizer
) -> None:
    assert tokenizer.has_hints
    assert not without_hints.has_hints


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A dog runs.", "A[ dog> Hund] runs."),
        ("Dog runs", "[Dog>Hund] runs"),
        ("(dog)", "([dog>Hund])"),
        ("dog dog", "[dog>Hund][ dog> Hund]"),
        (
            "It rains on the plain in Spain.",
            "It rains on the[ plain> flaches Land] in[ Spain> Spain].",
        ),
        ("Two men, one boat.", "[Two men>Zwei], one boat."),
        ("小犬走", "小[犬>狗]走"),
    ],
)
def test_the_model_reads_a_hint_after_each_term(
    line: str, expected: str, tokenizer: Tokenizer
) -> None:
    (read,) = read_by_model([line], tokenizer, request_of())
    shown = read.replace(HINT_BEGIN, "[").replace(HINT_MEANS, ">").replace(HINT_END, "]")
    assert shown == expected


def test_a_hint_leaves_the_subwords_of_the_words_around_it_as_they_are(
    tokenizer: Tokenizer,
) -> None:
    lines = [sentence for sentence in SENTENCES for _ in range(2)]
    plain = open_window([Line(line) for line in lines], tokenizer, request_of(glossary={}))
    hinted = open_window([Line(line) for line in lines], tokenizer, request_of())
    for before, after in zip(plain.lines, hinted.lines, strict=True):
        if after.terms and not after.text.startswith("Two"):  # there, SentencePiece adds a space
            assert after.without_hints(after.source_parts, tokenizer) == before.source_parts


texts = st.one_of(st.text(max_size=60), st.sampled_from([*SENTENCES, "A dog. Two men, dog!"]))
glossaries = st.dictionaries(
    st.one_of(st.text(min_size=1, max_size=4), st.sampled_from([*GLOSSARY, "A", "."])),
    st.one_of(st.just(""), st.text(max_size=6)),
    max_size=5,
)


@given(
    lines=st.lists(texts, max_size=4),
    entries=glossaries,
    max_length=st.sampled_from([3, 12, 60]),
    has_hints=st.booleans(),
    prefix=st.sampled_from(["", "A"]),
)
def test_as_many_lines_come_out_as_went_in_whatever_the_glossary(
    lines: list[str],
    entries: dict[str, str],
    max_length: int,
    has_hints: bool,
    prefix: str,
    tokenizer: Tokenizer,
    without_hints: Tokenizer,
) -> None:
    chosen = tokenizer if has_hints else without_hints
    settings = DecodingSettings(max_length=max_length, beam=1, sentences="en", truecase=True)
    translator = Translator(Obeying(chosen), chosen, Request(settings))
    with silently():
        try:
            request = translator.request.changed(glossary=entries, alignments=True)
        except UserError:
            return
        listed = [Line(line, prefix) for line in lines]
        translations = list(translator.submit(listed, request).result())
    assert len(translations) == len(lines)
    for line, translation in zip(lines, translations, strict=True):
        assert "\n" not in translation.text
        assert {i for i, _ in translation.alignment} <= set(range(len(line.split()) or 1))


@given(
    lines=st.lists(st.text("abc .犬", max_size=20), min_size=1, max_size=3),
    settings=st.sampled_from([{}, {"sentences": "en", "truecase": True}, {"max_length": 5}]),
)
def test_without_a_term_nothing_changes(
    lines: list[str], settings: dict[str, Any], tokenizer: Tokenizer
) -> None:
    listed = [Line(line) for line in lines]
    glossary = {"dog": "Hund", "bat": "x", "A. B": "y"}
    plain = open_window(listed, tokenizer, request_of(glossary={}, **settings))
    with_glossary = open_window(listed, tokenizer, request_of(glossary=glossary, **settings))
    assert with_glossary.sentences == plain.sentences
    assert [line.leaves for line in with_glossary.lines] == [line.leaves for line in plain.lines]
    assert not any(line.terms for line in with_glossary.lines)


@pytest.mark.usefixtures("unlimited_terms")
def test_a_model_without_hints_reads_the_plain_line_and_a_second_search_finds_the_terms(
    without_hints: Tokenizer,
) -> None:
    with_glossary = open_window([Line("A dog.")], without_hints, request_of())
    plain = open_window([Line("A dog.")], without_hints, request_of(glossary={}))
    assert with_glossary.sentences == plain.sentences
    translator = copier_of(without_hints)
    with silently():
        (translation,) = translator.results(["A dog."], glossary=GLOSSARY)
    assert "Hund" in translation.text
    assert translation.missing_terms == []
    assert translation.mended == ("term",)


def test_a_term_that_no_translation_has_room_for_is_missing_and_flagged(
    without_hints: Tokenizer,
) -> None:
    long_target = "Hund " * 70
    translator = copier_of(without_hints)
    with silently(), pytest.warns(TranslationWarning, match="1 line lacks a term"):
        (translation,) = translator.results(["A dog."], glossary={"dog": long_target})
    assert translation.missing_terms == [long_target.strip()]
    assert "term" in translation.flags


def test_a_message_says_once_that_a_model_has_no_hints(
    without_hints: Tokenizer, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    translator = copier_of(without_hints)
    for _ in range(3):
        translator.submit(["A dog."], translator.request.changed(glossary={"x": "said once"}))
    assert capsys.readouterr().err.count("without hints") <= 1
    hinted = Translator(Obeying(tokenizer), tokenizer, translator.request)
    hinted.submit(["A dog."], hinted.request.changed(glossary=GLOSSARY))
    assert "hints" not in capsys.readouterr().err


# The other steps


def test_a_model_that_obeys_writes_every_term(obeying: Translator) -> None:
    lines = ["A dog runs. Two men on the plain of Spain.", "THE DOG RUNS.", "Why?"]
    for settings in ({}, {"sentences": "en"}, {"truecase": True}, {"max_length": 14}):
        found = list(obeying.results(lines, glossary=GLOSSARY, **settings))
        assert not any(translation.missing_terms for translation in found), settings
        assert found[0].text == "A Hund runs. Zwei on the flaches Land of Spain."
        assert found[1].text.casefold() == "the hund runs."
        assert found[2].text == "Why?"


def test_a_long_line_is_never_cut_inside_a_hint(tokenizer: Tokenizer) -> None:
    lines = ["dog " * 40, "a dog runs, a dog sits. " * 20, "犬" * 30, "x" * 50 + " dog" * 9]
    for max_length in (8, 12, 20):
        for read in read_by_model(lines, tokenizer, request_of(max_length=max_length)):
            without = HINT.sub("", read)
            assert not set(without) & {HINT_BEGIN, HINT_MEANS, HINT_END}


def test_a_hint_that_is_too_long_for_the_model_is_left_out(tokenizer: Tokenizer) -> None:
    request = request_of(glossary={"dog": "xyz" * 30}, max_length=10)
    read = read_by_model(["A dog runs."], tokenizer, request)
    assert HINT_BEGIN not in "".join(read)
    assert "".join(read).replace(" ", "") == "Adogruns."


def test_alignments_count_the_words_of_the_line_without_hints(obeying: Translator) -> None:
    line = "It rains on the plain in Spain."
    request = obeying.request.changed(glossary=GLOSSARY, alignments=True)
    window = open_window([Line(line)], obeying.tokenizer, request)
    (leaf,) = window.lines[0].leaves
    words = window.lines[0].words
    assert words is not None
    read = obeying.tokenizer.source_pieces(leaf.ids)  # type: ignore[union-attr]
    numbers = [words.at(offset) for offset in leaf.origin]  # type: ignore[union-attr]
    assert sorted(set(numbers)) == list(range(7))
    begin, end = read.index(HINT_BEGIN), read.index(HINT_END)
    assert set(numbers[begin : end + 1]) == {4}  # "plain", with its hint
    (translation,) = obeying.results([line], request)
    assert {i for i, _ in translation.alignment} <= set(range(7))


def test_masked_hints_keep_their_length() -> None:
    text = f"a{HINT_BEGIN} dog.{HINT_MEANS} Hund. Katze{HINT_END} b {HINT_END}{HINT_BEGIN}"
    masked = mask_hints(text)
    assert len(masked) == len(text)
    assert masked.split() == [f"a{HINT_BEGIN}{chr(0x300) * 19}", "b", f"{HINT_END}{HINT_BEGIN}"]


# Missing terms


@pytest.mark.parametrize(
    ("target", "translation"),
    [
        ("Hund", "Der Hund rennt."),
        ("Hund", "des Hundes"),
        ("Hund", "DER HUND"),
        ("Haus", "die Häuser"),
        ("собака", "вижу собаку"),
        ("neuer Hund", "einen neuen Hund"),
        ("도서관", "도서관에서"),
        ("개", "개가 달린다"),
        ("狗", "一只狗跑"),
        ("C++", "in C++ schreiben"),
        ("Ärzte-Team", "das ärzte-team"),
    ],
)
def test_a_term_is_there_in_any_case_and_as_an_inflected_form(
    target: str, translation: str
) -> None:
    assert find_missing([WantedTerm(target)] * 2, translation) == []


@pytest.mark.parametrize(
    ("target", "translation"),
    [
        ("Hund", "Der Köter rennt."),
        ("Hund", ""),
        ("Hunderennen", "der Hund"),
        ("an", "and"),
        ("neuer Hund", "neuer alter Hund"),
        ("狗", "一只猫"),
        ("C++", "in C schreiben"),
    ],
)
def test_another_word_is_not_the_term(target: str, translation: str) -> None:
    assert find_missing([WantedTerm(target)] * 2, translation) == [target]


KEPT = [
    ("iterator", "un iterador", False),
    ("iterator", "el iterator nuevo", True),
    ("iterator", "Iterator ist da", True),
    ("iterator", "DER ITERATOR", True),
    ("iterator", "iterators", False),
    ("iterator", "itérator", False),
    ("iterator", "", False),
    ("iPhone", "das Iphone", False),
    ("iPhone", "das iPhone", True),
    ("iPhone", "das IPHONE", True),
    ("New York", "in New Yorks Straßen", False),
    ("New York", "in New York.", True),
    ("café", "ein cafe", False),
    ("npm", "npm을 쓴다", True),
    ("C++", "in C++", True),
    ("C++", "in C", False),
]


@pytest.mark.parametrize(("term", "translation", "is_there"), KEPT)
def test_a_term_that_stays_untranslated_has_the_same_letters(
    term: str, translation: str, is_there: bool
) -> None:
    missing = find_missing([WantedTerm(term, is_kept=True)], translation)
    assert missing == ([] if is_there else [term])


@given(
    term=st.lists(st.text("ab\u00e9", min_size=1, max_size=4), min_size=1, max_size=3),
    words=st.lists(st.text("ab\u00e9", min_size=1, max_size=8), max_size=8),
)
def test_a_term_is_found_at_the_places_where_each_word_is_a_form_of_its_word(
    term: list[str], words: list[str]
) -> None:
    def is_form(word: str, target: str) -> bool:
        word, target = (each.replace("\u00e9", "e") for each in (word, target))
        stem = max(3, math.ceil(2 * len(target) / 3))
        return word == target or (len(target) >= stem and word.startswith(target[:stem]))

    places = [words[start : start + len(term)] for start in range(len(words) - len(term) + 1)]
    has_form = any(all(map(is_form, place, term)) for place in places)
    text, wanted = " ".join(words), " ".join(term)
    assert (find_missing([WantedTerm(wanted)], text) == []) == has_form
    assert (find_missing([WantedTerm(wanted, is_kept=True)], text) == []) == (term in places)


@pytest.mark.parametrize("entries", [{"dog": ""}, {"dog": "dog"}])
def test_an_entry_whose_translation_is_the_term_itself_asks_for_the_same_letters(
    entries: dict[str, Any], tokenizer: Tokenizer
) -> None:
    (line,) = open_window([Line("A dog runs.")], tokenizer, request_of(glossary=entries)).lines
    assert line.terms == [WantedTerm("dog", is_kept=True)]


def test_the_warning_counts_lines_and_names_the_first() -> None:
    losses = Losses(lines=10)
    losses.count([Translation("x"), *[Translation("y", missing_terms=["Hund"])] * 2])
    assert losses.warnings() == ["2 lines lack a term of the glossary; first: line 12 (Hund)"]
    losses = Losses(unit="row")
    losses.count([Translation("y", missing_terms=["Hund", "Katze"])])
    assert losses.warnings() == ["1 row lacks a term of the glossary; first: row 1 (Hund)"]


# Commands and model folders


@pytest.fixture
def folder(tmp_path: Path, without_hints: Tokenizer) -> Path:
    return write_model(tmp_path / "model", without_hints, transformer(), beam=1)


def test_a_model_folder_brings_its_glossary_along(
    tmp_path: Path, without_hints: Tokenizer, folder: Path
) -> None:
    with silently():
        translator = load(folder, engine="torch", glossary={"dog": "Hund"})
    assert translator.request.glossary is not None
    assert translator.request.glossary.entries == {"dog": "Hund"}
    assert load(folder, engine="torch").request.glossary is None


def test_a_changed_glossary_does_not_resume_the_output_of_another(
    tmp_path: Path, folder: Path
) -> None:
    source, output = tmp_path / "in.txt", tmp_path / "out.txt"
    source.write_text("A dog runs.\n" * 3)
    partial = tmp_path / ".out.txt.partial"
    with silently():
        first = load(folder, engine="torch", glossary={"dog": "Hund"})
        second = load(folder, engine="torch", glossary={"dog": "Katze"})

        def interrupt(*_: Any) -> Any:
            raise KeyboardInterrupt

        interrupted = Format()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Losses, "count", interrupt)
            with pytest.raises(KeyboardInterrupt):
                translate(first, Files(source, output), interrupted)
        assert partial.stat().st_size
        with pytest.raises(UserError, match="because the glossary changed"):
            translate(second, Files(source, output, resume=True), Format())
        translate(first, Files(source, output, resume=True), Format())
    assert len(output.read_text().splitlines()) == 3


def test_the_command_warns_of_missing_terms_and_flags_their_lines(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, flags, terms = (tmp_path / name for name in ("in.txt", "flags.jsonl", "terms.tsv"))
    source.write_text("Why?\nA dog runs.\n")
    terms.write_text(f"dog\t{TOO_LONG}\n")
    options = ["-m", str(folder), "--engine", "torch", "--glossary", str(terms)]
    assert call("translate", str(source), *options, "--flags", str(flags)) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "1 line lacks a term of the glossary; first: line 2 (Xylophon" in captured.err
    records = [json.loads(line) for line in flags.read_text().splitlines()]
    assert "missing_terms" not in records[0]
    assert records[1]["missing_terms"] == [TOO_LONG] and "term" in records[1]["flags"]


def test_a_column_of_a_table_is_translated_with_the_glossary(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, terms = tmp_path / "in.csv", tmp_path / "terms.csv"
    table.write_text("id,English\n1,Why?\n2,A dog runs.\n")
    terms.write_text(f"dog,{TOO_LONG}\n")
    options = ["-m", str(folder), "--engine", "torch", "--glossary", str(terms)]
    assert call("translate", str(table), *options, "--columns", "English") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "1 row lacks a term of the glossary; first: row 3 (Xylophon" in captured.err


def test_a_faulty_glossary_is_one_line_on_stderr(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("a\tb\nno tab here\n")
    assert call("translate", "-m", str(folder), "--glossary", str(terms)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert f"{terms}:2: no tab; write: source, tab, target" in line


def test_json_names_the_missing_terms() -> None:
    record = json.loads(Format(jsonl=True).format(1, Translation("x", missing_terms=["Hund"])))
    assert record["missing_terms"] == ["Hund"]
    assert "missing_terms" not in json.loads(Format(jsonl=True).format(1, Translation("x")))


def test_the_glossary_is_no_output(tmp_path: Path, folder: Path) -> None:
    terms = tmp_path / "terms.tsv"
    terms.write_text("dog\tHund\n")
    source = tmp_path / "in.txt"
    source.write_text("A dog.\n")
    with pytest.raises(UserError, match="is an input"):
        Files(source, terms, glossary=terms).check()
