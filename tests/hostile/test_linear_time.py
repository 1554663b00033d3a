"""No function that reads text takes more than linear time, or keeps signals waiting for long.

A line may have 1 MiB, and a regular expression or a loop is easily quadratic, or even exponential,
in lines that nobody writes. So each function is called with growing lines of many patterns.

The tests do not depend on the speed of the machine, because they compare CPU times of one function:

- A first, short measurement only decides which patterns are measured again.
- These are measured at lengths that take at least JUDGED_SECONDS, far more than the resolution of
  the clock, and the shortest of several runs counts, because disturbances only add time.
- A function fails if DOUBLINGS doublings of the length in a row take more than MAX_RATIO times as
  long, each: disturbances are rarely so large, and never at every length. Caches that become too
  small, or sorting, give ratios of little over 2, whereas quadratic time gives ratios near 4.
- The time limit of a call is far above what a slow machine needs.
"""

from __future__ import annotations

import importlib
import inspect
import json
import math
import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from itertools import islice, pairwise
from pathlib import Path
from types import FrameType
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import numpy as np
import pytest

from folders import train
from mtkit.config.corpora import TextCorpus
from mtkit.config.decoding import DecodingSettings
from mtkit.corpus.importers import find_importer
from mtkit.corpus.lost_letters import check_lost_letters
from mtkit.corpus.misalignment import find_passages, line_features
from mtkit.corpus.read import Pair, hash_of
from mtkit.corpus.rules import ALREADY_SPLIT, INVALID_TEXT, RULES, Rule, key_of
from mtkit.corpus.statistics import CorpusStatistics, compute_statistics
from mtkit.corpus.tag_words import TagWords
from mtkit.decoding.engines.engine import Hypothesis, Request
from mtkit.decoding.estimation.bigrams import MIN_BYTES, SeenBigrams
from mtkit.decoding.estimation.facts import TrainingFacts, TranslatedLine
from mtkit.decoding.estimation.flags import find_flags
from mtkit.decoding.reading import label_words
from mtkit.decoding.text.case import truecase
from mtkit.decoding.text.line import Context, Line, Segment
from mtkit.decoding.text.pipeline import open_window
from mtkit.decoding.text.sentences import split_sentences
from mtkit.decoding.text.text import Text as SourceText
from mtkit.decoding.text.verbatim import copy_verbatim
from mtkit.errors import MtkitError
from mtkit.extras.adapt.new_pieces import learn_pieces
from mtkit.extras.protect.protect import protect
from mtkit.extras.tables.layout import find_texts, has_header
from mtkit.extras.terms.files import open_terms, read_terms
from mtkit.extras.terms.terms import TermDemand
from mtkit.report import silently, table
from mtkit.scoring.memory import translate_by_memory
from mtkit.scoring.metrics import MAIN_METRICS, compute_scores
from mtkit.scoring.overlap import find_overlap
from mtkit.scoring.score import worst_sentences
from mtkit.scoring.writing import Writing
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.train_spm import MAX_LINE_CHARACTERS

pytestmark = pytest.mark.slow

MIB = 1 << 20
SHORTEST = 64
SCREENED, SCREENED_OF_SLOW = 16_384, 2_048
"""Characters of the longest line that is measured first."""
LARGEST_BOUND = 16_384
"""Only longer lines are judged, because mtkit calls some libraries with pieces of up to 10,000
characters, for which they take quadratic time."""
MAX_RATIO = 3.0
"""Largest ratio of the times of a line and of a line of half its length."""
UNMEASURABLE_SECONDS = 0.002
"""If SCREENED characters take less, 1 MiB takes a few seconds even if the time is quadratic."""
JUDGED_SECONDS = 0.05
DOUBLINGS = 3
REPETITIONS = 3
HANGING_SECONDS = 300.0
"""CPU seconds after which a call is ended; no function takes 1 second for SCREENED characters."""

Text = Callable[[int], str]
"""Returns a text of about so many characters."""
TextFunction = Callable[[str], object]
Clock = Callable[[], float]


def _repeated(unit: str) -> Text:
    return lambda length: unit * (length // len(unit))


def _followed(before: str, after: str) -> Text:
    return lambda length: _repeated(before)(length // 2) + _repeated(after)(length // 2)


def _numbers(length: int) -> str:
    return " ".join(map(str, range(1001, 1001 + length // 5)))


def _codes(length: int) -> str:
    return " ".join(f"ABC{number:06}" for number in range(length // 10))


def _dates(length: int) -> str:
    days = range(length // 11)
    return " ".join(f"{1 + day % 28}.{1 + day // 28 % 12:02}.{2000 + day}" for day in days)


UNITS = {
    "digits": "7",
    "groups of digits": "1,234,567.8 ",
    "dates with a full stop": "1.2.2024. ",
    "ISO dates": "2024-02-01 ",
    "times": "00:00:01,000 --> 00:00:04,000 ",
    "list marks": "1: ",
    "bracketed marks": "(1) [2] 3) ",
    "bullets": "- ",
    "smileys": ":-) ",
    "(": "(",
    ")": ")",
    "[": "[",
    "()": "()",
    "{{": "{{",
    "straight quotes": '"',
    "apostrophes": "'",
    "curly quotes": "“",
    "closing quotes": "”",
    "guillemets": "«» ",
    "corner brackets": "「」",
    "full stops": ".",
    "full stops and quotes": '."',
    "full stops and spaces": ". ",
    "wide full stops": "。",
    "question marks": "?! ",
    "sentences": "He ran. ",
    "abbreviations": "Dr. ",
    "initials": "A. ",
    "spaces": " ",
    "tabs": "\t",
    "no-break spaces": "\xa0",
    "wide spaces": "\u3000",
    "narrow spaces and spaces": "\u202f ",
    "carriage returns": "\r",
    "line separators": "\u2028",
    "next lines": "\x85",
    "zero-width spaces": "\u200b",
    "marks in order": "\u0300",
    "marks out of order": "\u0300\u0327",
    "marks of three classes": "\u0345\u0301\u0327",
    "marks with a decomposition": "\u0344\u0327",
    "Tibetan vowels": "\u0f71\u0f72\u0f74",
    "Tibetan vowels with a decomposition": "\u0f73\u0f71",
    "halfwidth voiced marks": "\uff9e\u0300",
    "voiced marks": "\u3099\u0327",
    "Hebrew points": "\u05b0\u05bc",
    "Arabic points": "\u064b\u0651\u0670",
    "Devanagari with nukta": "\u0915\u093c\u094d",
    "letters with marks": "e\u0327\u0301",
    "joiners": "\u200d",
    "variation selectors": "\ufe0f",
    "emoji": "\U0001f642",
    "joined emoji": "\U0001f468\u200d",
    "emoji with skin": "\U0001f44d\U0001f3fd",
    "flags": "\U0001f1e9\U0001f1ea",
    "emoji between words": "dog \U0001f642 ",
    "emoji after sentences": "He ran. \U0001f642 ",
    "emoji in sentences": "He \U0001f642 ran. \U0001f642 ",
    "keycaps": "\u20e3\ufe0f",
    "digits with keycaps": "1\ufe0f\u20e3",
    "copyright signs": "\xa9",
    "@@": "a@@ ",
    "@@ alone": "@@",
    "▁": "▁",
    "##": "a ##",
    "Ġ": " Ġ",
    "Ġ words": " Ġa",
    "&lt;": "&lt;",
    "&": "&a",
    "<": "<",
    "<a ": "<a ",
    "</a": "</a",
    "{\\u": "{\\u",
    "backslashes": "\\",
    "backticks": "`",
    "commands": ": mtkit ",
    "hyphens": "-",
    "word-hyphens": "a-",
    "slashes": "a/",
    "folders": "/a/",
    "names of files": "a.b",
    "full stops in names": "a.",
    "schemes": "a://",
    "addresses": "a@b.c",
    "at signs": "a@",
    "placeholders": "{a}",
    "unclosed placeholders": "{a",
    "formats": "%-5.2",
    "formats without an end": "%00000",
    "tags": "<b>",
    "pairs of tags": "<b>a</b> ",
    "tags that end": "</b>",
    "texts of tags": "&lt;b ",
    "entities": "&nbsp;",
    "numbers of entities": "&#1",
    "names in underscores": "__A",
    "code": "`a` ",
    "quotes in code": "`a' ",
    "double backticks": "``a ",
    "messages": "{n, plural, one {# a} other {'{' b}} ",
    "begins of messages": "{n, plural, ",
    "begins of texts": "one {",
    "quoted braces": "'{",
    "empty texts of messages": "{n, select, a {}} ",
    "comments": "<!-- ",
    "commands in braces": "{\\\\a",
    "underscores": "_",
    "commas": ",",
    "semicolons": "; ",
    "pipes": "|",
    "quoted cells": '"a", ',
    "doubled quotes": '""',
    "colons": "12:",
    "percent signs": "5 % ",
    "mojibake": "Ã©",
    "replacement characters": "\ufffd",
    "controls": "\x01",
    "NUL": "\0",
    "byte subwords": "<0x0A>",
    "one Latin word": "a",
    "one word in capitals": "A",
    "capitals": "DOG RUNS ",
    "title case": "Dogs Chase ",
    "Latin words": "the dog ran ",
    "Latin with accents": "é",
    "Cyrillic": "собака ",
    "Cyrillic among Latin": "dоg ",
    "one word of Cyrillic among Latin": "оo",
    "em dashes": "a—",
    "one Cyrillic word": "ж",
    "Arabic": "كلب ",
    "Devanagari": "कुत्ता ",
    "Thai": "สุนัขวิ่ง",
    "Han": "狗跑",
    "Han sentences": "狗跑。",
    "short words of Han": "狗 跑 ",
    "kana": "いぬがはしる",
    "halfwidth kana": "ｶﾞ",
    "Hangul": "개가 ",
    "Hangul letters": "\u1112\u1161\u11ab",
    "Hangul vowels": "\u1161",
    "Tibetan": "ཁྱི་",
    "Georgian": "ძაღლი ",
    "Turkish": "İI ",
    "one character, eighteen letters": "\ufdfa",
    "ligatures": "ﬁ",
}
"""Texts to repeat."""
TEXTS: dict[str, Text] = {
    **{name: _repeated(unit) for name, unit in UNITS.items()},
    "numbers that differ": _numbers,
    "dates that differ": _dates,
    "codes that begin alike": _codes,
    "nested (": _followed("(", ")"),
    "nested [": _followed("[", "]"),
    "nested “": _followed("“", "”"),
    "nested tags": _followed("<a ", ">"),
    "a long format": _followed("%", "0"),
    "digits, then letters": _followed("1", "a"),
    "spaces, then full stops": _followed(" ", "."),
    "marks, then letters": _followed("\u0300", "a"),
    "quotes, then full stops": _followed('"', "."),
}
PLACES = {"before a word": "{} word", "after a sentence, before a word": "He left. {} word"}
"""Places in a line. The word after a pattern makes regular expressions fail, and try again."""
OTHER_PLACES = {
    "alone": "{}",
    "after a sentence": "He left. {}",
    "before a letter": "{}x",
    "before a digit": "{}1",
    "after a letter": "x{}",
    "in a sentence": "The {} word.",
    "in a word": "x{}x",
}


@cache
def tokenizer(normalization: str = "identity") -> Tokenizer:
    return train(normalization_rule_name=normalization)


def pair(source: str, target: str) -> Pair:
    return Pair(source, target, 0, "file", 1)


def lines_of(text: str, width: int = 60) -> list[str]:
    return [text[start : start + width] for start in range(0, len(text), width)]


@cache
def statistics_of(sentence: str) -> CorpusStatistics:
    lines = [f"{sentence} {number}" for number in range(100)]
    statistics = compute_statistics([pair(line, line) for line in lines])
    return replace(statistics, held_out=frozenset(map(key_of, lines)))


def find_passages_of_lines(text: str) -> None:
    # Fewer than 200 lines would not be searched, so that the time would jump at this length.
    features = line_features([*lines_of(text), *["A dog runs."] * 200])
    find_passages(features, features)


def find_lost_letters(text: str) -> None:
    check_lost_letters(replace(statistics_of("A dog."), sample=(pair(text, "A dog."),)))


def apply(rule: Rule, text: str) -> None:
    """Apply a rule to pairs of equal and of different sides, in corpora with and without spaces."""
    english = statistics_of("The dog runs over the green field to the old house.")
    chinese = statistics_of("这只狗跑过绿色的田野，跑到老房子那里去了，大家都很高兴。")
    for statistics in (english, chinese):
        rule.check(pair(text, text), statistics)
    rule.check(pair("A dog.", text), english)


def request(*, alignments: bool = False, **settings: Any) -> Request:
    return Request(DecodingSettings(max_length=20, **settings), alignments=alignments)


def split_and_join(request: Request, text: str, prefix: str = "") -> None:
    """Lead a line through all text steps, and back with hypotheses that repeat the source."""
    window = open_window([Line(text, prefix)], tokenizer(), request)
    answers: list[list[Hypothesis]] = []
    for sentence in window.sentences:
        ids = sentence.source[:-1]
        needs_attention = request.alignments or sentence.needs_attention
        attention = np.eye(len(ids), dtype=np.float32) if needs_attention else None
        answers.append([Hypothesis(ids, 0.0, True, attention)])
    window.join(answers)


def lose_stand_ins(text: str) -> None:
    """Lead a line through all text steps, and back with hypotheses that lack most of it."""
    window = open_window([Line(text)], tokenizer(), request())
    window.join([[Hypothesis(each.source[:1], 0.0, True)] for each in window.sentences])


GLOSSARY = {"He": "Er", "A dog": "Ein Hund", "dog": "", "a": "x y", ".": "!", "狗": "Hund"}


def replace_by_terms(text: str) -> None:
    """Look for terms, and put them into a translation that repeats the source."""
    every_word = {word: "x" for word in text.split(maxsplit=100)[:100] if len(word) < 100}
    for entries in (GLOSSARY, every_word):
        with suppress(MtkitError):
            glossary = open_terms(entries)
            split_and_join(Request(DecodingSettings(max_length=20), glossary=glossary), text)


def are_met(terms: Iterable[str], text: str) -> None:
    """Look for terms in a translation."""
    for number, term in enumerate(terms):
        TermDemand(0, 1, term, is_kept=bool(number % 2)).count_in(text)


def find_in_hostile_glossary(text: str) -> None:
    """Look for terms that begin alike, have many lengths, and end otherwise than the line."""
    glossary = open_terms({f"{'He ' * count}x": "y" for count in range(1, 100)})
    glossary.index.find_terms(text)
    glossary.index.find_terms("He " * (len(text) // 3))
    are_met([f"{'He ' * count}x" for count in range(1, 10)], text)


def find_each_word(text: str) -> None:
    """Look for the words of a line, and for pairs of them, as terms in the reversed line."""
    words = text.split()
    pairs = (" ".join(pair) for pair in pairwise(words))
    are_met((*words, *pairs), " ".join(reversed(words)))


def read_as_glossary(content: Callable[[str], str], text: str) -> None:
    """Read a text as a glossary; an error about an entry is as good as a glossary."""
    path = Path("terms.tsv")
    path.write_text(content(text), encoding="utf-8", errors="replace")
    with suppress(MtkitError):
        read_terms(path)


def watch_tags(text: str) -> None:
    """Look for tags among the words of a source."""
    words = TagWords(TextCorpus(source="a", target="b", tag="a", target_tag="b"))
    list(words.watch([pair(text, text)]))
    list(words.messages())


def copy_parts(text: str) -> None:
    segment = Segment(SourceText.of_line(text), Line(text))
    copy_verbatim(segment, Context(tokenizer(), request()))
    protect(segment, Context(tokenizer(), request()))


def spell(text: str) -> None:
    spelling = tokenizer("identity").source_spelling
    spelling.origins(text)
    spelling.unknown_letters(text)
    tokenizer("identity").unknown_target_letters(text)


def split_lines_into_sentences(language: str, text: str) -> None:
    split_sentences(text, language)


def flag(text: str) -> None:
    """Flag a line whose translation is the same text, and one whose translation is this text."""
    statistics = statistics_of("The dog runs over the green field to the old house.")
    (ids,) = tokenizer().encode_source([text])
    seen = SeenBigrams(bytes(MIN_BYTES))
    facts = TrainingFacts(statistics, seen, seen, max_unseen_share=0.5)
    for source in (text, "A dog."):
        line = TranslatedLine(source, text, letters=1, source_parts=[ids], target_parts=[ids])
        find_flags(line, facts)


def encode(normalization: str, text: str) -> None:
    tokenizer(normalization).encode_source([text])
    tokenizer(normalization).source_offsets(text)


def decode(text: str) -> None:
    (ids,) = tokenizer().encode_target([text])
    tokenizer().decode([ids])
    tokenizer().is_whole(ids)
    tokenizer().target_offsets(ids)
    label_words(tokenizer().target_pieces(ids))


def score(language: str, text: str) -> None:
    # The other metrics take quadratic time, and are left out for lines of over 10,000 characters.
    compute_scores({"": [text]}, [[text]], Writing.of(language, [text]), keys=MAIN_METRICS)
    worst_sentences([text], [[text]], [text], 1)


def read_as_table(name: str, content: Callable[[str], str], text: str) -> None:
    """Read a text as a file; errors about its content are as good as rows."""
    path = Path(name)
    path.write_text(content(text), encoding="utf-8", errors="replace")
    columns = ("a", "b") if name.endswith(("jsonl", "tmx")) else (0, 1)
    importer = find_importer(name)
    assert importer is not None
    with suppress(MtkitError):
        list(importer.read(name, columns))
    with suppress(MtkitError):
        importer.choose_columns(name, None, None)


def learn_new_pieces(text: str) -> None:
    (model,) = tokenizer().models.values()
    learn_pieces(model, lines_of(text, MAX_LINE_CHARACTERS) * 3, 20, split_digits=True)


def as_memory(text: str) -> str:
    """Return a memory with a text as segment, as code, as language, and between elements."""
    code = f"<ph>{escape(text)}</ph>"
    unit = f"<tu><tuv lang='a'><seg>{escape(text)}</seg></tuv>"
    unit += f"<tuv lang='b'><seg>{code}</seg></tuv></tu>"
    other = f"<tu>{escape(text)}<tuv lang={quoteattr(text)}><seg/></tuv></tu>"
    return f"<tmx><body>{unit}{other}</body></tmx>"


MODULES = (
    "config.language_codes",
    "config.target_tags",
    "corpus.characters",
    "corpus.columns",
    "corpus.languages",
    "corpus.misalignment",
    "corpus.rules",
    "corpus.text",
    "decoding.reading",
    "decoding.text.case",
    "decoding.text.line",
    "decoding.text.sentences",
    "decoding.text.text",
    "decoding.text.verbatim",
    "decoding.text.words",
    "report",
    "extras.protect.messages",
    "extras.protect.protect",
    "extras.protect.spans",
    "extras.study.attend.sentences",
    "extras.terms.files",
    "extras.terms.index",
    "extras.terms.terms",
    "init.facts",
)
"""Modules whose public functions of one text, or of several lines, are measured."""
NOT_OF_CORPORA = {"report.say", "report.warn", "report.data", "report.data_lines"}
"""Functions that print, and would fill the output of the tests."""


def discover_functions() -> Iterator[tuple[str, TextFunction]]:
    """Yield the public functions of MODULES that need only a text, or lines."""
    for name in MODULES:
        module = importlib.import_module(f"mtkit.{name}")
        for function in vars(module).values():
            if getattr(function, "__module__", "") != module.__name__:
                continue
            if not inspect.isfunction(function) or function.__name__.startswith("_"):
                continue
            parameters = inspect.signature(function).parameters.values()
            needed = [each for each in parameters if each.default is each.empty]
            label = f"{name}.{function.__name__}"
            if len(needed) != 1 or label in NOT_OF_CORPORA:
                continue
            if needed[0].annotation in ("str", "str | None") and needed[0].name != "character":
                yield label, function
            elif needed[0].annotation in ("Iterable[str]", "Sequence[str]"):
                yield f"{label} of a line", partial(_call_with_lines, function, MIB)
                yield f"{label} of lines", partial(_call_with_lines, function, 60)


def _call_with_lines(function: Callable[[list[str]], object], width: int, text: str) -> object:
    return function(lines_of(text, width))


FUNCTIONS: dict[str, TextFunction] = {
    **dict(discover_functions()),
    **{f"rule {rule.name}": partial(apply, rule) for rule in (*RULES, INVALID_TEXT, ALREADY_SPLIT)},
    **{
        f"split_sentences {code}": partial(split_lines_into_sentences, code)
        for code in ("en", "ja", "hi", "my")
    },
    "copy verbatim": copy_parts,
    "tag words": watch_tags,
    "hash_of": lambda text: hash_of(pair(text, text)),
    "compute_statistics": lambda text: compute_statistics([pair(text, text)]),
    "compute_statistics of lines": lambda text: compute_statistics(
        [pair(line, line) for line in lines_of(text)]
    ),
    "find_overlap": lambda text: find_overlap([pair(text, text)], [pair(text, text)]),
    "check_lost_letters": find_lost_letters,
    "translate_by_memory": lambda text: translate_by_memory([text], [pair(text, text)]),
    "find_passages": find_passages_of_lines,
    "find_texts": lambda text: find_texts([[text, text]] * 3),
    "find_texts in many columns": lambda text: find_texts([text.split()] * 3),
    "has_header": lambda text: has_header([["a", text]] + [[text, "He ran."]] * 3, (0, 1)),
    "read a .tsv": partial(read_as_table, "t.tsv", lambda text: f"{text}\t{text}\n" * 3),
    "read a .csv": partial(read_as_table, "t.csv", lambda text: f"{text},{text}\n" * 3),
    "read a .csv of lines": partial(
        read_as_table, "t.csv", lambda text: "".join(f"{line}\n" for line in lines_of(text))
    ),
    "read a .tmx": partial(read_as_table, "t.tmx", as_memory),
    "read a .tmx without XML": partial(read_as_table, "t.tmx", lambda text: text),
    "read a .jsonl": partial(
        read_as_table, "t.jsonl", lambda text: json.dumps({"a": text, "b": text}) + "\n"
    ),
    "read a .jsonl without JSON": partial(read_as_table, "t.jsonl", lambda text: text),
    "read a glossary": partial(read_as_glossary, lambda text: f"{text}\n" * 3),
    "read a glossary of short lines": partial(
        read_as_glossary,
        lambda text: "".join(f"{row} {line}\t{line}\n" for row, line in enumerate(lines_of(text))),
    ),
    "find terms that begin alike": find_in_hostile_glossary,
    "find each word as a term": find_each_word,
    "table": lambda text: list(table([[text, text]] * 2)),
}
"""Functions that read text, by their names; those of MODULES and rules need no entry."""
EVERY_OPTION = request(alignments=True, sentences="en", truecase=True, abbreviations="dr prof")
SLOW_FUNCTIONS: dict[str, TextFunction] = {
    "truecase": lambda text: truecase(text, tokenizer()),
    "text steps": partial(split_and_join, request()),
    "text steps, every option": partial(split_and_join, EVERY_OPTION),
    "text steps that lose stand-ins": lose_stand_ins,
    "text steps, with terms": replace_by_terms,
    "text steps, as a prefix": lambda text: split_and_join(request(), "A dog.", prefix=text),
    "spell": spell,
    "flags": flag,
    "encode": partial(encode, "identity"),
    "encode with nmt_nfkc": partial(encode, "nmt_nfkc"),
    "decode": decode,
    "learn new pieces": learn_new_pieces,
    "score de": partial(score, "de"),
    "score zh": partial(score, "zh"),
    "score th": partial(score, "th"),
}
"""Functions that take up to 0.1 ms for a character, so that shorter lines are measured first."""


@pytest.fixture(autouse=True)
def _quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run each test in its own folder, without messages."""
    monkeypatch.chdir(tmp_path)
    with silently():
        yield


@contextmanager
def time_limit() -> Iterator[None]:
    """Fail after HANGING_SECONDS of CPU time, also in a regular expression."""

    def fail(_number: int, _frame: FrameType | None) -> None:
        pytest.fail(f"took over {HANGING_SECONDS} s")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, HANGING_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def call(function: TextFunction, text: str) -> None:
    """Call a function, which may refuse the text."""
    with time_limit(), suppress(MtkitError, ValueError):
        result = function(text)
        if isinstance(result, Iterator):
            list(result)


# Python 3.11 keeps frames in chunks of 16 KiB, so that a loop at the end of a chunk asks the system
# for memory at each call, which can take ten times as long as the call. A frame of over 512 KiB
# gets a chunk of 1 MiB, whose rest holds the frames of all that is measured.
call.__code__ = call.__code__.replace(co_stacksize=70_000)


def shortest_time(function: TextFunction, text: str, repetitions: int, clock: Clock) -> float:
    """Return the seconds that the fastest of several calls takes."""
    seconds = math.inf
    for _ in range(repetitions):
        begin = clock()
        call(function, text)
        seconds = min(seconds, clock() - begin)
    return seconds


def may_be_slow(function: TextFunction, text: Text, longest: int) -> bool:
    """Return whether a first look finds more than linear time; growth by 4 keeps this short."""
    length, before = SHORTEST, math.inf
    while length <= longest:
        for repetitions in (1, REPETITIONS):
            seconds = shortest_time(function, text(length), repetitions, time.perf_counter)
            is_suspicious = seconds > max(MAX_RATIO**2 * before, UNMEASURABLE_SECONDS)
            if not is_suspicious:
                break
        else:
            return True
        length, before = 4 * length, seconds
    return False


def growth(function: TextFunction, text: Text) -> list[float]:
    """Return the ratios of the times of up to DOUBLINGS doublings; the last is small if linear."""

    def seconds_of(length: int, repetitions: int) -> float:
        return shortest_time(function, text(length), repetitions, time.process_time)

    length = LARGEST_BOUND
    while seconds_of(length, 1) < JUDGED_SECONDS:
        length *= 2
        if length > MIB:
            return []  # even the longest line takes no time
    ratios: list[float] = []
    while len(ratios) < DOUBLINGS:
        for repetitions in (1, REPETITIONS):
            ratio = seconds_of(2 * length, repetitions) / seconds_of(length, repetitions)
            if ratio <= MAX_RATIO:
                return [*ratios, ratio]
        ratios.append(ratio)
        length *= 2
    return ratios


def check_all(name: str, texts: dict[str, Text], places: dict[str, str], longest: int) -> None:
    """Fail if a function takes more than linear time for any of the texts in any of the places."""
    function = (FUNCTIONS | SLOW_FUNCTIONS)[name]
    call(function, "A dog runs.")  # loads libraries and trains the tokenizer
    slow = []
    for pattern, text in texts.items():
        for place, template in places.items():

            def in_place(length: int, text: Text = text, template: str = template) -> str:
                return template.format(text(length))

            if may_be_slow(function, in_place, longest):
                ratios = growth(function, in_place)
                if ratios and ratios[-1] > MAX_RATIO:
                    slow.append(f"{pattern}, {place}: each doubling of the length takes {ratios}")
    assert not slow, f"{name} does not take linear time:\n" + "\n".join(slow)


SLOWEST = {
    "corpus.languages.rank_languages",  # `serve` ranks only the beginning of a text
    "find each word as a term",
    "find terms that begin alike",
    "read a glossary of short lines",
    "text steps that lose stand-ins",
    "text steps, with terms",
}
"""Functions that only the campaign measures, because each takes half a minute."""


def in_campaign(names: Iterable[str]) -> list[Any]:
    """Return the names as parameters of a test; the slowest ones belong to the campaign."""
    return [
        pytest.param(name, marks=pytest.mark.campaign) if name in SLOWEST else name
        for name in names
    ]


@pytest.mark.parametrize("name", in_campaign(FUNCTIONS))
def test_time_grows_at_most_linearly_with_the_length_of_a_line(name: str) -> None:
    """A function meets every second pattern in one of PLACES, and the next one the others."""
    first = list(FUNCTIONS).index(name)
    shares = 2 * len(PLACES)
    for turn, (place, template) in enumerate(PLACES.items()):
        start = (first + 2 * turn) % shares
        texts = dict(islice(TEXTS.items(), start, None, shares))
        check_all(name, texts, {place: template}, SCREENED)


@pytest.mark.parametrize("name", in_campaign(SLOW_FUNCTIONS))
def test_time_of_slow_functions_grows_at_most_linearly(name: str) -> None:
    """A function meets every second pattern, and the next function the others."""
    place = "after a sentence, before a word"
    first = list(SLOW_FUNCTIONS).index(name) % 2
    texts = dict(islice(TEXTS.items(), first, None, 2))
    check_all(name, texts, {place: PLACES[place]}, SCREENED_OF_SLOW)


def test_looking_for_many_terms_that_begin_alike_takes_linear_time() -> None:
    check_all("find each word as a term", {"codes": _codes}, {"alone": "{}"}, SCREENED)


def mixtures(seed: str) -> dict[str, Text]:
    """Return random alternations of the units."""
    generator, texts = random.Random(seed), dict[str, Text]()
    for _ in range(100):
        names = generator.choices([*UNITS], k=generator.randint(2, 4))
        texts[" + ".join(names)] = _repeated("".join(UNITS[name] for name in names))
    return texts


@pytest.mark.campaign
@pytest.mark.parametrize("name", [*FUNCTIONS, *SLOW_FUNCTIONS])
def test_no_place_or_mixture_of_patterns_takes_more_than_linear_time(name: str) -> None:
    longest = SCREENED if name in FUNCTIONS else SCREENED_OF_SLOW
    check_all(name, TEXTS, PLACES | OTHER_PLACES, longest)
    check_all(name, mixtures(name), PLACES, longest)
