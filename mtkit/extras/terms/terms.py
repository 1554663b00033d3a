"""Terms of a glossary: each takes the place of the words that translate it.

The alignment of the plain translation says which words these are (`mtkit.decoding.text.placing`).
In a line without a term nothing changes.
"""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from mtkit.decoding.text.case import uppercase
from mtkit.decoding.text.demands import Demand, demands_within
from mtkit.decoding.text.line import Context, Segment
from mtkit.decoding.text.words import tokens_of
from mtkit.extras.terms.glossary import TermGlossary
from mtkit.extras.terms.index import is_loud

_HANGUL = re.compile("[\uac00-\ud7a3]")
_PARTICLE = re.compile(r"(?<=[^\W\uac00-\ud7a3])(?=[\uac00-\ud7a3])")
"""Where a word of another script ends, and Hangul begins."""
MIN_BEGINNING = 3
"""Fewest letters that two forms of a word begin with."""
MAX_PLACES = 1000
"""Most places in a translation at which a term is looked for in vain."""
LAST_CLASS_OF_SIGNS = 9
"""Marks of higher combining classes are accents, points and tones."""


@dataclass(frozen=True)
class TermDemand(Demand):
    """A term that the translation must have; another form of it counts, unless it is kept."""

    others: Sequence[str] = ()
    """Texts that are as good, if the translation has them."""
    is_kept: bool = False
    """Whether it stays untranslated: then it has exactly these letters."""

    def count_in(self, translation: str, most: int = 1) -> int:
        """Return how often a translation has the term, or another one that is as good.

        It is there if its words follow each other in the translation, in any case, with any
        accents. An inflected form counts: it begins with two thirds of the letters of the word, and
        with at least MIN_BEGINNING. But a term that stays untranslated has the same letters; only
        its first letter, or all letters, may have become capitals.
        """
        words = _words_of(translation)
        places: set[int] = set()
        for text in (self.text, *self.others):
            places |= words.find(text, is_kept=self.is_kept, most=most)
        return min(len(places), most)


def demand_terms(segment: Segment, context: Context) -> list[Segment]:
    """Demand the terms of the glossary that a segment has."""
    glossary = context.request.glossary
    if not glossary:
        return [segment]
    assert isinstance(glossary, TermGlossary)
    terms = glossary.index.find_terms(segment.string, segment.line.text)
    if not terms:
        return [segment]
    demands = [*demands_within(segment.text, segment.demands)]
    has_dotless_i = context.request.settings.dotless_i in ("target", "both")
    is_line_loud = is_loud(segment.line.text)
    origin = segment.text.origin
    for term in terms:
        targets = term.targets
        is_as_in_glossary = segment.string[term.start : term.end] in glossary.entries
        if is_line_loud and not (is_as_in_glossary or term.is_kept):
            targets = tuple(uppercase(target, dotless_i=has_dotless_i) for target in targets)
        demand = TermDemand(
            start=origin[term.start],
            end=origin[term.end - 1] + 1,
            text=targets[0],
            others=targets[1:],
            takes_case=not term.is_kept,
            is_kept=term.is_kept,
        )
        demands.append(demand)
    demands.sort(key=lambda demand: demand.start)
    return [replace(segment, demands=demands)]


class _Words:
    """The words of a translation, by how they begin.

    The time to look for a term does not depend on their number.
    """

    def __init__(self, text: str) -> None:
        self._written = _split_words(text)
        self._plain = _plain_words(self._written)
        self._longest_first = sorted(
            range(len(self._plain)),
            key=lambda place: len(self._plain[place]),
            reverse=True,
        )
        self._places: dict[int | None, dict[str, list[int]]] = {}
        """The places of the words that begin alike, by how many letters they have in common."""

    def find(self, term: str, *, is_kept: bool, most: int) -> set[int]:
        """Return at most `most` places at which the words of a term follow each other."""
        written = _split_words(term)
        words = _plain_words(written)
        lengths: list[int | None] = []
        for word in words:
            lengths.append(None if is_kept else _count_common(word))
        places_of_words = list(map(self._find_places, words, lengths))
        # Where its rarest word is, because many terms may have a word in common.
        places = min(places_of_words, key=len)
        number = places_of_words.index(places)
        found: set[int] = set()
        for place in places[: MAX_PLACES + most]:
            start = place - number
            end = start + len(words)
            if start < 0 or end > len(self._plain):
                continue
            if is_kept:
                is_there = _is_kept(self._written[start:end], written)
            else:
                known = zip(self._plain[start:end], words, lengths, strict=True)
                is_there = all(word[:length] == other[:length] for word, other, length in known)
            if is_there:
                found.add(start)
            if len(found) == most:
                break
        return found

    def _find_places(self, word: str, length: int | None) -> list[int]:
        """Return where words begin with so many letters of this one; None: where they equal it."""
        if length not in self._places:
            self._places[length] = self._index(length)
        places = self._places[length]
        return places.get(word[:length], [])

    def _index(self, length: int | None) -> dict[str, list[int]]:
        """Return the places of words by so many letters at their beginning (None: all letters)."""
        places: dict[str, list[int]] = defaultdict(list)
        for place in self._longest_first:
            word = self._plain[place]
            if length is not None and len(word) < length:
                break  # so that all indices together take no longer than one of all letters
            places[word[:length]].append(place)
        return places


@lru_cache(maxsize=4)
def _words_of(text: str) -> _Words:
    """Return the words of a translation, in which all its terms are looked for."""
    return _Words(text)


def _split_words(text: str) -> list[str]:
    """Return the words and signs of a text; a Korean particle after another script is a word."""
    words = [text[start:end] for start, end in tokens_of(text)]
    if not _HANGUL.search(text):
        return words
    parts: list[str] = []
    for word in words:
        parts += _PARTICLE.split(word)
    return parts


def _plain_words(words: Iterable[str]) -> list[str]:
    """Return words and signs in small letters and without accents."""
    plain: list[str] = []
    for word in words:
        folded = word.casefold()
        if not folded.isascii():
            # One letter at a time, because Python takes quadratic time to sort many marks.
            folded = "".join(map(_without_accent, folded)) or folded
        plain.append(folded)
    return plain


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


def _is_kept(written: Sequence[str], term: Sequence[str]) -> bool:
    """Return whether words are those of a term; capitals may begin it, or be all of it."""
    text = " ".join(term)
    with_capital = text[:1].upper() + text[1:]
    return " ".join(written) in (text, with_capital, text.upper())
