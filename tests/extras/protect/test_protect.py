"""Laws of protection: each span comes back once and unchanged, whatever the model writes."""

from __future__ import annotations

import html
import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from estimators import ESTIMATOR
from folders import SENTENCES, copier_of, train
from mtkit import plugins
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.estimation.estimator import Estimator
from mtkit.decoding.text.demands import MARK, show_stand_ins
from mtkit.decoding.text.line import Context, Line, Segment, Translation
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.text import Text
from mtkit.extras.protect.messages import MAX_MESSAGE_DEPTH, find_messages
from mtkit.extras.protect.protect import MAX_SPANS, protect
from mtkit.extras.protect.spans import find_spans
from mtkit.tokenizer.codec import Tokenizer

Model = Callable[[str], str]
"""Translates what it reads."""
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
WORDS = ["A", "dog", "runs.", "Two", "men,", "one", "(boat)", "Why?", "犬。", "-", "1", "'", "😀"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train([*SENTENCES, "It rains on 7 dogs."], normalization_rule_name="identity")


@pytest.fixture(scope="module")
def copier(tokenizer: Tokenizer) -> Translator:
    """A translator that copies, and whose attention shows it."""
    return copier_of(tokenizer)


def copy(text: str) -> str:
    return text


def spans_of(text: str) -> list[str]:
    """Return what is protected in a text, without the messages."""
    return [text[span.start : span.end] for span in find_spans(text) if not span.texts]


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
    """Return a model that drops, doubles, reorders and invents words and signs."""

    def translate(text: str) -> str:
        generator = random.Random(f"{seed} {text}")
        words = re.findall(r"\s|\w+|[^\s\w]", text)
        for _ in range(generator.randint(0, 5)):
            place = generator.randrange(len(words) + 1)
            change = generator.choice(["drop", "double", "swap", "invent"])
            if change == "invent":
                words.insert(place, generator.choice(["X", "7", *"{}#' <%"]))
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
    found = spans_of(line)
    expected = occurrences(found, line)
    actual = occurrences(found, translation.text)
    assert all(actual[span] >= expected[span] for span in found)
    assert translation.lost == []
    assert MARK not in translation.text


@given(pieces=st.lists(st.sampled_from([*WORDS, *MESSAGES, "{x}", "<b>"]), max_size=6), seed=seeds)
def test_messages_stay_well_formed_whatever_the_model_writes(
    pieces: list[str], seed: int, tokenizer: Tokenizer
) -> None:
    line = " ".join(["A", *pieces, MESSAGES[seed % len(MESSAGES)]])
    (translation,) = translate_by(adversary(seed), [line], tokenizer)
    # With further braces of the adversary around them, the outermost ones are messages still.
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


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("A <b>dog runs.</b>", ["A dog runs."]),
        ("A <b><br/> dog</b> runs.", ["A dog runs."]),
        ("A <b>{x} dog</b> runs.", ["A X dog runs."]),
        ("A <b>dog runs.</b> Why?", ["A dog runs.", "Why?"]),
        ("A dog {x} runs. Why ({y})?", ["A dog X runs.", "Why (X)?"]),
        ("It rains on %d dogs.", ["It rains on 7 dogs."]),
        ("A <b>dog</b> runs.", ["A dog runs."]),
        ("A dog <br/> runs.", ["A dog runs."]),
        ("A dog<br/>runs.", ["A dog runs."]),
        ("A dog<br/><b>runs on</b> it.", ["A dog runs on it."]),
        ("A d<b>o</b>g runs.", ["A dog runs."]),
        ("A dog{x} runs.", ["A dog runs."]),
        ("Two {x}s run on the {n}th boat.", ["Two X run on the 7 boat."]),
        ("Two men: <i>A dog runs.</i> Why?", ["Two men: A dog runs.", "Why?"]),
        ("A dog &amp; a man.", ["A dog & a man."]),
        ("A dog runs.<br/>Why?", ["A dog runs.", "Why?"]),
        ("A dog runs. <i>Why?</i> Two men.", ["A dog runs.", "Why?", "Two men."]),
        ("%s: A dog runs: %s", ["A dog runs"]),
        ("%s: `%s': A dog runs.", ["A dog runs."]),
        ("A dog runs: “%s”.", ["A dog runs"]),
        ("A {n, plural, one {dog} other {# dogs}} runs.", ["A", "dog", "7 dogs", "runs."]),
    ],
)
def test_the_model_reads_whole_sentences_with_stand_ins(
    line: str, read: list[str], tokenizer: Tokenizer
) -> None:
    assert read_of(line, tokenizer, sentences="en") == read
    (translation,) = translate_by(copy, [line], tokenizer, sentences="en")
    assert spans_of(translation.text) == spans_of(line)


@pytest.mark.parametrize("text", SENTENCES)
def test_lines_without_spans_are_as_without_the_step(
    text: str, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(DecodingSettings(sentences="en", truecase=True))
    with_step = open_window([Line(text)], tokenizer, request)
    monkeypatch.setattr(plugins, "find_plugins", lambda group: {})
    assert open_window([Line(text)], tokenizer, request).sentences == with_step.sentences


def test_a_mark_that_a_user_writes_is_removed(tokenizer: Tokenizer) -> None:
    assert read_of(f"A {MARK}dog runs.", tokenizer) == ["A dog runs."]


def test_any_number_of_spans_comes_back(tokenizer: Tokenizer) -> None:
    names = [f"{{name{number}}}" for number in range(3 * MAX_SPANS + 1)]
    line = f"A dog runs. Two men: {' and '.join(names)}."
    (translation,) = translate_by(copy, [line], tokenizer)
    assert translation.text == line
    (translation,) = translate_by(lambda text: text[::-1], [line], tokenizer)
    assert sorted(re.findall(r"\{\w+\}", translation.text)) == sorted(names)


@pytest.mark.parametrize(
    ("line", "translation"),
    [
        ("A dog 😀 {x} 😀 runs.", "A dog {x} runs. 😀 😀"),
        ("A <b>dog</b> 😀 <i>😀</i> runs.", "A <b>dog</b> <i></i> runs. 😀 😀"),
        ("A dog runs. 😀 {x}", "A dog runs. 😀 {x}"),
        ("{x} 😀 A dog runs.", "{x} 😀 A dog runs."),
    ],
)
def test_a_span_beside_unknown_emoji_comes_back_once(
    line: str, translation: str, copier: Translator
) -> None:
    assert copier.translate([line]) == [translation]


def test_spans_keep_their_case_in_a_line_of_capitals(tokenizer: Tokenizer) -> None:
    line = "IT RAINS ON %s THE PLAIN {Name} IN SPAIN."
    (read,) = read_of(line, tokenizer, truecase=True)
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
        assert sorted(spans_of(each.text)) == ["</b>", "<b>", "{x}"]


# Places


class Reordering(Engine):
    """An engine that writes words in another order, and whose attention shows it."""

    name = "reordering"

    def __init__(self, tokenizer: Tokenizer, order: Sequence[int]) -> None:
        self._tokenizer = tokenizer
        self._order = order

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        future = Future[NBestLists]()
        future.set_result([[self._translate(sentence)] for sentence in sentences])
        return future

    def _translate(self, sentence: Sentence) -> Hypothesis:
        (text,) = self._tokenizer.decode_source([sentence.source[:-1]])
        words = text.split()
        ids: list[int] = []
        places: list[int] = []
        encoded = self._tokenizer.encode_source(words)
        starts = list(accumulate(map(len, encoded), initial=0))
        for number in self._order:
            ids += encoded[number]
            places += range(starts[number], starts[number + 1])
        attention = np.full((len(ids), starts[-1]), 0.01, np.float32)
        attention[range(len(ids)), places] = 1.0
        return Hypothesis(ids, -1.0, True, attention)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("line", "order", "expected"),
    [
        ("A <b>dog</b> runs on", [2, 0, 1, 3], "runs A <b>dog</b> on"),
        ("A <b>dog runs</b> on", [3, 2, 1, 0], "on <b>runs dog</b> A"),
        ("<b>A <i>dog</i></b> runs on", [2, 3, 1, 0], "runs on <b><i>dog</i> A</b>"),
        ("<i>A</i> <b>dog</b> runs", [1, 2, 0], "<b>dog</b> runs <i>A</i>"),
        ("A <b>dog</b> <i>runs</i> on", [1, 2, 0, 3], "<b>dog</b> <i>runs</i> A on"),
        ("A <b>dog</b> runs <i>on</i> it", [3, 1, 2, 0, 4], "<i>on</i> <b>dog</b> runs A it"),
        ("A dog <b>runs</b> on it", [0, 1, 4], "A <b>dog</b> it"),
        ("A dog <b>runs</b> on it", [4, 3], "it <b>on</b>"),
        ("A <br/> dog runs", [0, 1, 2], "A <br/> dog runs"),
        ("A dog <br/> runs on", [2, 3, 0, 1], "runs on <br/> A dog"),
        ("A {x} runs", [2, 1, 0], "runs {x} A"),
        ("A {x} runs {y}", [3, 1, 2, 0], "{y} {x} runs A"),
        ("A <b>{x}</b> runs", [2, 0, 1], "runs A <b>{x}</b>"),
        ("A <b>dog and {x} on</b> it", [5, 3, 2, 1, 4, 0], "it <b>{x} and dog on</b> A"),
    ],
)
def test_tags_and_placeholders_stand_where_their_words_went(
    line: str, order: list[int], expected: str
) -> None:
    tokenizer = train(
        ["A dog and X runs on it"], vocab_size=280, normalization_rule_name="identity"
    )
    settings = Request(DecodingSettings(beam=1, max_length=60))
    translator = Translator(Reordering(tokenizer, order), tokenizer, settings)
    (translation,) = translator.results([line])
    assert translation.text == expected


@given(
    words=st.lists(st.sampled_from(["A", "dog", "<b>", "</b>", "<i>", "</i>", "{x}"]), max_size=12),
    seed=seeds,
)
def test_pairs_of_tags_are_well_formed_whatever_the_model_writes(
    words: list[str], seed: int, tokenizer: Tokenizer
) -> None:
    line = " ".join(["A", *words, "dog"])
    (translation,) = translate_by(adversary(seed), [line], tokenizer)
    unpaired = [len(_unpaired(re.findall("</?[bi]>", text))) for text in (line, translation.text)]
    assert unpaired[1] <= unpaired[0]


TAGGED = ["A", "dog", "runs", "<b>", "</b>", "<i>", "</i>", "<br/>", "{x}", "%d"]


@given(words=st.lists(st.sampled_from(TAGGED), max_size=14), glue=st.booleans(), seed=seeds)
@settings(max_examples=300)
def test_no_tag_is_lost_or_crosses_another_whatever_the_attention(
    words: list[str], glue: bool, seed: int, tokenizer: Tokenizer
) -> None:
    line = ("" if glue else " ").join(["A ", *words, " dog"])
    window = open_window([Line(line)], tokenizer, Request(DecodingSettings(max_length=200)))
    generator = np.random.default_rng(seed)
    answers: list[list[Hypothesis]] = []
    for sentence in window.sentences:
        ids = sentence.source[:-1]
        written = generator.permutation(ids).tolist()
        attention = generator.random((len(ids), len(ids)), np.float32) ** 4
        answers.append([Hypothesis(written, -1.0, True, attention)])
    (translation,) = window.join(answers)
    spans = spans_of(line)
    assert all(translation.text.count(span) >= spans.count(span) for span in spans)
    assert translation.lost == []
    before, after = (_unpaired(re.findall("</?[bi]>", text)) for text in (line, translation.text))
    assert len(after) <= len(before)


def _unpaired(tags: list[str]) -> list[str]:
    """Return the tags that have no partner, where pairs may not cross."""
    open_tags: list[str] = []
    lone: list[str] = []
    for tag in tags:
        opening = tag.replace("/", "")
        if tag == opening:
            open_tags.append(tag)
        elif opening in open_tags:
            while (last := open_tags.pop()) != opening:
                lone.append(last)
        else:
            lone.append(tag)
    return [*lone, *open_tags]


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
    assert len(find_spans(nested(1000))) < 1000


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
@settings(max_examples=100)
def test_every_line_of_unbalanced_signs_has_one_translation(
    pieces: list[str], seed: int, tokenizer: Tokenizer
) -> None:
    line = "".join(pieces)
    lines = [line, "A dog runs.", line]
    translations = translate_by(adversary(seed), lines, tokenizer)
    assert len(translations) == 3
    assert all("\n" not in each.text for each in translations)
    assert translations[0] == translations[2]
    assert translations[0].lost == []


@given(pieces=st.lists(st.sampled_from(FRAGMENTS), max_size=25))
@settings(max_examples=100)
def test_a_model_that_copies_returns_lines_of_unbalanced_signs(
    pieces: list[str], copier: Translator
) -> None:
    line = " ".join("".join(pieces).split())
    (translation,) = copier.results([line], copier.request.changed(max_length=500))
    shown, expected = (html.unescape(text) for text in (translation.text, line))
    assert sorted(shown.replace(" ", "")) == sorted(expected.replace(" ", ""))


@pytest.mark.parametrize(
    ("line", "read"),
    [
        ("您好{name}欢迎", "您好她欢迎"),
        ("{name}님은 의사예요", "她님은 의사예요"),
        ("A dog{name} runs.", "A dog runs."),
    ],
)
def test_a_chosen_stand_in_may_touch_letters_of_scripts_without_spaces(
    line: str, read: str, tokenizer: Tokenizer
) -> None:
    assert ESTIMATOR.facts is not None
    estimator = Estimator(replace(ESTIMATOR.facts, stand_in="她"))
    segment = Segment(Text.of_line(line), Line(line), len(line))
    context = Context(tokenizer, Request(DecodingSettings()), estimator)
    (protected,) = protect(segment, context)
    assert isinstance(protected, Segment)
    assert show_stand_ins(protected.text, protected.demands).string == read
