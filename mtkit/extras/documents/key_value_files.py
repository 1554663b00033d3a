"""Keys and values in lines: `.properties` of Java, and `.ini`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial

from mtkit.extras.documents.units import Replacement, Target, TextUnit, unit_at

_PROPERTY = re.compile(
    r"^[ \t\f]*(?![#!\s])(?:\\.|[^\s\\:=])+(?:[ \t\f]*[:=][ \t\f]*|[ \t\f]+)"
    r"(?P<value>(?:[^\\\r\n]|\\(?:\r\n|[^\r]))+)",
    re.MULTILINE,
)
_ESCAPE = re.compile(r"\\(?:\r?\n[ \t\f]*|u([0-9A-Fa-f]{4})|(.))")
_CHARACTERS = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_SPECIAL = {"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r", "\f": r"\f"}
_ARGUMENT = re.compile(r"\{\d")
"""What texts of java.text.MessageFormat have, in which two apostrophes are one."""
_QUOTE = re.compile(r"'(?:[{}]|[^']*')")
"""What is quoted; an apostrophe without a second one, as in "it's {0}", is meant as a letter."""
_SETTING = re.compile(
    r"^(?P<indent>[ \t]*)[^\s=:;#\[][^=:\n]*[=:][ \t]*"
    r"(?P<quote>[\"']?)(?P<value>(?:[^\s;#](?:[^\r\n]*?\S)?)?)(?P=quote)"
    r"(?:[ \t]+[;#][^\r\n]*)?[ \t\r]*$"
    r"(?P<more>(?:(?:\n[ \t\r]*(?:[;#][^\n]*)?)*\n(?P=indent)[ \t]+[^\s;#][^\n]*)*)",
    re.MULTILINE,
)
"""A key, its value, a comment behind it, and further lines of the value, with more indent."""
_COMMENT = r"(?:^|[ \t])[;#]"


def read_properties(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each value of a `.properties`."""
    is_ascii = document.isascii()
    for line in _PROPERTY.finditer(document):
        raw = line["value"]
        text = _ESCAPE.sub(_unescape, raw)
        has_arguments = _ARGUMENT.search(raw) is not None
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
    # Java ignores a space before the value, unless it is escaped.
    return re.sub(r"\A ", r"\\ ", "".join(characters))


def _unescape(match: re.Match[str]) -> str:
    code, character = match.groups()
    if code:
        return chr(int(code, 16))
    return _CHARACTERS.get(character, character or "")


def _escape(character: str, is_ascii: bool) -> str:
    """Return a character as it stands in a file: if this is ASCII, with escapes."""
    is_plain = character.isascii() if is_ascii else character <= "\uffff"
    if is_plain:
        return _SPECIAL.get(character, character)
    # Java reads \\u and four digits as a unit of UTF-16, of which some characters need two.
    units = character.encode("utf-16-be").hex()
    return re.sub("....", r"\\u\g<0>", units)


def read_ini(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each value of an `.ini` that stands in one line."""
    for line in _SETTING.finditer(document):
        if line["value"] and not line["more"]:
            yield TextUnit([line["value"]], partial(_write_setting, line))


def _write_setting(
    line: re.Match[str], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    """Yield what writes a translation; nothing if it would end early in the file."""
    (translation,) = translations
    ending = line["quote"] or _COMMENT
    if not re.search(ending, translation):
        start, end = line.span("value")
        yield Replacement(start, end, translation)
