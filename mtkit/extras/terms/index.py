"""Finds the terms of a glossary in a text.

A term is found as whole words: the leftmost, and of those that begin there, the longest. Words are
tokens (see `token_pattern`). The time for a line does not depend on the number of entries: an index
names, for each first word, how many words such terms have.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from mtkit.corpus.characters import is_capital, is_in_capitals, is_sign
from mtkit.decoding.text.case import has_no_case
from mtkit.decoding.text.words import WITHIN_SENTENCE, tokens_of

MIN_TITLE_LETTERS = 3
"""Shorter words are often small in titles, such as "of" and "to"."""

Terms = tuple[str, ...]
"""Terms of one language that mean the same, the best one first."""

_LETTERS = re.compile(r"[^\W\d_]+")
_WHITE = re.compile(r"\s")


class Term(NamedTuple):
    """A term in a text."""

    start: int
    end: int
    targets: Terms
    """What it may become, the best one first; of a term that stays untranslated, as it stands."""
    is_kept: bool = False
    """Whether it stays untranslated."""


class TermIndex:
    """The entries of a glossary, by their first words."""

    def __init__(self, entries: Mapping[str, Terms]) -> None:
        self._entries = entries
        self._lengths: defaultdict[str, set[int]] = defaultdict(set)
        """How many words terms have, by the first of them in small letters."""
        self._spellings: dict[str, str] = {}
        """Terms that are not in small letters, by their small letters."""
        for source in entries:
            folded = source.casefold()
            if folded != source:
                self._spellings.setdefault(folded, source)
            words = tokens_of(source)
            start, end = words[0]
            self._lengths[source[start:end].casefold()].add(len(words))

    def find_terms(self, text: str, line: str | None = None) -> list[Term]:
        """Return the terms in a text, in order; they do not overlap.

        `line`: the line of the text, before its case was changed (default: the text).
        """
        words = tokens_of(text)
        spaced = _WHITE.sub(" ", text)  # a no-break space is as good as another
        terms: list[Term] = []
        first = 0  # the first word; signs before it, such as a list mark, begin no sentence
        while first < len(words) and is_sign(text[words[first][0]]):
            first += 1
        number = 0
        while number < len(words):
            start, end = words[number]
            lengths = self._lengths.get(spaced[start:end].casefold(), ())
            before = spaced[slice(*words[number - 1])] if number > first else ""
            number += 1
            for length in sorted(lengths, reverse=True):
                following = number - 1 + length
                if following > len(words):
                    continue
                _, end = words[following - 1]
                targets = self._targets_of(spaced[start:end], before, line or text)
                if targets is not None:
                    term = Term(
                        start=start,
                        end=end,
                        targets=targets or (text[start:end],),
                        is_kept=not targets,
                    )
                    terms.append(term)
                    number = following
                    break
        return terms

    def _targets_of(self, written: str, before: str, line: str) -> Terms | None:
        """Return the targets of a term by the rules of case; None if it is not in the glossary.

        `before`: the word or sign before it.
        """
        targets = self._entries.get(written)
        if targets is not None:
            return targets
        folded = written.casefold()
        source = folded if folded in self._entries else self._spellings.get(folded)
        if source is None or not _may_be_written(source, written, before, line):
            return None
        return self._entries[source]


def _may_be_written(source: str, written: str, before: str, line: str) -> bool:
    """Return whether a line may write a term so."""
    if is_loud(line):
        return True
    if any(map(is_capital, source)):
        return False  # a name or an abbreviation: only as it is written in the glossary
    if is_in_capitals(written):
        return True
    is_start = not before or (is_sign(before[-1]) and before not in WITHIN_SENTENCE)
    if is_start and written[1:] == source[1:]:
        return True
    return is_capital(written[0]) and _is_title(line)


@lru_cache(maxsize=4)  # few terms depend on the case of the line
def is_loud(line: str) -> bool:
    """Return whether a line is in capitals."""
    return is_in_capitals(line)


@lru_cache(maxsize=4)
def _is_title(line: str) -> bool:
    """Return whether a line is In Title Case: its first word, and each of three letters or more."""
    if has_no_case(line):
        return True
    first, *others = _LETTERS.findall(line)
    long = [word for word in others if len(word) >= MIN_TITLE_LETTERS]
    if len(others) < 2 or not long:
        return False
    return all(is_capital(word[0]) for word in (first, *long))
