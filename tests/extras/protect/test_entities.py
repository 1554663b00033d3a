"""Laws of entities: the model reads their characters, and the line's spelling comes back."""

from __future__ import annotations

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folders import copier_of, train
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Hypothesis
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window


@pytest.fixture(scope="module")
def copier() -> Translator:
    sentence = "Café: A dog's café & bar “runs” on 'é' \"7\" < > — é à ü."
    return copier_of(train([sentence], vocab_size=300, normalization_rule_name="identity"))


def translate_as(written: str, line: str, copier: Translator) -> str:
    """Return the translation of a line for which the model writes the given text."""
    window = open_window([Line(line)], copier.tokenizer, copier.request)
    (ids,) = copier.tokenizer.encode_target([written])
    (translation,) = window.join([[Hypothesis(ids, -1.0, True)]])
    return translation.text


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("Caf&eacute; &amp; bar", "Café & bar"),
        ("A dog&#39;s caf&#xE9;", "A dog's café"),
        ("&quot;A dog runs.&quot;", '"A dog runs."'),
        ("A dog &agrave; bar", "A dog à bar"),
        ("&ldquo;A dog&rdquo; &mdash; runs", "“A dog” — runs"),
        ("A <b>caf&eacute;</b> runs", "A café runs"),
        ("A caf&eacute; {x} runs", "A café X runs"),
    ],
)
def test_the_model_reads_characters_and_a_copy_is_the_line(
    line: str, read: str, copier: Translator
) -> None:
    window = open_window([Line(line)], copier.tokenizer, copier.request)
    (sentence,) = window.sentences
    assert copier.tokenizer.decode_source([sentence.source[:-1]]) == [read]
    assert copier.translate([line]) == [line]


@pytest.mark.parametrize(
    ("line", "written", "expected"),
    [
        ("Caf&eacute; runs", "Der Café é ü", "Der Caf&eacute; &eacute; ü"),
        ("A dog&#39;s bar", "L'a & b'", "L&#39;a &amp; b&#39;"),
        ("A dog&apos;s bar", "L'a < é", "L&apos;a &lt; é"),
        ("A dog's caf&eacute;", "L'é", "L'&eacute;"),
        ("A dog&#39;s dog's bar", "L'a", "L'a"),
        ("A dog's bar & caf&eacute;", "a & b < é", "a & b &lt; &eacute;"),
        ("A dog's bar", "L'a & b <", "L'a & b <"),
    ],
)
def test_characters_that_the_line_has_only_as_entities_are_written_so(
    line: str, written: str, expected: str, copier: Translator
) -> None:
    assert translate_as(written, line, copier) == expected


def test_an_entity_within_a_tag_or_address_stays(copier: Translator) -> None:
    lines = ['A <a title="caf&eacute;">dog</a> runs', "A dog on https://a.b/?c=d&eacute;=1 runs"]
    assert copier.translate(lines) == lines


PIECES = ["A dog", "&eacute;", "&#39;", "&amp;", "é", "'", "<b>", "</b>", " ", "{x}"]
PIECES += ["&quot;", "&lt;i&gt;", "&copy;"]


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=12))
def test_a_copy_shows_the_same_text(pieces: list[str], copier: Translator) -> None:
    line = " ".join("".join(["A ", *pieces, " dog"]).split())
    (translation,) = copier.results([line], copier.request.changed(max_length=300))
    shown = [html.unescape(text).replace(" ", "") for text in (translation.text, line)]
    assert sorted(shown[0]) == sorted(shown[1])
    assert translation.lost == []
