"""Terms of a glossary: the model reads a hint after each of them.

A hint is the translation that the term must have. In a line without a term nothing changes. A model
that was trained without hints reads the plain line; the terms that its translation lacks are known
all the same.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from mtkit.corpus.files import tell_once
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.estimation.estimator import Estimator
from mtkit.decoding.text.line import Context, Span, SplitSpan, WantedTerm
from mtkit.decoding.text.term_index import Term, index_of, word_ranges
from mtkit.report import say
from mtkit.tokenizer.codec import Tokenizer
from mtkit.tokenizer.hints import HINT_BEGIN, HINT_END, HINT_MEANS

_HINT = re.compile(
    f"{HINT_BEGIN}([^{HINT_BEGIN}{HINT_MEANS}{HINT_END}]*)"
    f"{HINT_MEANS}[^{HINT_BEGIN}{HINT_MEANS}{HINT_END}]*{HINT_END}"
)
_MARK = "\u0300"
_HANGUL = re.compile("[\uac00-\ud7a3]")
_PARTICLE = re.compile(r"(?<=[^\W\uac00-\ud7a3])(?=[\uac00-\ud7a3])")
"""Where a word of another script ends, and Hangul begins."""
MIN_BEGINNING = 3
"""Fewest letters that two forms of a word begin with."""
MAX_PLACES = 1000
"""Most places in a translation at which a term is looked for."""
LAST_CLASS_OF_SIGNS = 9
"""Marks of higher combining classes are accents, points and tones."""


def direct_glossary(request: Request, tokenizer: Tokenizer, estimator: Estimator) -> Request:
    """Return the request with its glossary in the direction of the model.

    Say once if the model cannot be told its terms.

    Raises:
        UserError: the glossary is for other languages.
    """
    glossary = request.glossary
    if not glossary:
        return request
    source, target = request.settings.sentences, request.settings.tag
    if estimator.facts is not None:
        statistics = estimator.facts.statistics
        source = source or statistics.source.declared or statistics.source.language
        target = target or statistics.target.declared or statistics.target.language
    directed = glossary.directed((source, target))
    index_of(directed)  # now, because it takes seconds for a million entries
    if not tokenizer.has_hints:
        tell_once(
            say,
            f"{glossary.name}: this model was trained without hints; a sentence whose translation "
            "lacks a term is searched again, which takes PyTorch 10 to 100 times as long",
        )
    return request if directed is glossary else replace(request, glossary=directed)


def hint_terms(spans: Sequence[Span], context: Context) -> list[SplitSpan]:
    """Put a hint after each term of the glossary, if the model has learned what hints are."""
    glossary = context.request.glossary
    if not glossary:
        return [SplitSpan([span]) for span in spans]
    index = index_of(glossary)
    has_hints = context.tokenizer.has_hints
    splits: list[SplitSpan] = []
    for span in spans:
        terms = index.find_terms(span.text, span.line.text)
        part = add_hints(span, terms) if terms and has_hints else span
        wanted = [WantedTerm(term.target, term.is_kept) for term in terms]
        splits.append(SplitSpan([part], terms=wanted))
    return splits


def add_hints(span: Span, terms: Sequence[Term]) -> Span:
    """Return the span with a hint after each of its terms.

    A space before a term moves into the hint, and its target gets one, too: SentencePiece then
    splits the words as it does without the hint. Symbols and target have the origin of the term.
    """
    text: list[str] = []
    origin: list[int] = []
    end = 0
    for term in terms:
        start = term.start
        space = ""
        if start > end and span.text[start - 1] == " ":
            start -= 1
            space = " "
        hint = f"{HINT_MEANS}{space}{term.target}{HINT_END}"
        text += (span.text[end:start], HINT_BEGIN, span.text[start : term.end], hint)
        origin += span.origin[end:start]
        origin.append(span.origin[term.start])
        origin += span.origin[start : term.end]
        origin += [span.origin[term.end - 1]] * len(hint)
        end = term.end
    text.append(span.text[end:])
    origin += span.origin[end:]
    return Span("".join(text), origin, span.line)


def mask_hints(text: str) -> str:
    """Return the text with a mark in place of each character of a hint but the first.

    Whoever cuts no letter from its marks then cuts no hint: there are no spaces and no stops in it.
    """
    if HINT_BEGIN not in text:
        return text
    return _HINT.sub(lambda hint: HINT_BEGIN + _MARK * (len(hint[0]) - 1), text)


def remove_hint(span: Span) -> Span:
    """Return the term of a span that is one hint; any other span as it is."""
    hint = _HINT.fullmatch(span.text)
    return span.cut(*hint.span(1)) if hint else span


def without_hints(parts: Sequence[Sequence[int]], tokenizer: Tokenizer) -> list[list[int]]:
    """Return the source subword ids of each part as they were without hints."""
    if not tokenizer.has_hints:
        return [list(ids) for ids in parts]
    pieces = tokenizer.vocabularies[0]
    begin, means, end = map(pieces.index, (HINT_BEGIN, HINT_MEANS, HINT_END))
    plain_parts: list[list[int]] = []
    for ids in parts:
        plain: list[int] = []
        is_in_target = False
        for i in ids:
            if i in (means, end):
                is_in_target = i == means
            elif i != begin and not is_in_target:
                plain.append(i)
        plain_parts.append(plain)
    return plain_parts


def find_missing(terms: Iterable[WantedTerm], translation: str) -> list[str]:
    """Return those of the terms that a translation lacks, each once, in order.

    A term is there if its words follow each other in the translation, in any case, with any
    accents. An inflected form counts: it begins with two thirds of the letters of the word, and
    with at least MIN_BEGINNING. But a term that stays untranslated has the same letters; only its
    first letter, or all letters, may have become capitals.
    """
    expected = dict.fromkeys(terms)
    if not expected:
        return []
    words = _Words(translation)
    return list(dict.fromkeys(term.text for term in expected if not words.have(term)))


class _Words:
    """The words of a translation, by how they begin.

    The time to look for a term does not depend on their number.
    """

    def __init__(self, text: str) -> None:
        self._written = _split_words(text)
        self._plain = _plain_words(self._written)
        self._longest_first = sorted(
            range(len(self._plain)), key=lambda place: len(self._plain[place]), reverse=True
        )
        self._places: dict[int | None, dict[str, list[int]]] = {}
        """The places of the words that begin alike, by how many letters they have in common."""

    def have(self, term: WantedTerm) -> bool:
        """Return whether the words of a term follow each other somewhere."""
        written = _split_words(term.text)
        words = _plain_words(written)
        lengths = [None if term.is_kept else _count_common(word) for word in words]
        # Where its rarest word is, because many terms may have a word in common.
        number, places = min(
            enumerate(map(self._find_places, words, lengths)), key=lambda found: len(found[1])
        )
        for place in places[:MAX_PLACES]:
            start = place - number
            end = start + len(words)
            if start < 0 or end > len(self._plain):
                continue
            if term.is_kept:
                is_there = _is_kept(self._written[start:end], written)
            else:
                is_there = all(map(_begin_alike, self._plain[start:end], words, lengths))
            if is_there:
                return True
        return False

    def _find_places(self, word: str, length: int | None) -> list[int]:
        """Return where words begin with so many letters of this one; None: where they equal it."""
        if length not in self._places:
            self._places[length] = self._index(length)
        return self._places[length].get(word[:length], [])

    def _index(self, length: int | None) -> dict[str, list[int]]:
        """Return the places of words by so many letters at their beginning (None: all letters)."""
        places: dict[str, list[int]] = defaultdict(list)
        for place in self._longest_first:
            word = self._plain[place]
            if length is not None and len(word) < length:
                break  # so that all indices together take no longer than one of all letters
            places[word[:length]].append(place)
        return places


def _split_words(text: str) -> list[str]:
    """Return the words and signs of a text; a Korean particle after another script is a word."""
    words = [text[start:end] for start, end in word_ranges(text)]
    if not _HANGUL.search(text):
        return words
    return [part for word in words for part in _PARTICLE.split(word)]


def _plain_words(words: Iterable[str]) -> list[str]:
    """Return words and signs in small letters and without accents."""
    return [_without_accents(word.casefold()) for word in words]


def _without_accents(word: str) -> str:
    if word.isascii():
        return word
    # One letter at a time, because Python takes quadratic time to sort many marks.
    letters = "".join(map(_without_accent, word))
    return letters or word


@cache
def _without_accent(letter: str) -> str:
    """Return a letter without its accents; "" for a mark that is one.

    Vowel signs of Indian scripts are marks, too, but not of these combining classes.
    """
    if _HANGUL.match(letter):
        return letter  # it would fall into parts
    parts = unicodedata.normalize("NFD", letter)
    return "".join(part for part in parts if unicodedata.combining(part) <= LAST_CLASS_OF_SIGNS)


def _count_common(word: str) -> int | None:
    """Return how many letters all forms of a word have in common; None: it has no other form."""
    if _HANGUL.match(word):
        return len(word)  # particles follow a noun
    stem = max(MIN_BEGINNING, -(-2 * len(word) // 3))  # rounded up
    return stem if len(word) >= stem else None


def _begin_alike(word: str, other: str, length: int | None) -> bool:
    return word[:length] == other[:length]


def _is_kept(written: Sequence[str], term: Sequence[str]) -> bool:
    """Return whether words are those of a term; capitals may begin it, or be all of it."""
    first, *others = term
    with_capital = [first[:1].upper() + first[1:], *others]
    return list(written) in (list(term), with_capital, [word.upper() for word in term])
