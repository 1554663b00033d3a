"""Laws of text steps: a new one is a function and an entry in the list; windows change nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from folders import SENTENCES, copier_of, train
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.text import pipeline
from mtkit.decoding.text.demands import MARK, Demand
from mtkit.decoding.text.line import Context, Line, Segment
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.prefix import keep_prefix
from mtkit.decoding.text.text import Edit, Text
from mtkit.tokenizer.codec import Tokenizer

STAND_IN = "Spain"
"""What the model reads instead of a placeholder."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train(normalization_rule_name="identity")


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> Translator:
    return copier_of(tokenizer)


# A step that hides placeholders, as the README describes


def hide_placeholders(segment: Segment, context: Context) -> list[Segment]:
    demands: list[Demand] = []
    edits: list[Edit] = []
    for match in re.finditer(r"\{\w+\}", segment.string):
        origin = segment.text.origin
        start, end = origin[match.start()], origin[match.end() - 1] + 1
        demands.append(Demand(start, end, match[0], stand_in=STAND_IN))
        edits.append(Edit(*match.span(), Text.from_one(MARK, end - 1)))
    return [replace(segment, text=segment.text.replace(edits), demands=demands)]


@pytest.mark.parametrize("settings", [{}, {"sentences": "en"}, {"max_length": 7}], ids=str)
def test_a_new_step_is_a_function_and_an_entry_in_the_list(
    copier: Translator, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "list_first_steps", lambda: (keep_prefix, hide_placeholders))
    lines = ["A dog {animal_name} runs. Why {x}?", "{first} dog.", "Why?", ""]
    request = copier.request.changed(alignments=True, **settings)
    window = open_window([Line(line) for line in lines], copier.tokenizer, request)
    read = copier.tokenizer.decode([sentence.source for sentence in window.sentences])
    assert "{" not in "".join(read)
    assert "".join(read).count(STAND_IN) == 3
    for line, translation in zip(lines, copier.results(lines, request), strict=True):
        assert translation.text == line
        words = range(len(line.split()))
        assert translation.alignment == {(number, number) for number in words}


# Windows


TEXTS = [
    *SENTENCES,
    "A DOG RUNS.",
    "- Why? 😀",
    "",
    "犬。犬。",
    "1",
    "the dog runs 😀 on",
    "a " * 30,
]


@given(
    texts=st.lists(st.sampled_from(TEXTS), max_size=5), prefix=st.sampled_from(["", "Two", "It"])
)
def test_what_becomes_of_a_line_does_not_depend_on_other_lines(
    texts: list[str], prefix: str, tokenizer: Tokenizer
) -> None:
    settings = DecodingSettings(max_length=9, truecase=True, sentences="en")
    request = Request(settings, alignments=True)
    lines = [Line(text, prefix) for text in texts]
    alone = [open_window([line], tokenizer, request) for line in lines]
    together = open_window(lines, tokenizer, request)
    assert together.sentences == [sentence for window in alone for sentence in window.sentences]
    texts_alone = [piece.text for window in alone for line in window.lines for piece in line.pieces]
    assert [piece.text for line in together.lines for piece in line.pieces] == texts_alone


def test_the_tokenizer_encodes_and_decodes_all_lines_of_a_window_together(
    copier: Translator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[str, int]] = []
    for name in ("encode_source", "decode"):
        monkeypatch.setattr(copier.tokenizer, name, recording(copier.tokenizer, name, calls))
    texts = [*SENTENCES, "Two men, one boat. Why?"]
    settings = copier.request.settings.model_copy(update={"sentences": "en", "max_length": 40})
    assert copier.submit(texts, Request(settings)).result()[-1].text == texts[-1]
    # One sentence is decoded by itself if it may have a loop.
    together = [call for call in calls if call[1] > 1]
    assert together == [("encode_source", len(texts) + 1), ("decode", len(texts) + 1)]


def recording(tokenizer: Tokenizer, name: str, calls: list[tuple[str, int]]) -> Any:
    method = getattr(tokenizer, name)

    def record(lines: list[Any]) -> Any:
        calls.append((name, len(lines)))
        return method(lines)

    return record


# Case


@pytest.mark.parametrize("line", ["THE ŉ DOG RUNS.", "A DOG ŉ ŉ ß RUNS.", "I\u0307T ﬁ RUNS. A DOG"])
def test_links_count_words_although_letters_become_several(copier: Translator, line: str) -> None:
    request = copier.request.changed(alignments=True, truecase=True)
    (actual,) = copier.results([line], request)
    assert {i for i, _ in actual.alignment} == set(range(len(line.split())))
    assert actual.alignment == {(i, i) for i, _ in actual.alignment}
