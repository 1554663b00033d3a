"""Finds the terms of a glossary in a text.

A term is found as whole words: the leftmost, and of those that begin there, the longest. Words are
tokens (see `token_pattern`). The time for a line does not depend on the number of entries: an index
names, for each first word, how many words such terms have.
"""

from __future__ import annotations

import re
from functools import cache, cached_property
from typing import NamedTuple
from weakref import WeakKeyDictionary

from mtkit.corpus.characters import is_capital, is_in_capitals, is_sign
from mtkit.decoding.text.case import has_no_case
from mtkit.decoding.text.words import WITHIN_SENTENCE, tokens_of
from mtkit.extras.terms.glossary import TermGlossary, Terms

MIN_TITLE_LETTERS = 3
"""Shorter words are often small in titles, such as "of" and "to"."""
_LETTERS = re.compile(r"[^\W\d_]+")
_WHITE = re.compile(r"\s")
_PLAIN_TERM = re.compile(r"[A-Za-z0-9]+(?: [A-Za-z0-9]+)*")


class Term(NamedTuple):
    """A term in a text."""

    start: int
    end: int
    targets: Terms
    """What it may become, the best one first; of a term that stays untranslated, as it stands."""
    is_kept: bool = False
    """Whether it stays untranslated."""


def _measure(source: str) -> tuple[str, int]:
    """Return the first word of a term, and its number of words."""
    if _PLAIN_TERM.fullmatch(source):  # most terms; three times as fast
        return source.partition(" ")[0], source.count(" ") + 1
    words = tokens_of(source)
    start, end = words[0]
    return source[start:end], len(words)


class TermIndex:
    """The entries of a glossary, by their first words."""

    def __init__(self, glossary: TermGlossary) -> None:
        self._entries = glossary.entries
        self._lengths: dict[str, int] = {}
        """By the first word of terms, in small letters: bit n is set if one of them has n words."""
        self._spellings: dict[str, str] = {}
        """Terms that are not in small letters, by their small letters."""
        for source in self._entries:
            folded = source.casefold()
            if folded != source:
                self._spellings.setdefault(folded, source)
            first, length = _measure(source)
            first = first.casefold()
            self._lengths[first] = self._lengths.get(first, 0) | 1 << length

    def find_terms(self, text: str, line: str | None = None) -> list[Term]:
        """Return the terms in a text, in order; they do not overlap.

        `line`: the line of the text, before its case was changed (default: the text).
        """
        words = tokens_of(text)
        spaced = _WHITE.sub(" ", text)  # a no-break space is as good as another
        case = _LineCase(text if line is None else line)
        terms: list[Term] = []
        first = 0  # the first word; signs before it, such as a list mark, begin no sentence
        while first < len(words) and is_sign(text[words[first][0]]):
            first += 1
        number = 0
        while number < len(words):
            start, end = words[number]
            lengths = self._lengths.get(spaced[start:end].casefold(), 0)
            count = 0
            for length in _bits(lengths) if lengths else ():
                if number + length > len(words):
                    continue
                end = words[number + length - 1][1]
                before = spaced[slice(*words[number - 1])] if number > first else ""
                targets = self._targets_of(spaced[start:end], before, case)
                if targets is not None:
                    is_kept = not targets
                    terms.append(Term(start, end, targets or (text[start:end],), is_kept))
                    count = length
                    break
            number += count or 1
        return terms

    def _targets_of(self, written: str, before: str, case: _LineCase) -> Terms | None:
        """Return the targets of a term by the rules of case; None if it is not in the glossary.

        `before`: the word or sign before it.
        """
        targets = self._entries.get(written)
        if targets is not None:
            return targets
        folded = written.casefold()
        source = folded if folded in self._entries else self._spellings.get(folded)
        if source is None:
            return None
        if not (case.is_in_capitals or _may_be_written(source, written, before, case)):
            return None
        return self._entries[source]


_INDICES: WeakKeyDictionary[TermGlossary, TermIndex] = WeakKeyDictionary()


def index_of(glossary: TermGlossary) -> TermIndex:
    """Return the index of a glossary, which is made once."""
    index = _INDICES.get(glossary)
    if index is None:
        index = TermIndex(glossary)
        _INDICES[glossary] = index
    return index


class _LineCase:
    """The case of a whole line, which few terms depend on."""

    def __init__(self, line: str) -> None:
        self._line = line

    @cached_property
    def is_in_capitals(self) -> bool:
        return is_in_capitals(self._line)

    @cached_property
    def is_title(self) -> bool:
        """Whether the line is In Title Case: its first word, and each of three letters or more."""
        if has_no_case(self._line):
            return True
        first, *others = _LETTERS.findall(self._line)
        long = [word for word in others if len(word) >= MIN_TITLE_LETTERS]
        if len(others) < 2 or not long:
            return False
        return all(is_capital(word[0]) for word in (first, *long))


def _may_be_written(source: str, written: str, before: str, case: _LineCase) -> bool:
    """Return whether a line that is not in capitals may write a term so."""
    if any(map(is_capital, source)):
        return False  # a name or an abbreviation: only as it is written in the glossary
    if is_in_capitals(written):
        return True
    is_start = not before or (is_sign(before[-1]) and before not in WITHIN_SENTENCE)
    if is_start and written[1:] == source[1:]:
        return True
    return is_capital(written[0]) and case.is_title


@cache
def _bits(number: int) -> tuple[int, ...]:
    """Return the bits of a number that are set, the highest first."""
    bits = range(number.bit_length())
    return tuple(bit for bit in reversed(bits) if number >> bit & 1)
