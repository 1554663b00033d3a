"""Words: what alignments count."""

from __future__ import annotations

import re
from bisect import bisect_right

_WORD = re.compile(r"\S+")


class Words:
    """The words of a text, split at white space."""

    def __init__(self, text: str) -> None:
        self._ends = [match.end() for match in _WORD.finditer(text)]

    def at(self, offset: int) -> int:
        """Return the number of the word at or after a character offset; at the end, of the last."""
        return min(bisect_right(self._ends, offset), len(self._ends) - 1)

    def last_character(self, number: int) -> int:
        """Return the offset of the last character of a word; of the last word if it is missing."""
        return self._ends[min(number, len(self._ends) - 1)] - 1
