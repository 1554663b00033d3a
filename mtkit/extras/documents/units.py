"""What a format reads from a document: texts, and the places of their translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mtkit.corpus.characters import has_letters

_ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|u([0-9A-Fa-f]{4})|([0-7]{3})|(.))")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_IN_LINE = re.compile(r"\S(?:[^\n]*\S)?")
"""A line without the spaces around it."""


class Replacement(NamedTuple):
    """A part of a text, and what replaces it."""

    start: int
    end: int
    text: str


class Target(NamedTuple):
    """What the translations of a document have in common, and what is known of one of them."""

    language: str | None
    """A tag of BCP 47; None if the model does not tell."""
    is_sure: bool = True
    """Whether the translation is as confident as the user demands."""
    is_match: bool = False
    """Whether the translation comes from a translation memory."""


Write = Callable[[Sequence[str], Target], Iterable[Replacement]]
"""Returns the edits that write the translations of a unit into the document."""


@dataclass(frozen=True, slots=True)
class TextUnit:
    """Texts that are translated and written together: one, or the forms of a plural."""

    texts: Sequence[str]
    """The texts to translate; none for what is written in any case, such as a header."""
    write: Write
    translations: Sequence[str] = ()
    """The translations in the document, if any: as many as a plural has forms there."""
    is_reviewed: bool = True
    """Whether the translation is complete, as far as the document tells."""
    has_mark: bool = False
    """Whether `write` marks a translation that is not sure."""


class DocumentError(Exception):
    """What is wrong in a document, and at which character."""

    def __init__(self, position: int, problem: str) -> None:
        super().__init__(problem)
        self.position = position
        self.problem = problem


def unit_at(text: str, start: int, end: int, escape: Callable[[str], str] = str) -> TextUnit:
    """Return a unit whose translation takes the place of a part of the document."""

    def write(translations: Sequence[str], target: Target) -> Iterable[Replacement]:
        (translation,) = translations
        return [Replacement(start, end, escape(translation))]

    return TextUnit([text], write)


def splice(text: str, edits: Iterable[Replacement]) -> str:
    """Return a text with all edits; those at the same place follow each other in their order."""
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.start):
        assert done <= edit.start <= edit.end, "edits overlap"
        pieces.append(text[done : edit.start])
        pieces.append(edit.text)
        done = edit.end
    pieces.append(text[done:])
    return "".join(pieces)


def find_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each line of a text begins and ends that has letters, without spaces around."""
    for match in _IN_LINE.finditer(text):
        if has_letters(match[0]):
            yield match.span()


def unescape_backslashes(text: str) -> str:
    """Return a text without the escapes of C and Java."""
    unescaped = _ESCAPE.sub(_unescape, text)
    # Java writes a character such as an emoji as two units of UTF-16.
    return unescaped.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    unit, octal, letter = match.groups()
    if unit:
        return chr(int(unit, 16))
    if octal:
        return chr(int(octal, 8))
    return _CHARACTERS.get(letter, letter or "")  # "": a line goes on in the next one
