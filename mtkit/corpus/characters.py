"""Tell letters, marks, digits, spaces and cases apart, by the general categories of Unicode.

All decisions about text use these functions instead of the methods of `str`. Those know no marks,
which are the vowels of many scripts, and take each letter of Georgian for a small one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from itertools import groupby
from unicodedata import category

_CONTROL_SPACES = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x1f\x85")
"""Controls that separate words or lines; Unicode gives them the category of all controls."""
_NO_LETTERS_OF_ASCII = bytes(code for code in range(128) if category(chr(code))[0] != "L")
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)


@cache
def is_letter(character: str) -> bool:
    """Return whether the character is a letter; marks are none."""
    return category(character)[0] == "L"


@cache
def is_mark(character: str) -> bool:
    """Return whether the character is a mark on a letter: an accent, a vowel sign, a point."""
    return category(character)[0] == "M"


@cache
def is_number(character: str) -> bool:
    """Return whether the character is a digit of any script, or another number, such as ½ or Ⅷ."""
    return category(character)[0] == "N"


@cache
def is_space(character: str) -> bool:
    """Return whether the character is white space."""
    return category(character)[0] == "Z" or character in _CONTROL_SPACES


@cache
def is_sign(character: str) -> bool:
    """Return whether the character is punctuation or a symbol."""
    return category(character)[0] in "PS"


@cache
def is_word_character(character: str) -> bool:
    """Return whether words consist of such characters: letters, marks, numbers, underscores."""
    is_connector = category(character) == "Pc"
    is_selector = ord(character) in _VARIATION_SELECTORS
    is_of_word = is_letter(character) or is_mark(character) or is_number(character)
    return (is_of_word or is_connector) and not is_selector


@cache
def assigned_characters() -> tuple[str, ...]:
    """Return all characters to which Unicode gives a meaning, in the order of their codes."""
    meaningless = ("Cn", "Co", "Cs")  # unassigned, private, surrogates
    every = map(chr, range(sys.maxunicode + 1))
    return tuple(character for character in every if category(character) not in meaningless)


@cache
def is_capital(character: str) -> bool:
    """Return whether the character is a capital letter, or begins with one, as ǅ does.

    Letters of Cherokee are none: Unicode calls them capitals, but they stand in all places, so that
    they fold to themselves.
    """
    return category(character) in ("Lu", "Lt") and character.casefold() != character


@cache
def is_small(character: str) -> bool:
    """Return whether the character is a small letter with a capital that begins sentences.

    Letters of Georgian are none: Unicode calls them small, but no sentence begins with a capital.
    """
    capital = title_case(character)
    return category(character) == "Ll" and capital != character and any(map(is_capital, capital))


@cache
def has_case(character: str) -> bool:
    """Return whether the character is a capital or a small letter."""
    return is_capital(character) or is_small(character)


def title_case(letter: str) -> str:
    """Return the letter as it begins a word: its capital, if it has one."""
    return letter.title()


def has_letters(text: str) -> bool:
    """Return whether the text has a letter; numbers, signs and emoji are none."""
    return any(map(is_letter, text))


def count_letters(text: str) -> int:
    """Return the number of letters."""
    if text.isascii():  # ten times as fast
        return len(text.encode().translate(None, _NO_LETTERS_OF_ASCII))
    return sum(map(is_letter, text))


def letters_and_marks(text: str) -> str:
    """Return the letters of the text with the marks on them, and nothing else."""
    return "".join(character for character in text if _is_letter_or_mark(character))


def first_letter(text: str) -> str:
    """Return the first letter of the text, or the first mark on one; empty if it has none."""
    return next(filter(_is_letter_or_mark, text), "")


def longest_run_of_letters(text: str) -> int:
    """Return the number of letters in a row, marks included, in the longest such row."""
    return max(_runs_of_letters(text), default=0)


def _runs_of_letters(text: str) -> Iterator[int]:
    for is_letters, run in groupby(text, _is_letter_or_mark):
        if is_letters:
            yield sum(1 for _ in run)


@cache
def _is_letter_or_mark(character: str) -> bool:
    return is_letter(character) or is_mark(character)


def is_in_capitals(text: str) -> bool:
    """Return whether the text has capitals, and no small letters."""
    return not any(map(is_small, text)) and any(map(is_capital, text))


def is_in_small_letters(text: str) -> bool:
    """Return whether the text has small letters, and no capitals."""
    return not any(map(is_capital, text)) and any(map(is_small, text))


def is_printable(text: str) -> bool:
    """Return whether the text has no controls, no format characters, and no space but U+0020."""
    return text.isprintable()
