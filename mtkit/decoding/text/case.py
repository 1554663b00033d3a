"""Truecasing (Lita et al. 2003): restore the usual case of lines in ALL CAPITALS and the like.

The tokenizer splits words in unusual case into letters, which the model cannot translate. The
translation of a line in capitals is written in capitals, too.
"""

from __future__ import annotations

import re
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

from mtkit.corpus.characters import (
    has_case,
    is_capital,
    is_in_capitals,
    is_in_small_letters,
    title_case,
)
from mtkit.decoding.text.line import Context, Segment, normalised_prefix
from mtkit.decoding.text.text import Text
from mtkit.tokenizer.codec import Tokenizer

_WORD = re.compile(r"\S+")
_LETTER = re.compile(r"[^\W\d_]")
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_DOTTED_CAPITAL = re.compile("\u0130|I\u0307")  # İ, composed or not
_SENTENCE_END = (".", "!", "?", "…")


def restore_case(segment: Segment, context: Context) -> list[Segment]:
    """Restore the case of a segment if the settings say so; after a prefix, everything stays.

    If it is in capitals, its translation is capitalised again.
    """
    settings = context.request.settings
    if not settings.truecase or normalised_prefix(segment.line):
        return [segment]
    source_has_dotless_i: bool | None = None  # the setting does not say
    if settings.dotless_i is not None:
        source_has_dotless_i = settings.dotless_i in ("source", "both")
    string = truecase(
        segment.string,
        context.tokenizer,
        dotless_i=source_has_dotless_i,
        abbreviations=settings.abbreviations,
    )
    if string == segment.string:
        return [segment]  # the model itself has read the capitals, so it writes them itself
    cased = segment.with_text(segment.text.respell_words(string))
    if not is_in_capitals(segment.string):
        return [cased]
    has_dotless_i = settings.dotless_i in ("target", "both")
    capitalise = partial(_capitalise, line_length=segment.line_length, dotless_i=has_dotless_i)
    return [cased.with_change(capitalise)]


def _capitalise(translation: Text, *, line_length: int, dotless_i: bool) -> Text:
    """Return a translation in capitals, but what comes from the line as it is."""
    capitals: list[str] = []
    for letter, origin in zip(translation.string, translation.origin, strict=True):
        is_written = origin >= line_length
        capitals.append(uppercase(letter, dotless_i=dotless_i) if is_written else letter)
    return translation.respell(capitals)


def has_no_case(line: str) -> bool:
    """Return whether a line is IN CAPITALS, in lower case, or With A Capital In Each Long Word.

    Title case needs three words of four or more letters after the first word, because two may be
    names. For a line that is mostly in a script without case, return False.
    """
    if not (is_in_capitals(line) or is_in_small_letters(line)):
        long = _LONG_WORD.findall("".join(line.split(maxsplit=1)[1:]))
        if len(long) < 3 or not all(is_capital(word[0]) for word in long):
            return False
    letters: list[str] = _LETTER.findall(line)
    return 2 * sum(map(has_case, letters)) > len(letters)


def lowercase(text: str, *, dotless_i: bool = False) -> str:
    """Return the text in small letters; with `dotless_i`, I becomes ı. İ always becomes i."""
    text = _DOTTED_CAPITAL.sub("i", text)
    return (text.replace("I", "ı") if dotless_i else text).lower()


def uppercase(text: str, *, dotless_i: bool = False) -> str:
    """Return the text in capitals; with `dotless_i`, i becomes İ.

    Letters that are never capitalised at the start of a sentence, such as Georgian ones, stay.
    """
    if dotless_i:
        text = text.replace("i", "İ")
    capitals = (letter if title_case(letter) == letter else letter.upper() for letter in text)
    return "".join(capitals)


def truecase(
    line: str, tokenizer: Tokenizer, *, dotless_i: bool | None = None, abbreviations: str = ""
) -> str:
    """Restore the case of a line if it `has_no_case`, and if the result has fewer subwords.

    `dotless_i`: whether the language has ı; None: unknown. `abbreviations`: a decoding setting.
    """
    if not has_no_case(line):
        return line
    stopped = {f"{word}." for word in abbreviations.casefold().split()}
    words: list[str] = _WORD.findall(line)
    spellings_of_words = [_spell(word, dotless_i) for word in words]
    # In one call, which takes far less time than a call for each word.
    encoded = iter(tokenizer.encode_source(list(chain.from_iterable(spellings_of_words))))
    best: list[str] = []
    is_first = True  # in a sentence, so that the word is probably capitalised
    for word, spellings in zip(words, spellings_of_words, strict=True):
        costs = [
            _Cost.of(spelling, ids, tokenizer, is_first=is_first)
            for spelling, ids in zip(spellings, islice(encoded, len(spellings)), strict=True)
        ]
        cost = min(costs)
        # A word of which all spellings are split into letters stays as it is.
        is_known = cost.subwords < len(word) or cost.subwords == 1
        best.append(spellings[costs.index(cost)] if is_known else word)
        is_first = word.endswith(_SENTENCE_END) and word.casefold() not in stopped
    known = iter(best)
    cased = _WORD.sub(lambda _: next(known), line)
    after, before = tokenizer.encode_source([cased, line])
    return cased if len(after) < len(before) else line


class _Cost(NamedTuple):
    """What decides between two spellings of a word: the smaller cost is better."""

    subwords: int
    is_respelled: bool
    """Whether the vocabulary lacks a character of the spelling, such as a rare capital."""
    rarest: list[int]

    @classmethod
    def of(cls, spelling: str, ids: list[int], tokenizer: Tokenizer, *, is_first: bool) -> _Cost:
        """Return the cost of a spelling; `is_first`: whether the word begins a sentence."""
        is_respelled = tokenizer.source_spelling.respell(spelling) != spelling
        # Ids are ordered by frequency, so the largest ids belong to the rarest subwords. They
        # decide between spellings with equally many subwords, but not at the start of a sentence:
        # there the first of these spellings is right, which has a capital.
        rarest = [] if is_first else sorted(ids, reverse=True)
        return cls(len(ids), is_respelled, rarest)


def _spell(word: str, dotless_i: bool | None) -> list[str]:
    """Return the spellings of a word: with a capital, in small letters, and as in the line."""
    ways = [False, True] if dotless_i is None else [dotless_i]
    small = [lowercase(word, dotless_i=way) for way in ways]
    capital = [_with_capital(text, way) for text, way in zip(small, ways, strict=True)]
    return [*capital, *small, word]


def _with_capital(word: str, dotless_i: bool) -> str:
    """Capitalise the first letter, even after a bracket."""
    title = {"i": "İ"} if dotless_i else {}

    def capital(letter: re.Match[str]) -> str:
        return title.get(letter[0], title_case(letter[0]))

    return _LETTER.sub(capital, word, count=1)
