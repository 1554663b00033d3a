"""Laws of placeholders: each span comes back once and unchanged, whatever the model writes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from folders import SENTENCES, copier_of, train
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Hypothesis, Request
from mtkit.decoding.text import pipeline
from mtkit.decoding.text.line import Answer, Line, Translation
from mtkit.decoding.text.mending import TagPair, mend
from mtkit.decoding.text.messages import MAX_MESSAGE_DEPTH, find_messages
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.placeholders import protect_placeholders
from mtkit.decoding.text.untranslatable import find_untranslatable
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import HINT_SYMBOLS, PLACEHOLDERS

Model = Callable[[str], str]
"""Translates what it reads."""
P, Q, R = PLACEHOLDERS[:3]
SPANS = [
    "https://example.org/a?b=c#d",
    "user@example.org",
    "{name}",
    "{{ x }}",
    "${x}",
    "%s",
    "%1$s",
    "%(count)d",
    "%%",
    "%n",
    "%count%",
    "{% if x %}",
    "<b>",
    "</b>",
    "<br/>",
    "&nbsp;",
    "&#160;",
    "&lt;i&gt;",
    "__WIT__",
    "/usr/bin/x",
    "`ls -l`",
    "``a b``",
    "{n, number, percent}",
]
MESSAGES = [
    "{count, plural, one {# file} other {# files}}",
    "{g, select, male {It rains.} female {A man runs.} other {Two men}}",
    "{n, selectordinal, one {#st} two {#nd} other {the {n}th}}",
    "{n, plural, offset:1 =0 {no '{dog}'} one {{name} runs} other {# dogs in <b>{place}</b>}}",
    "{g, select, a {a {n, plural, one {dog} other {{n, number} dogs}} runs} other {}}",
    "{n,plural,one{It''s one}other{{n, plural, =1 { x } other {%s}}}}",
    "{ n , plural , other { '#' dogs' # } }",
]
WORDS = ["A", "dog", "runs.", "Two", "men,", "one", "(boat)", "Why?", "犬。", "rain", "-", "1", "'"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Return a tokenizer that knows placeholders."""
    symbols = list(HINT_SYMBOLS)
    identity = "identity"
    return train(normalization_rule_name=identity, vocab_size=320, user_defined_symbols=symbols)


@pytest.fixture(scope="module")
def plain_tokenizer() -> Tokenizer:
    return train(normalization_rule_name="identity")


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> Translator:
    return copier_of(tokenizer)


def copy(text: str) -> str:
    return text


def translate_by(
    model: Model, texts: list[str], tokenizer: Tokenizer, **changes: Any
) -> list[Translation]:
    """Translate lines by a function from text to text."""
    decoding = DecodingSettings.model_validate({"max_length": 500} | changes)
    window = open_window([Line(text) for text in texts], tokenizer, Request(decoding))
    read = tokenizer.decode_source([sentence.source[:-1] for sentence in window.sentences])
    written = tokenizer.encode_target([model(text) for text in read])
    return window.join([[Hypothesis(tokens, -1.0, True)] for tokens in written])


def read_of(text: str, tokenizer: Tokenizer, **changes: Any) -> list[str]:
    """Return what the model reads of a line."""
    read: list[str] = []

    def remember(part: str) -> str:
        read.append(part)
        return part

    translate_by(remember, [text], tokenizer, **changes)
    return read


def adversary(seed: int) -> Model:
    """Return a model that drops, doubles, reorders and invents placeholders and other signs."""

    def translate(text: str) -> str:
        generator = random.Random(f"{seed} {text}")
        words = re.findall(r"\s|[^\s]", text)
        for _ in range(generator.randint(0, 5)):
            place = generator.randrange(len(words) + 1)
            change = generator.choice(["drop", "double", "swap", "invent"])
            if change == "invent":
                words.insert(place, generator.choice([*HINT_SYMBOLS, *"{}#' <%"]))
            elif place == len(words):
                continue
            elif change == "drop":
                del words[place]
            elif change == "double":
                words.insert(generator.randrange(len(words)), words[place])
            else:
                other = generator.randrange(len(words))
                words[place], words[other] = words[other], words[place]
        if generator.random() < 0.05:
            return ""
        return "".join(words)

    return translate


def occurrences(spans: list[str], text: str) -> Counter[str]:
    return Counter({span: text.count(span) for span in spans})


lines_with_spans = st.lists(
    st.one_of(st.sampled_from(WORDS), st.sampled_from(SPANS)), min_size=1, max_size=12
)
seeds = st.integers(0, 1_000_000)


@given(words=lines_with_spans, seed=seeds)
def test_each_span_comes_back_once_whatever_the_model_writes(
    words: list[str], seed: int, tokenizer: Tokenizer
) -> None:
    line = " ".join(["A", *words, "dog"])
    (translation,) = translate_by(adversary(seed), [line], tokenizer)
    found = find_untranslatable(line)
    expected = occurrences(found, line)
    actual = occurrences(found, translation.text)
    assert all(actual[span] >= expected[span] for span in found)
    assert translation.lost == []
    assert not set(translation.text) & set(HINT_SYMBOLS)


@given(pieces=st.lists(st.sampled_from([*WORDS, *MESSAGES, "{x}", "<b>"]), max_size=6), seed=seeds)
@pytest.mark.parametrize("has_hints", [True, False])
def test_messages_stay_well_formed_whatever_the_model_writes(
    pieces: list[str], seed: int, has_hints: bool, tokenizer: Tokenizer, plain_tokenizer: Tokenizer
) -> None:
    line = " ".join(["A", *pieces, MESSAGES[seed % len(MESSAGES)]])
    chosen = tokenizer if has_hints else plain_tokenizer
    (translation,) = translate_by(adversary(seed), [line], chosen)
    # With further braces of the adversary around them, the outermost ones are messages still.
    skeletons = [text for text in find_untranslatable(line) if re.search(r", ?\w+ ?,.*\{\}", text)]
    translated = find_untranslatable(translation.text)
    assert Counter(skeletons) - Counter(translated) == Counter()
    assert len(find_messages(translation.text)) == len(find_messages(line))


@pytest.mark.parametrize("span", [*SPANS, *MESSAGES])
@pytest.mark.parametrize(
    "template",
    [
        "A dog {} runs.",
        "{} runs",
        "A dog ({}), {}.",
        "A dog: {}",
        "A“{}”-dog “{}”",
        "A dog{} runs.",
    ],
)
def test_a_model_that_copies_returns_the_line(span: str, template: str, copier: Translator) -> None:
    line = template.replace("{}", span)
    request = copier.request.changed(alignments=True, max_length=200)
    (translation,) = copier.results([line], request)
    assert translation.text == line
    assert translation.lost == []
    words = {(number, number) for number in range(len(line.split()))}
    if len(span.split()) == 1:
        assert translation.alignment <= words
    if len(span.split()) == 1 and template.endswith("runs.") and not span.startswith("{n,"):
        assert translation.alignment == words


@pytest.mark.parametrize("span", SPANS)
def test_the_model_reads_placeholders_from_the_first_one_on(
    span: str, tokenizer: Tokenizer
) -> None:
    assert read_of(f"A dog {span} runs. Why ({span})?", tokenizer, sentences="en") == [
        f"A dog {P} runs.",
        f"Why ({P})?",
    ]
    assert read_of(f"A dog {span} runs {span}.", tokenizer) == [f"A dog {P} runs {Q}."]


@pytest.mark.parametrize("text", SENTENCES)
@pytest.mark.parametrize("has_hints", [True, False])
def test_lines_without_spans_are_as_without_the_step(
    text: str,
    has_hints: bool,
    tokenizer: Tokenizer,
    plain_tokenizer: Tokenizer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = tokenizer if has_hints else plain_tokenizer
    request = Request(DecodingSettings(sentences="en", truecase=True))
    with_step = open_window([Line(text)], chosen, request)
    others = [step for step in pipeline.STEPS if step is not protect_placeholders]
    monkeypatch.setattr(pipeline, "STEPS", others)
    assert open_window([Line(text)], chosen, request).sentences == with_step.sentences


def test_symbols_that_a_user_or_a_model_writes_are_removed(tokenizer: Tokenizer) -> None:
    line = f"A {P}dog{HINT_SYMBOLS[0]} runs."
    assert read_of(line, tokenizer) == ["A dog runs."]
    (translation,) = translate_by(lambda text: f"{P}{text} {Q}", [line], tokenizer)
    assert translation.text == "A dog runs."


def test_more_spans_than_placeholders_all_come_back(tokenizer: Tokenizer) -> None:
    names = [f"{{name{number}}}" for number in range(3 * len(PLACEHOLDERS) + 1)]
    line = f"A dog runs. Two men: {' and '.join(names)}."
    (translation,) = translate_by(copy, [line], tokenizer)
    assert translation.text == line
    (translation,) = translate_by(lambda text: text[::-1], [line], tokenizer)
    assert sorted(find_untranslatable(translation.text)) == sorted(names)
    read = read_of(line, tokenizer)
    assert all(len(set(part) & set(PLACEHOLDERS)) <= len(PLACEHOLDERS) for part in read)


def test_spans_keep_their_case_in_a_line_of_capitals(tokenizer: Tokenizer) -> None:
    line = "IT RAINS ON %s THE PLAIN {Name} IN SPAIN."
    (read,) = read_of(line, tokenizer, truecase=True)
    assert read.lower() == f"it rains on {P} the plain {Q} in spain."
    assert read.count("rains") == 1
    (translation,) = translate_by(copy, [line], tokenizer, truecase=True)
    assert translation.text == line


def test_a_line_with_a_prefix_is_read_as_it_is(copier: Translator) -> None:
    window = open_window([Line("A {x} runs.", "A")], copier.tokenizer, copier.request)
    (read,) = copier.tokenizer.decode_source([window.sentences[0].source])
    assert read == "A {x} runs."


@pytest.mark.parametrize("changes", [{"n_best": 2}, {"sample": True}, {"scores": False}], ids=str)
def test_every_kind_of_search_has_its_spans(changes: dict[str, Any], copier: Translator) -> None:
    request = copier.request.changed(**changes)
    (translation,) = copier.results(["A dog {x} <b>runs</b>."], request)
    for each in (translation, *translation.alternatives):
        assert sorted(find_untranslatable(each.text)) == ["</b>", "<b>", "{x}"]


# Models without placeholders


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("%s: A dog runs: %s", ["A dog runs"]),
        ("%s: `%s': A dog runs.", ["A dog runs."]),
        ("A dog runs: “%s”.", ["A dog runs"]),
        ("A dog %s runs.", ["A dog %s runs."]),
        ("A dog runs %s", ["A dog runs %s"]),
        ("A {n, plural, one {dog} other {# dogs}} runs.", ["A", "runs.", "dog", "dogs"]),
    ],
)
def test_without_placeholders_a_line_is_split_at_colons_and_messages(
    line: str, read: list[str], plain_tokenizer: Tokenizer
) -> None:
    assert read_of(line, plain_tokenizer) == read
    (translation,) = translate_by(copy, [line], plain_tokenizer)
    assert translation.text == line


def test_without_placeholders_a_line_can_be_split_at_all_spans(plain_tokenizer: Tokenizer) -> None:
    line = "A dog %s runs, <b>{name}</b>: one."
    request = Request(DecodingSettings(max_length=200))
    window = open_window([Line(line)], plain_tokenizer, request, cuts_at_spans=True)
    read = plain_tokenizer.decode_source([sentence.source[:-1] for sentence in window.sentences])
    assert read == ["A dog", "runs,", "one."]
    (translation,) = window.join(
        [[Hypothesis(each.source[:-1], -1.0, True)] for each in window.sentences]
    )
    assert translation.text == line


# Mending


@pytest.mark.parametrize(
    ("source", "written", "mended"),
    [
        (f"A {P} b.", "A b.", f"A {P} b."),  # lost
        (f"{P} a b.", "A b.", f"{P} A b."),
        (f"A b {P}.", "A b.", f"A b {P}."),
        (f"A ({P}) b.", "A () b.", f"A ({P}) b."),
        (f"A “{P}” b.", f"A „{P}“ b.", f"A „{P}“ b."),
        (f"{P} a {Q} b.", f"{Q} a b.", f"{P} {Q} a b."),
        (f"A {P} b.", f"A {P} {P} b.", f"A {P} b."),  # doubled
        (f"A “{P}” b.", f"A {P} „{P}“ b.", f"A „{P}“ b."),
        (f"A {P} b.", f"A {P} („{P}“) b.", f"A {P} () b."),
        (f"A {P} b.", f"A {P} „{P}“ b.", f"A {P} b."),
        (f"A {P} b.", f"A {P} b {Q}.", f"A {P} b."),  # invented
        (f"A {P} b {Q}.", f"A {P} b {P}.", f"A {P} b {Q}."),  # one in place of another
        (f"A {P} b {Q}.", f"A {Q} b {P}.", f"A {Q} b {P}."),  # in another order
        (f"A ({P}).", f"A ( {P} ) .", f"A ({P}) ."),  # spaces
        (f"A {P}, b", f"A {P} , b", f"A {P}, b"),
        (f"A {P} b", f"A{P}b", f"A {P} b"),
        (f"A {P}{Q} b", f"A {P} {Q} b", f"A {P}{Q} b"),
        (f"打开{P}文件", f"Open{P} file", f"Open {P} file"),
        (f"open {P} file", f"打开{P}文件", f"打开{P}文件"),
        (f"{P}", "", f"{P}"),
    ],
)
def test_mending(source: str, written: str, mended: str) -> None:
    assert mend(Answer(written), source).text == mended


@pytest.mark.parametrize(
    ("written", "mended"),
    [
        (f"a {P}b{Q} c", f"a {P}b{Q} c"),
        (f"a {Q}b{P} c", f"a {P}b{Q} c"),
        (f"a {P} b {Q} c", f"a {P}b{Q} c"),
        (f"a{P}b{Q}c", f"a {P}b{Q} c"),
    ],
)
def test_tags_come_back_in_order_and_close_to_their_words(written: str, mended: str) -> None:
    assert mend(Answer(written), f"a {P}b{Q} c", [TagPair(P, Q)]).text == mended


@given(order=st.permutations(list(PLACEHOLDERS[:6])))
def test_nested_tags_are_well_formed_in_every_order(order: list[str]) -> None:
    first, second, third, fourth, fifth, sixth = PLACEHOLDERS[:6]
    pairs = [TagPair(first, fourth), TagPair(second, third), TagPair(fifth, sixth)]
    text = mend(Answer(" a ".join(order)), " a ".join(PLACEHOLDERS[:6]), pairs).text
    rest = re.sub(f"[^{''.join(PLACEHOLDERS)}]", "", text)
    for _ in pairs:
        for pair in pairs:
            rest = rest.replace(pair.opening + pair.closing, "")
    assert rest == ""


@given(
    text=st.text(st.sampled_from([*PLACEHOLDERS[:4], *"ab .,()犬'"]), max_size=20),
    source=st.text(st.sampled_from(["a", " ", ".", "(", "犬"]), max_size=8),
)
def test_links_stay_within_the_text(text: str, source: str) -> None:
    source += f"a {P}{Q} {R}"
    links = [(number, number) for number in range(len(text))]
    mended = mend(Answer(text, links), source)
    assert all(0 <= offset < len(mended.text) for _, offset in mended.links)


# Messages and hostile lines


@pytest.mark.parametrize(
    "line",
    [
        "{n, plural, one {a} other {b}",  # not closed
        "{n, plural, one {a} other b}}",
        "{n, plural, one {a {b other {c}}",
        "{n, plural}",
        "{n, plural, }",
        "{n, plural, {a}}",
        "{n, plural, one {a '{} other {b}}",  # quoted to the end
        "{n, choose, one {a}}",
        "{1, 2} and {a, b}",
    ],
)
def test_a_broken_message_is_plain_text(line: str) -> None:
    assert find_messages(line) == []


def test_the_depth_of_messages_is_bounded() -> None:
    def nested(depth: int) -> str:
        return "{n, plural, other {" * depth + "a" + "}}" * depth

    assert find_messages(nested(MAX_MESSAGE_DEPTH))
    assert find_messages(nested(10 * MAX_MESSAGE_DEPTH)) != find_messages(nested(MAX_MESSAGE_DEPTH))
    assert len(find_untranslatable(nested(1000))) < 1000


FRAGMENTS = ["{", "}", "{{", "}}", "<b>", "</b>", "<", ">", "&", ";", "&amp;", "%", "%s", "'", "#"]
FRAGMENTS += ["{n, plural, ", "one {", "other {", "=0 {", "``", "`", "__", "__A__", "a", " ", ". "]
FRAGMENTS += [
    "{x}",
    "{a, b}",
    "$",
    "/",
    "/a",
    "@",
    "a@b.org",
    "http://a.b",
    "犬",
    "</i>",
    "<i x=1>",
]


@given(pieces=st.lists(st.sampled_from(FRAGMENTS), max_size=25), seed=seeds)
@pytest.mark.parametrize("has_hints", [True, False])
@settings(max_examples=200)
def test_every_line_of_unbalanced_signs_has_one_translation(
    pieces: list[str], seed: int, has_hints: bool, tokenizer: Tokenizer, plain_tokenizer: Tokenizer
) -> None:
    chosen = tokenizer if has_hints else plain_tokenizer
    line = "".join(pieces)
    lines = [line, "A dog runs.", line]
    translations = translate_by(adversary(seed), lines, chosen)
    assert len(translations) == 3
    assert all("\n" not in each.text for each in translations)
    assert translations[0] == translations[2]
    if has_hints:
        assert translations[0].lost == []


@given(pieces=st.lists(st.sampled_from(FRAGMENTS), max_size=25))
@settings(max_examples=200)
def test_a_model_that_copies_returns_lines_of_unbalanced_signs(
    pieces: list[str], tokenizer: Tokenizer
) -> None:
    line = " ".join("".join(pieces).split())
    (translation,) = translate_by(copy, [line], tokenizer)
    assert translation.text.split() == line.split()
