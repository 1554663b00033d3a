"""Terms in translations: which words they replace, what stays, and what is missing."""

from __future__ import annotations

import json
import math
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jaxtyping import Float

from architectures import seq2seq, transformer
from commands import call
from folders import SENTENCES, as_if_trained, copier_of, train, write_model
from mtkit.artifacts.manifest import open_artifact
from mtkit.artifacts.replacement import create
from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.characters import is_capital, is_small, title_case
from mtkit.decoding.api import Translator, direct_glossary, load
from mtkit.decoding.engines.batches import BatchQueue, SentenceBatch
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.demands import Demand
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.text import Edit, Text, join_texts
from mtkit.decoding.text.words import Words, spaced_words, tokens_of
from mtkit.decoding.translate import Files, Format, translate
from mtkit.errors import TranslationWarning, UserError
from mtkit.extras.terms.files import open_terms
from mtkit.extras.terms.glossary import TermGlossary
from mtkit.extras.terms.terms import TermDemand
from mtkit.report import silently

TOKENIZER = train(
    [*SENTENCES, "Big Dog, New York"], vocab_size=310, normalization_rule_name="identity"
)
COPIER = copier_of(TOKENIZER)
GLOSSARY = {"dog": "Hund", "plain": "flaches Land", "Two men": "Zwei", "Spain": "", "犬": "狗"}
Dictionary = Mapping[str, str]
"""A word of the source and its translation; other words are copied."""


@dataclass
class WordByWord(Engine):
    """An engine that translates word by word, and attends to the word that it translates.

    Each dictionary leads to one hypothesis.
    """

    dictionaries: Sequence[Dictionary]
    has_attention: bool = True
    is_reversed: bool = False
    """Whether the words between white space come in reverse order."""
    name = "word by word"

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        answers: NBestLists = []
        for sentence in sentences:
            (source,) = TOKENIZER.decode_source([sentence.source[:-1]])
            needs_attention = request.alignments or sentence.needs_attention
            hypotheses = [
                self._translate(source, dictionary, sentence.prefix)
                for dictionary in self.dictionaries
            ]
            if not (self.has_attention and needs_attention):
                hypotheses = [replace(each, attention=None) for each in hypotheses]
            answers.append(hypotheses)
        future: Future[NBestLists] = Future()
        future.set_result(answers)
        return future

    def _translate(self, source: str, dictionary: Dictionary, prefix: Sequence[int]) -> Hypothesis:
        edits = [
            Edit(start, end, Text.from_one(dictionary[source[start:end]], start))
            for start, end in tokens_of(source)
            if source[start:end] in dictionary
        ]
        translation = Text.of_line(source).replace(edits)
        if self.is_reversed:
            ranges = reversed(spaced_words(translation.string).ranges)
            translation = join_texts(translation.slice(start, end) for start, end in ranges)
        (ids,) = TOKENIZER.encode_target([translation.string])
        assert ids[: len(prefix)] == [*prefix]
        return Hypothesis(ids, 0.0, True, _attention(source, translation, ids))

    def close(self) -> None:
        pass


def _attention(source: str, translation: Text, ids: list[int]) -> Float[np.ndarray, "T S"]:
    """Return the weights of all subwords of the source, and of the end: equal in its word."""
    words = Words(tokens_of(source))
    columns = [words.at(offset) for offset in TOKENIZER.source_offsets(source)]
    attended = [words.at(translation.origin[offset]) for offset in TOKENIZER.target_offsets(ids)]
    weights = np.zeros((len(ids), len(columns)), np.float32)
    for row, word in enumerate(attended):
        within = [column for column, other in enumerate(columns) if other == word]
        weights[row, within] = 1 / len(within)
    return weights


def translator_of(*dictionaries: Dictionary, **settings: Any) -> Translator:
    """Return a translator that translates word by word."""
    engine = WordByWord(dictionaries, **settings)
    decoding = DecodingSettings(beam=len(dictionaries), max_length=60)
    return Translator(engine, TOKENIZER, Request(decoding))


def translate_one(line: str | Line, translator: Translator, **settings: Any) -> Translation:
    with silently():
        (translation,) = translator.results([line], **settings)
    return translation


def demand(target: str, *, is_kept: bool = False) -> TermDemand:
    return TermDemand(start=0, end=1, text=target, is_kept=is_kept)


def terms_of(demands: Sequence[Demand]) -> list[TermDemand]:
    return [wanted for wanted in demands if isinstance(wanted, TermDemand)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model without attention, whose translations lack each term."""
    kind = seq2seq(attention="none", input_feeding=False)
    return write_model(tmp_path / "model", TOKENIZER, kind, beam=1)


# What a term replaces

GERMAN = {
    "A": "Ein",
    "The": "Der",
    "the": "der",
    "dog": "Köter",
    "Dog": "Köter",
    "runs": "läuft",
    "cat": "Katze",
    "sees": "sieht",
    "big": "große",
    "Big": "Große",
    "men": "Männer",
    "plain": "flache Land",
}


@pytest.mark.parametrize(
    ("line", "glossary", "expected"),
    [
        ("The dog runs.", {"dog": "Hund"}, "Der Hund läuft."),
        ("“The dog”, (dog)!", {"dog": "Hund"}, "“Der Hund”, (Hund)!"),
        ("The dog, the dog.", {"dog": "Hund"}, "Der Hund, der Hund."),
        ("The dog sees the cat.", {"dog": "Hund", "cat": "Mieze"}, "Der Hund sieht der Mieze."),
        ("The big dog runs.", {"big": "alte", "dog": "Hund"}, "Der alte Hund läuft."),
        ("The dog cat runs.", {"dog cat": "Hund", "cat": "Mieze"}, "Der Hund läuft."),
        ("The big dog cat.", {"big dog": "Dogge", "dog cat": "Hund"}, "Der Dogge Katze."),
        ("The dog in New York.", {"New York": "Big Apple"}, "Der Köter in Big Apple."),
        ("The dog runs.", {"dog": "gute alte Hund"}, "Der gute alte Hund läuft."),
        ("In the plain.", {"plain": "Ebene"}, "In der Ebene."),
        ("The dog runs.", {"dog": "C++"}, "Der C++ läuft."),
        ("C++ runs.", {"C++": "Rust"}, "Rust läuft."),
        ("The dog-run.", {"dog-run": "Auslauf"}, "Der Auslauf."),
        ("dog & cat", {"&": "und"}, "Köter und Katze"),
    ],
)
def test_a_term_replaces_the_words_that_are_aligned_to_it_and_nothing_else(
    line: str, glossary: Dictionary, expected: str
) -> None:
    translation = translate_one(line, translator_of(GERMAN), glossary=glossary)
    assert translation.text == expected
    assert translation.missing_terms == []
    assert "term" not in translation.flags


def test_a_term_stands_where_the_model_has_put_its_translation() -> None:
    translator = translator_of(GERMAN, is_reversed=True)
    line = "A big dog sees men"
    assert translate_one(line, translator).text == "Männer sieht Köter große Ein"
    glossary = {"big dog": "Dogge", "men": "Leute"}
    translation = translate_one(line, translator, glossary=glossary)
    assert translation.text == "Leute sieht Dogge Ein"


@pytest.mark.parametrize(
    ("line", "target", "expected"),
    [
        ("Dog runs.", "hund", "Hund läuft."),
        ("Dog runs.", "iHund", "IHund läuft."),
        ("The dog runs.", "hund", "Der hund läuft."),  # German nouns are the user's business
        ("big dog runs.", "Dogge", "Dogge läuft."),
        ("Big dog runs.", "狗", "狗 läuft."),
        ("“Dog runs”", "hund", "“Hund läuft”"),
        ("The cat runs. Dog runs.", "hund", "Der Katze läuft. Hund läuft."),
        ("The cat, dog, and cat-dog", "hund", "Der Katze, hund, and Katze-hund"),
    ],
)
def test_a_term_gets_a_capital_where_the_word_that_begins_the_sentence_had_one(
    line: str, target: str, expected: str
) -> None:
    glossary = {"dog": target, "big dog": target}
    assert translate_one(line, translator_of(GERMAN), glossary=glossary).text == expected


@pytest.mark.parametrize(
    ("line", "glossary", "expected"),
    [
        ("The dog runs.", {"dog": ""}, "Der dog läuft."),
        ("Dog runs.", {"dog": ""}, "Dog läuft."),
        ("The DOG runs.", {"dog": "dog"}, "Der DOG läuft."),
        ("the men run", {"men": ""}, "der men run"),
    ],
)
def test_a_term_that_stays_untranslated_has_the_letters_of_the_line(
    line: str, glossary: Dictionary, expected: str
) -> None:
    assert translate_one(line, translator_of(GERMAN), glossary=glossary).text == expected


@pytest.mark.parametrize("form", ["Hund", "Hundes", "HUND", "Hünde"])
def test_a_term_that_stands_there_stays_as_it_is_inflected(form: str) -> None:
    translator = translator_of(GERMAN | {"dog": form})
    translation = translate_one("The dog runs.", translator, glossary={"dog": "Hund"})
    assert translation == replace(translate_one("The dog runs.", translator), terms=1)
    assert translation.text == f"Der {form} läuft."


SEVERAL = {"dog": ["Hund", "Kläffer"]}


@pytest.mark.parametrize(
    ("dog", "expected"), [("Köter", "Hund"), ("Kläffer", "Kläffer"), ("Hundes", "Hundes")]
)
def test_any_translation_of_a_term_will_do_and_the_first_is_put_in(dog: str, expected: str) -> None:
    translator = translator_of(GERMAN | {"dog": dog})
    translation = translate_one("The dog runs.", translator, glossary=SEVERAL)
    assert translation.text == f"Der {expected} läuft."
    assert translation.missing_terms == []


def test_a_line_in_capitals_has_any_translation_of_a_term_in_capitals() -> None:
    request = COPIER.request.changed(glossary=SEVERAL)
    (line,) = open_window([Line("THE DOG RUNS.")], TOKENIZER, request).lines
    (wanted,) = terms_of(line.demands)
    assert (wanted.text, *wanted.others) == ("HUND", "KLÄFFER")


def test_a_term_is_there_as_often_as_in_the_line() -> None:
    translator = translator_of(GERMAN | {"Dog": "Hund"})
    translation = translate_one("Dog sees dog", translator, glossary={"dog": "Hund"})
    assert translation.text == "Hund sieht Hund"
    assert (translation.terms, translation.missing_terms) == (2, [])


def test_each_occurrence_of_a_term_that_is_missing_counts() -> None:
    translator = translator_of(GERMAN | {"Dog": "Hund"}, has_attention=False)
    translation = translate_one("Dog sees dog, dog", translator, glossary={"dog": "Hund"})
    assert (translation.terms, translation.missing_terms) == (3, ["Hund", "Hund"])


@given(st.lists(st.sampled_from(["Hund", "Kläffer", "Katze", "Hundes"]), max_size=6))
def test_the_occurrences_of_all_translations_are_counted_once(words: list[str]) -> None:
    wanted = TermDemand(start=0, end=1, text="Hund", others=["Kläffer", "Hunde"])
    text = " ".join(words)
    assert wanted.count_in(text, len(words) + 1) == len(words) - words.count("Katze")


def test_every_hypothesis_has_the_terms() -> None:
    others = GERMAN | {"dog": "Kläffer", "runs": "rennt"}, GERMAN | {"dog": "Hund", "runs": "eilt"}
    translator = translator_of(GERMAN, *others)
    best = translate_one("The dog runs.", translator, glossary={"dog": "Hund"}, n_best=3)
    texts = [translation.text for translation in (best, *best.alternatives)]
    assert texts == ["Der Hund läuft.", "Der Hund rennt.", "Der Hund eilt."]
    assert not any(translation.missing_terms for translation in best.alternatives)


def test_hypotheses_that_differ_only_in_what_a_term_replaces_are_one() -> None:
    translator = translator_of(GERMAN, GERMAN | {"dog": "Kläffer"})
    best = translate_one("The dog runs.", translator, glossary={"dog": "Hund"}, n_best=2)
    assert best.text == "Der Hund läuft."
    assert best.alternatives == []


def test_without_attention_the_plain_translation_stays_and_the_line_is_flagged() -> None:
    translator = translator_of(GERMAN, has_attention=False)
    with pytest.warns(TranslationWarning, match="translations lack 1 of 1 glossary term in 1 line"):
        first, second = translator.results(["The dog runs.", "Men run."], glossary=GLOSSARY)
    assert first.text == "Der Köter läuft."
    assert first.missing_terms == ["Hund"]
    assert "term" in first.flags
    assert second.missing_terms == []
    assert "term" not in second.flags


def test_a_term_whose_words_have_no_translation_is_not_inserted_but_flagged() -> None:
    translator = translator_of(GERMAN | {"dog": ","})
    line = "The dog runs."
    translation = translate_one(line, translator, glossary={"dog": "Hund"})
    assert translation.text == translate_one(line, translator).text
    assert translation.missing_terms == ["Hund"]
    assert "term" in translation.flags


@pytest.mark.parametrize("line", ["(10) A dog runs.", "A dog runs. (10)"])
def test_a_term_in_text_that_is_copied_stays_there_and_is_flagged(line: str) -> None:
    translation = translate_one(line, COPIER, glossary={"10": "zehn"})
    assert translation.text == line
    assert translation.missing_terms == ["zehn"]


def test_a_term_of_signs_that_the_tokenizer_drops_is_flagged() -> None:
    """They have no subword, so the alignment does not know them."""
    translation = translate_one("A dog \u2581", COPIER, glossary={"\u2581": "x"})
    assert translation.text == "A dog"
    assert translation.missing_terms == ["x"]


def test_no_term_replaces_a_word_of_the_prefix() -> None:
    translator = translator_of(GERMAN)
    for prefix in ("Der", "Der Köter", "Der Köter läuft."):
        line = Line("The dog runs.", prefix)
        translation = translate_one(line, translator, glossary={"the": "die", "dog": "Hund"})
        assert translation.text.startswith(prefix)
        assert "die" in translation.missing_terms
        assert ("Hund" in translation.missing_terms) == ("Köter" in prefix)


# Alignments


def test_alignments_link_a_term_to_the_words_of_the_line_that_it_translates() -> None:
    translator = translator_of(GERMAN)
    glossary = {"dog": "Hund", "cat": "gute alte Mieze"}
    line = "The big dog sees the cat ."
    translation = translate_one(line, translator, glossary=glossary, alignments=True)
    assert translation.text == "Der große Hund sieht der gute alte Mieze ."
    assert translation.alignment == {
        *((number, number) for number in range(5)),
        *((5, number) for number in (5, 6, 7)),
        (6, 8),
    }


def test_alignments_link_a_term_of_several_words_to_these_words_only() -> None:
    translator = translator_of(GERMAN)
    for target in ("Dogge", "Dog Dog", "gute alte Dogge"):
        line = "The big dog runs"
        settings: dict[str, Any] = {"glossary": {"big dog": target}, "alignments": True}
        translation = translate_one(line, translator, **settings)
        last = len(translation.text.split()) - 1
        links = translation.alignment - {(0, 0), (3, last)}
        assert {j for _, j in links} == set(range(1, last)), target
        assert {i for i, _ in links} <= {1, 2}, target


# Any glossary

words = st.text("adogBD", min_size=1, max_size=4)
texts = st.lists(words, min_size=1, max_size=8).map(" ".join)


@given(
    line=texts,
    entries=st.dictionaries(st.lists(words, min_size=1, max_size=2).map(" ".join), texts),
    dictionary=st.dictionaries(words, words),
    is_reversed=st.booleans(),
)
def test_only_terms_change_whatever_the_glossary_and_the_translation(
    line: str, entries: Dictionary, dictionary: Dictionary, is_reversed: bool
) -> None:
    translator = translator_of(dictionary, is_reversed=is_reversed)
    plain = translate_one(line, translator).text
    targets: list[str] = []
    end = 0
    terms = open_terms(entries).index.find_terms(line)
    needed = Counter(term.targets[0] for term in terms)
    enough: dict[str, bool] = {}
    for term in terms:
        targets += [dictionary.get(word, word) for word in line[end : term.start].split()]
        end = term.end
        (target,) = term.targets
        wanted = demand(target, is_kept=term.is_kept)
        count = needed[target]
        enough.setdefault(target, wanted.count_in(plain, count) == count)
        present = [dictionary.get(word, word) for word in line[term.start : end].split()]
        own = " ".join(reversed(present) if is_reversed else present)
        if enough[target] or wanted.count_in(own):
            targets += present
            continue
        has_capital = is_capital(plain[0]) and is_small(target[0]) and not term.is_kept
        is_first = line[end:].strip() == "" if is_reversed else term.start == 0
        targets.append(title_case(target[0]) + target[1:] if is_first and has_capital else target)
    targets += [dictionary.get(word, word) for word in line[end:].split()]
    translation = translate_one(line, translator, glossary=entries)
    assert translation.text == " ".join(reversed(targets) if is_reversed else targets)
    assert translation.missing_terms == []


glossaries = st.dictionaries(
    st.one_of(st.text(min_size=1, max_size=4), st.sampled_from([*GLOSSARY, "A", "."])),
    st.one_of(st.just(""), st.text(max_size=6)),
    max_size=5,
)
lines_of_all_kinds = st.one_of(
    st.text(max_size=60),
    st.sampled_from([*SENTENCES, "A dog. Two men, dog!", "See http://a.b/dog"]),
)


@given(
    lines=st.lists(lines_of_all_kinds, max_size=4),
    entries=glossaries,
    max_length=st.sampled_from([3, 12, 60]),
    prefix=st.sampled_from(["", "A"]),
    settings=st.sampled_from([{}, {"sentences": "en", "truecase": True}, {"n_best": 2}]),
)
@example(lines=["\x1b\u0800"], entries={}, max_length=3, prefix="A", settings={})
def test_each_line_has_a_translation_that_has_its_terms_or_names_them_whatever_the_glossary(
    lines: list[str],
    entries: Dictionary,
    max_length: int,
    prefix: str,
    settings: dict[str, Any],
) -> None:
    with silently():
        try:
            request = COPIER.request.changed(
                glossary=entries, alignments=True, max_length=max_length, **settings
            )
        except UserError:
            return
        listed = [Line(line, prefix) for line in lines]
        translations = list(COPIER.submit(listed, request).result())
    assert len(translations) == len(lines)
    window = open_window(listed, TOKENIZER, request)
    for line, split, translation in zip(lines, window.lines, translations, strict=True):
        assert "\n" not in translation.text
        assert {i for i, _ in translation.alignment} <= set(range(len(line.split()) or 1))
        assert set(translation.missing_terms) <= {wanted.text for wanted in split.demands}
        for wanted in terms_of(split.demands):
            is_there = wanted.text.casefold() in translation.text.casefold()
            is_met = is_there or wanted.count_in(translation.text)
            assert is_met or wanted.text in translation.missing_terms


@given(
    lines=st.lists(st.text("abc .犬", max_size=20), min_size=1, max_size=3),
    settings=st.sampled_from([{}, {"sentences": "en", "truecase": True}, {"max_length": 5}]),
)
def test_without_a_term_nothing_changes(lines: list[str], settings: dict[str, Any]) -> None:
    listed = [Line(line) for line in lines]
    glossary = {"dog": "Hund", "bat": "x", "A. B": "y"}
    request = Request(DecodingSettings(max_length=60)).changed(**settings)
    plain = open_window(listed, TOKENIZER, request)
    with_glossary = open_window(listed, TOKENIZER, request.changed(glossary=glossary))
    assert with_glossary.sentences == plain.sentences
    assert with_glossary.lines == plain.lines


# The other steps


def demanded(line: str, glossary: Dictionary, **settings: Any) -> list[str]:
    request = COPIER.request.changed(glossary=glossary, **settings)
    (split,) = open_window([Line(line)], TOKENIZER, request).lines
    return [wanted.text for wanted in terms_of(split.demands)]


def test_the_model_reads_the_plain_line() -> None:
    lines = [Line("A dog."), Line("Why?")]
    request = COPIER.request
    plain = open_window(lines, TOKENIZER, request).sentences
    with_glossary = open_window(lines, TOKENIZER, request.changed(glossary=GLOSSARY)).sentences
    assert with_glossary == [replace(plain[0], needs_attention=True), plain[1]]


def test_no_term_is_looked_for_in_what_is_protected() -> None:
    line = "see http://dog.com/dog and ~/dog/x.txt {dog} <dog> for a dog"
    assert demanded(line, {"dog": "Hund"}) == ["Hund"]
    translation = translate_one(line, COPIER, glossary={"dog": "Hund"})
    assert translation.text == line.removesuffix("dog") + "Hund"
    assert translation.lost == []


@pytest.mark.parametrize(
    "settings", [{}, {"sentences": "en"}, {"truecase": True}, {"max_length": 14}]
)
def test_each_step_leaves_the_terms_in_their_places(settings: dict[str, Any]) -> None:
    glossary = {"dog": "Hund", "plain": "flaches Land", "Two men": "Zwei", "Spain": ""}
    lines = ["A dog runs. Two men on the plain of Spain.", "THE DOG RUNS.", "Why?"]
    with silently():
        found = list(COPIER.results(lines, glossary=glossary, **settings))
    assert not any(translation.missing_terms for translation in found)
    assert found[0].text == "A Hund runs. Zwei on the flaches Land of Spain."
    assert found[1].text.casefold() == "the hund runs."
    assert found[2].text == "Why?"


def test_terms_of_a_long_line_stand_in_each_of_its_parts() -> None:
    line = "a dog runs, a dog sits. " * 20
    translation = translate_one(line, COPIER, glossary={"dog": "Hund"}, max_length=12)
    assert translation.text.split() == line.replace("dog", "Hund").split()


def test_terms_are_placed_in_a_translation_whose_loop_has_ended() -> None:
    loop = GERMAN | {"runs": "läuft läuft läuft läuft läuft läuft läuft"}
    translator = translator_of(loop)

    def translate(batch: SentenceBatch) -> NBestLists:
        words = GERMAN if batch.request.settings.no_repeat_ngram else loop
        return WordByWord([words]).search(batch.sentences, batch.request).result()

    def search(sentences: Any, request: Request, *, alone: bool = False) -> Any:
        batches = [range(len(sentences))] if sentences else []
        return queue.search(sentences, batches, request, 1000, alone=alone)

    queue = BatchQueue(1, translate)
    translator.engine.search = search  # type: ignore[method-assign]
    translation = translate_one("The dog runs.", translator, glossary={"dog": "Hund"})
    assert translation.text == "Der Hund läuft."
    assert translation.mended == ("loop",)


# Engines


def test_all_engines_put_the_terms_in_the_same_places(tmp_path: Path) -> None:
    tokenizer = train(vocab_size=60, byte_fallback=False, normalization_rule_name="identity")
    path = write_model(tmp_path / "model", tokenizer, transformer(), as_if_trained, max_length=40)
    glossary = {"A": "Ein", "dog": "Hund", "runs": "rennt", "It": "Es", "rains": "regnet"}
    lines = ["A dog runs", "It rains", "A dog rains on it", "Why?"]
    found: list[list[Translation]] = []
    for engine in ("torch", "ctranslate2"):
        translator = load(path, "cpu", engine=engine, beam=1)
        with silently():
            found.append(list(translator.results(lines, glossary=glossary)))
        translator.close()
    torch, ctranslate2 = found
    assert any(word in torch[0].text for word in ("Ein", "Hund", "rennt"))
    assert [each.text for each in torch] == [each.text for each in ctranslate2]
    assert [each.missing_terms for each in torch] == [each.missing_terms for each in ctranslate2]


def test_a_model_without_attention_flags_the_lines_whose_terms_it_lacks(folder: Path) -> None:
    translator = load(folder, "cpu", engine="torch")
    plain = translate_one("A dog runs.", translator)
    translation = translate_one("A dog runs.", translator, glossary={"dog": "Hund"})
    assert translation.text == plain.text
    assert translation.missing_terms == ["Hund"]
    assert "term" in translation.flags
    translator.close()


# Directions


@pytest.mark.parametrize(
    ("settings", "entries"),
    [
        ({}, {"dog": "Hund"}),
        ({"sentences": "en"}, {"dog": "Hund"}),
        ({"sentences": "de"}, {"Hund": "dog"}),
        ({"tag": "de"}, {"dog": "Hund"}),
        ({"tag": "en"}, {"Hund": "dog"}),
        ({"sentences": "de", "tag": "en"}, {"Hund": "dog"}),
    ],
)
def test_the_language_of_sentences_and_the_target_tag_say_the_direction_of_a_glossary(
    settings: dict[str, str], entries: Dictionary
) -> None:
    glossary = TermGlossary([(("dog",), ("Hund",))], ("en", "de"), "terms.tsv")
    request = Request(DecodingSettings.model_validate(settings), glossary=glossary)
    with silently():
        directed = direct_glossary(request, translator_of({}).estimator).glossary
    assert isinstance(directed, TermGlossary)
    assert directed.entries == {source: (target,) for source, target in entries.items()}


# What is met


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
    assert demand(target).count_in(translation)


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
    assert not demand(target).count_in(translation)


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
    assert demand(term, is_kept=True).count_in(translation) == is_there


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
    assert bool(demand(wanted).count_in(text)) == has_form
    assert bool(demand(wanted, is_kept=True).count_in(text)) == (term in places)


@pytest.mark.parametrize("entries", [{"dog": ""}, {"dog": "dog"}])
def test_an_entry_whose_translation_is_the_term_itself_asks_for_the_same_letters(
    entries: dict[str, Any],
) -> None:
    request = COPIER.request.changed(glossary=entries)
    (line,) = open_window([Line("A dog runs.")], TOKENIZER, request).lines
    (wanted,) = terms_of(line.demands)
    assert wanted.is_kept
    assert wanted.text == "dog"


def test_the_warning_counts_terms_and_their_lines_and_names_the_first() -> None:
    losses = Losses(lines=10)
    assert losses.describe_terms() == "no line has a term of the glossary"
    missing = Translation("y", terms=2, missing_terms=["Hund"])
    losses.count([Translation("x"), missing, Translation("x", terms=1), missing])
    assert losses.warnings() == [
        "translations lack 2 of 5 glossary terms in 3 lines; first: line 12 (Hund)"
    ]
    losses = Losses(unit="row")
    losses.count([Translation("y", terms=1, missing_terms=["Hund"])])
    assert losses.warnings() == [
        "translations lack 1 of 1 glossary term in 1 row; first: row 1 (Hund)"
    ]


# Commands and model folders


def test_a_translator_keeps_the_glossary_that_it_is_loaded_with(folder: Path) -> None:
    translator = load(folder, engine="torch", glossary={"dog": "Hund"})
    assert isinstance(translator.request.glossary, TermGlossary)
    assert translator.request.glossary.entries == {"dog": ("Hund",)}
    assert load(folder, engine="torch").request.glossary is None


def test_a_model_folder_brings_its_glossary_along(tmp_path: Path, folder: Path) -> None:
    with create(tmp_path / "with glossary", "model", {}, {}) as other:
        for name in open_artifact(folder, "model").files:
            shutil.copy(folder / name, other / name)
        open_terms({"dog": "Hund", "mtkit": ""}).save(other)
    glossary = load(tmp_path / "with glossary").request.glossary
    assert isinstance(glossary, TermGlossary)
    assert glossary.entries == {"dog": ("Hund",), "mtkit": ()}


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
        partial.write_text("of the first\n")
        translate(second, Files(source, output), Format())
    assert "of the first" not in output.read_text()


def test_the_command_warns_of_missing_terms_and_flags_their_lines(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, flags, terms = (tmp_path / name for name in ("in.txt", "flags.jsonl", "terms.tsv"))
    source.write_text("Why?\nA dog runs.\n")
    terms.write_text("dog\tHund\n")
    options = ["-m", str(folder), "--engine", "torch", "--glossary", str(terms)]
    assert call("translate", str(source), *options, "--flags", str(flags)) == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    assert "translations lack 1 of 1 glossary term in 1 line; first: line 2 (Hund)" in captured.err
    records = [json.loads(line) for line in flags.read_text().splitlines()]
    assert "missing_terms" not in records[0]
    assert records[1]["missing_terms"] == ["Hund"] and "term" in records[1]["flags"]


def test_a_column_of_a_table_is_translated_with_the_glossary(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table, terms = tmp_path / "in.csv", tmp_path / "terms.csv"
    table.write_text("id,English\n1,Why?\n2,A dog runs.\n")
    terms.write_text("dog,Hund\n")
    options = ["-m", str(folder), "--engine", "torch", "--glossary", str(terms)]
    assert call("translate", str(table), *options, "--columns", "English") == 0
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 3
    assert "translations lack 1 of 1 glossary term in 1 row; first: row 3 (Hund)" in captured.err


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
