"""Messages of gettext, with the places of their keywords, strings and flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from mtkit.extras.documents.units import DocumentError

_LINES = re.compile(
    r"^[ \t]*(?:(?P<comment>#[^\n]*)|(?P<keyword>msgctxt|msgid_plural|msgid|msgstr(?:\[\d+\])?)\s*"
    r"(?P<strings>\"(?:[^\"\\\n]|\\.)*\"(?:\s*\"(?:[^\"\\\n]|\\.)*\")*)(?=[ \t\r]*$)"
    r"|(?P<other>\S[^\n]*))",
    re.MULTILINE,
)
"""A comment, or a keyword with all its strings."""
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{2})|(.))")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "\t": r"\t", "\r": r"\r"})


@dataclass(slots=True)
class PoEntry:
    """A message: its keywords with their strings, and its comments."""

    fields: dict[str, re.Match[str]] = field(default_factory=dict)
    flags: re.Match[str] | None = None

    def text(self, keyword: str) -> str:
        """Return the text of a keyword; empty if the message lacks it."""
        if keyword not in self.fields:
            return ""
        strings = _STRING.findall(self.fields[keyword]["strings"])
        return _ESCAPE.sub(_unescape, "".join(strings))

    @property
    def start(self) -> int:
        """Where the first keyword begins."""
        first = next(iter(self.fields.values()))
        return first.start()

    @property
    def is_fuzzy(self) -> bool:
        """Whether a person must look at the translation."""
        return self.flags is not None and "fuzzy" in self.flags["comment"]

    @property
    def forms(self) -> list[str]:
        """The keywords of the translation, or of its plural forms."""
        return [keyword for keyword in self.fields if keyword.startswith("msgstr")]


def read_entries(document: str) -> Iterator[PoEntry]:
    """Yield the messages of a file, without obsolete ones."""
    entry = PoEntry()
    for line in _LINES.finditer(document):
        if line["other"]:
            raise DocumentError(line.start(), f"not a line of gettext: {line['other'][:40]!r}")
        keyword = line["keyword"] or ""
        if entry.forms and not keyword.startswith("msgstr"):
            yield entry
            entry = PoEntry()
        if keyword in entry.fields:
            raise DocumentError(line.start(), f"a second {keyword} in one message")
        if keyword:
            entry.fields[keyword] = line
        elif line["comment"].startswith("#,") and not entry.is_fuzzy:
            entry.flags = line
        elif line["comment"].startswith("#~"):
            entry.flags = None  # those of an obsolete message
    if entry.fields:
        yield entry


def _unescape(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if letter is not None:
        return _CHARACTERS.get(letter, letter)
    if octal is not None:
        return chr(int(octal, 8))
    return chr(int(hexadecimal, 16))


def quote_text(text: str, line_end: str) -> str:
    """Return a text as strings of gettext: one for each line, after an empty one if several."""
    lines = re.findall(r"[^\n]*\n|[^\n]+", text)
    if len(lines) != 1:
        lines.insert(0, "")
    strings = [f'"{line.translate(_ESCAPES)}"' for line in lines]
    return line_end.join(strings)
