"""Properties of Java (`.properties`): values are translated."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from mtkit.extras.documents.units import TextUnit, unescape_backslashes, unit_at

_PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?:\\.|[^\s\\:=])+(?:[ \t\f]*[:=][ \t\f]*|[ \t\f]+)"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[^\r]))+)",
    re.MULTILINE,
)
_ESCAPES = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}
_ARGUMENT = re.compile(r"\{\d")
"""What texts of java.text.MessageFormat have, in which two apostrophes are one."""
_COMPLEX = re.compile(r"'[{}]|\{[^{}]*\{|\{\w+\s*,\s*choice\b")
"""A quoted brace, or a choice between texts."""
_QUOTE = re.compile(r"'(?:[{}]|[^']*')")
"""What is quoted; an apostrophe without a second one, as in "it's {0}", is meant as a letter."""


def read_properties(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each value of a `.properties`."""
    is_ascii = document.isascii()
    for line in _PROPERTY.finditer(document):
        text = unescape_backslashes(line["value"])
        if _COMPLEX.search(text):
            continue
        has_arguments = _ARGUMENT.search(text) is not None
        if has_arguments:
            # A translation that loses an apostrophe would quote an argument, or no brace.
            if _QUOTE.search(text.replace("''", "")):
                continue
            text = text.replace("''", "'")
        write = partial(_write, has_arguments, is_ascii)
        yield unit_at(text, *line.span("value"), write)


def _write(has_arguments: bool, is_ascii: bool, translation: str) -> str:
    if has_arguments:
        translation = translation.replace("'", "''")
    characters = [_escape(character, is_ascii) for character in translation]
    # A space at the start is ignored, unless it is escaped, and one at the end by some programs.
    return re.sub(r"\A | \Z", r"\\u0020", "".join(characters))


def _escape(character: str, is_ascii: bool) -> str:
    """Return a character as it stands in a file: if this is ASCII, with escapes."""
    is_plain = character.isascii() if is_ascii else character <= "\uffff"
    if is_plain:
        return _ESCAPES.get(character, character)
    # Java reads \\u and four digits as a unit of UTF-16, of which some characters need two.
    units = character.encode("utf-16-be").hex()
    return re.sub("....", r"\\u\g<0>", units)
