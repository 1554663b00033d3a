"""How many characters of each script a line holds, for many lines at once.

A letter's script is the first word of its Unicode name (LATIN SMALL LETTER A), so that there is no
list of scripts to keep.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]
"""(k, classes): characters of each class in each of k lines."""

OTHER, SPACE, DIGIT, FIRST_SCRIPT = range(4)
CLASSES = 256
LETTERS_END = 0x33480
"""The code point after the last letter of Unicode 16."""
SAME = {
    "CJK": "HAN",
    "HIRAGANA": "KANA",
    "KATAKANA": "KANA",
    "KATAKANA-HIRAGANA": "KANA",
    "HALFWIDTH": "KANA",
    "FULLWIDTH": "LATIN",
}
UNSPACED = frozenset(["HAN", "KANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN"])
"""Scripts that put no spaces between words: their words are counted by characters."""


@cache
def _table() -> tuple[NDArray[np.uint8], list[str]]:
    """The class of each code point, and the name of each class."""
    table = np.zeros(0x110000, np.uint8)
    names = {"": OTHER, " ": SPACE, "0": DIGIT}
    for code in range(LETTERS_END):
        character = chr(code)
        kind = unicodedata.category(character)
        if kind == "Nd":
            table[code] = DIGIT
        elif kind == "Zs" or character == "\t":
            table[code] = SPACE
        elif kind[0] in "LM":
            script = unicodedata.name(character, "").split(" ")[0]
            if script not in ("", "COMBINING", "VARIATION", "MODIFIER"):
                script = SAME.get(script, script)
                table[code] = names.setdefault(script, min(len(names), CLASSES - 1))
    return table, list(names)


def scripts() -> list[str]:
    """Names of the classes; those from FIRST_SCRIPT on are scripts."""
    return _table()[1]


def census(lines: Sequence[str]) -> Counts:
    """How many characters of each class each line holds."""
    table, _ = _table()
    codes = np.frombuffer("".join(lines).encode("utf-32-le", "surrogatepass"), np.uint32)
    lengths = np.fromiter(map(len, lines), np.int64, len(lines))
    rows = np.repeat(np.arange(len(lines)) * CLASSES, lengths)
    counted: Counts = np.bincount(rows + table[codes], minlength=len(lines) * CLASSES)
    return np.reshape(counted, (len(lines), CLASSES))


def letters(counts: Counts) -> NDArray[np.int64]:
    return np.asarray(counts[:, FIRST_SCRIPT:].sum(axis=1))


@cache
def classes_of(names: frozenset[str]) -> NDArray[np.bool_]:
    """(classes,): which classes are these scripts."""
    known = scripts()
    return np.array([*(name in names for name in known), *[False] * (CLASSES - len(known))])


def unspaced(word: str) -> bool:
    """Whether the word has letters of a script that writes without spaces."""
    return bool(census([word])[0, classes_of(UNSPACED)].any())
