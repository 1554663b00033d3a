"""Laws of pairs: emphasis and links surround the words that translate those between them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from folders import copier_of, train
from mtkit.decoding.api import Translator
from mtkit.decoding.text.line import Line
from mtkit.decoding.text.pipeline import open_window
from mtkit.extras.protect.protect import MAX_SPANS
from mtkit.extras.protect.spans import find_spans

PAIRS = [
    ("*", "*"),
    ("**", "**"),
    ("***", "***"),
    ("_", "_"),
    ("~~", "~~"),
    ("[", "](https://example.org/a_b)"),
    ("[", '](b.md "A title")'),
    ("![", "](dog.png)"),
    ("`", " <https://example.org>`_"),
    ("`", " <a.html>`__"),
    ("<b>", "</b>"),
    ('<g id="1">', "</g>"),
    ("&lt;i&gt;", "&lt;/i&gt;"),
]
TEXTS = [
    "2 * 3 * 4 and 2*3*4",
    "5* and 4* boats*",
    "* a dog * two men",
    "*a dog and *two men",
    "char *name, *other",
    "*.txt and *.md",
    "a c_ and _d",
    "_a dog and two _men",
    "**",
    "** a dog **",
    "* *",
    "f**k and s***",
    "~ 5 ~~ 6 ~~ 7",
    "[laughs] (a dog) [1] (2)",
    "[a] (b) and dog[s](es)",
    "$5 and #1 :) e.g. -- 100 %",
    "`so' and `dog'",
]


@pytest.fixture(scope="module")
def copier() -> Translator:
    """A translator that copies, and whose attention shows it."""
    sentence = "A dog and two men run on the boat in 2 * 3 of _ ~ [ ] ( ) 4 5."
    return copier_of(train([sentence], vocab_size=300, normalization_rule_name="identity"))


@pytest.mark.parametrize(("first", "last"), PAIRS)
@pytest.mark.parametrize(
    "template", ["A {}dog and two{} men run.", "A dog ({}and{}), two {}men{}."]
)
def test_the_model_reads_text_without_the_marks_around_it(
    first: str, last: str, template: str, copier: Translator
) -> None:
    marks = [first, last] * (template.count("{}") // 2)
    line = template.format(*marks)
    assert [line[span.start : span.end] for span in find_spans(line)] == marks
    window = open_window([Line(line)], copier.tokenizer, copier.request)
    (read,) = copier.tokenizer.decode_source([each.source[:-1] for each in window.sentences])
    assert read == template.replace("{}", "")
    assert copier.translate([line]) == [line]


@pytest.mark.parametrize(("first", "last"), PAIRS)
def test_marks_around_a_sentence_are_copied(first: str, last: str, copier: Translator) -> None:
    line = f"{first}A dog and two men run.{last}"
    assert copier.translate([line]) == [line]


@pytest.mark.parametrize("text", TEXTS)
def test_signs_that_surround_nothing_are_text(text: str) -> None:
    assert find_spans(text) == []


@st.composite
def nested(draw: st.DrawFn, outer: str = "") -> str:
    """Draw words in which pairs are well-formed; signs of emphasis are not within their like."""
    pairs = [pair for pair in PAIRS if pair[0][0] not in "*_~[!`" or pair[0][0] not in outer]
    words: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        word = draw(st.sampled_from(["dog", "two men", "boat", "{x}", "on"]))
        if len(outer) < 4 and draw(st.booleans()):
            first, last = draw(st.sampled_from(pairs))
            word = f"{first}{draw(nested(outer + first))}{last}"
        words.append(word)
    return " ".join(words)


@given(text=nested())
@settings(max_examples=150, deadline=None)
def test_well_formed_nesting_comes_back_well_formed(text: str, copier: Translator) -> None:
    line = f"A {text} run."
    assume(len(find_spans(line)) <= MAX_SPANS)
    (translation,) = copier.results([line], copier.request.changed(max_length=500))
    assert translation.text == line
    assert translation.lost == []


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("请看[这里](https://example.com/dog)。", ["[", "](https://example.com/dog)"]),
        ("一只**狗**在草地上跑。", ["**", "**"]),
        ("一只`dog`在跑，看~~狗~~。", ["`dog`", "~~", "~~"]),
        ("한 %count%마리 **개**가", ["%count%", "**", "**"]),
        ("See [the [old] dog](a/b.md).", ["[", "](a/b.md)"]),
        ("[![A dog](dog.png)](a/b.md) runs.", ["[", "![", "](dog.png)", "](a/b.md)"]),
        ("[A dog](a/Dog_(animal)) runs.", ["[", "](a/Dog_(animal))"]),
        ("A dog 1]](a/b.md) runs.", ["](a/b.md)"]),
        ("A dog 1]](b.html) runs.", ["](b.html)"]),
        ("%FIRST%%LAST% runs.", ["%FIRST%%LAST%"]),
        ('<a title="x > y">A dog</a>', ['<a title="x > y">', "</a>"]),
    ],
)
def test_spans_of_other_scripts_and_within_others_are_found(text: str, spans: list[str]) -> None:
    assert [text[span.start : span.end] for span in find_spans(text)] == spans


def test_an_empty_tag_is_no_side_of_a_pair() -> None:
    text = "<a>A dog <a/> runs.</a>"
    first, empty, last = find_spans(text)
    assert first.pair == last.pair == first.start and empty.pair is None
