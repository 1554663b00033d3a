"""Words: those between white space, which alignments count, and tokens, which terms consist of."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import cache, lru_cache

from mtkit.decoding.text.text import CLOSE_CHARACTERS

UNSPACED_CHARACTERS = f"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff{CLOSE_CHARACTERS}"
UNSPACED = re.compile(f"[{UNSPACED_CHARACTERS}]")
"""A letter of a script without spaces between words: kana, Han, Thai, Lao, Burmese, or Khmer."""
WITHIN_SENTENCE = frozenset(",'’-‐‑–&/+@")
"""Signs after which no sentence begins; after others, such as a colon, one may."""
_WORD = re.compile(r"\S+")
_JOINERS = "\xad\u200c\u200d"
"""The soft hyphen, and the joiners: they stand within words."""
_VARIATION_SELECTORS = range(0xFE00, 0xFE10)
_LAST_MARK = 0x20000
"""No mark but variation selectors has a higher code; looking through all codes takes 0.1 s."""
Range = tuple[int, int]


class Words:
    """The words of a text by their numbers, from 0."""

    def __init__(self, ranges: Sequence[Range]) -> None:
        """Take where each word begins and ends."""
        self.ranges = ranges
        self._starts = [start for start, _ in ranges]
        self._ends = [end for _, end in ranges]

    def at(self, offset: int) -> int:
        """Return the number of the word at or after a character offset; at the end, of the last."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)

    def count_starts(self, offset: int) -> int:
        """Return how many words begin before an offset."""
        return bisect_left(self._starts, offset)

    def count_ends(self, offset: int) -> int:
        """Return how many words end at or before an offset."""
        return bisect_right(self._ends, offset)


def spaced_words(text: str) -> Words:
    """Return the words between white space."""
    return Words([match.span() for match in _WORD.finditer(text)])


@cache
def token_pattern() -> re.Pattern[str]:
    r"""Return the pattern of a token; building it takes some 30 ms.

    A token is a run of letters, marks, digits and joiners; a number with separators; a sign; or, in
    a script without spaces between words, one character. `\w` has no marks, which are the vowels of
    many scripts.
    """
    marks: list[str] = []
    for code in range(_LAST_MARK):
        if unicodedata.category(chr(code))[0] == "M" and code not in _VARIATION_SELECTORS:
            marks.append(chr(code))
    inner = "".join(marks) + _JOINERS
    letters = rf"[^\W{UNSPACED_CHARACTERS}]"
    # No two parts in a row match the same characters, so that a long word is read once.
    word = rf"{letters}+(?:[{inner}]+{letters}*)*"
    number = rf"(?:(?<=\d)[.,:'’](?=\d){word})*"
    return re.compile(rf"{word}{number}|[{UNSPACED_CHARACTERS}][{inner}]*|\S")


@lru_cache(maxsize=16)  # of a line with terms, several steps ask for the same tokens
def tokens_of(text: str) -> Sequence[Range]:
    """Return where each token begins and ends."""
    return [match.span() for match in token_pattern().finditer(text)]
