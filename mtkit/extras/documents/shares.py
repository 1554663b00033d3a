"""Divide a translation among the parts of its source, by the shares of their lengths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from mtkit.corpus.characters import is_mark, is_space
from mtkit.corpus.languages import UNSPACED_SCRIPTS, main_script

_WORD = re.compile(r"(?:<[^<>]*>|\S)+\s*")
_CHARACTER = re.compile(r"<[^<>]*>|[!-~]+|.")
"""A tag, a word in ASCII, or a character."""


def divide_text(text: str, lengths: Sequence[int]) -> list[str]:
    """Divide a text between words into parts with such shares of its length.

    Each part has a word if there are enough of them. A text in a script without spaces is divided
    between any characters.
    """
    text = text.strip()
    if main_script([text]) in UNSPACED_SCRIPTS:
        words = _find_characters(text)
    else:
        words = _WORD.findall(text)
    ends = list(accumulate(lengths))
    scale = ends[-1] / max(1, len(text))
    parts = [""] * len(lengths)
    part = 0
    position = 0
    words_left = len(words)
    for word in words:
        # A word belongs to the part in which its middle is, unless later parts need the words.
        middle = position + len(word) / 2
        parts_left = len(parts) - part
        is_due = middle * scale > ends[part] or words_left < parts_left
        if is_due and parts[part] and parts_left > 1:
            part += 1
        parts[part] += word
        position += len(word)
        words_left -= 1
    return [part.strip() for part in parts]


def _find_characters(text: str) -> list[str]:
    """Return the characters of a text with the marks and spaces that follow them."""
    characters: list[str] = []
    for piece in _CHARACTER.findall(text):
        if characters and (is_mark(piece[0]) or is_space(piece[0])):
            characters[-1] += piece
        else:
            characters.append(piece)
    return characters
