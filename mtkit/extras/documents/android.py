"""String resources of Android (`strings.xml`): strings, and the items of arrays and plurals."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from xml.sax.saxutils import escape

from mtkit.extras.documents.codes import Content, InlineCode, NumberedText, read_content
from mtkit.extras.documents.markup import Element, read_elements
from mtkit.extras.documents.units import DocumentError, TextUnit, unescape_backslashes, unit_at

_PAIRS = re.compile("a|annotation|b|big|em|font|i|li|small|span|strike|strong|sub|sup|tt|u|ul")
"""Codes around text that is translated; `<xliff:g>` is none."""
_SPACES = r"[ \t\r\n]"
"""What Android makes one space, or none at both ends of a string."""
_TRIMMED = re.compile(rf"{_SPACES}*+(?P<text>(?:{_SPACES}*+(?:\\.|[^\\]))*+)", re.DOTALL)
_QUOTED = re.compile(r"\".*\"", re.DOTALL)
"""A string in which Android keeps all spaces."""
_CDATA = re.compile(r"\s*<!\[CDATA\[(?P<text>(?:(?!\]\]>).)*)\]\]>\s*", re.DOTALL)


def read_android(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each string and for each item, unless it names another resource.

    Raises:
        DocumentError: the document has no `<resources>`.
    """
    if "<resources" not in document:
        problem = "XML of an unknown kind; mtkit knows XLIFF (.xlf) and Android (<resources>)"
        raise DocumentError(0, problem)
    for element in read_elements(document, "string", "string-array", "plurals"):
        if element.attributes.get("translatable") != "false":
            items = [child for child in element.children if child.name == "item"]
            for item in items or [element]:
                yield from _read_string(item)


def _read_string(element: Element) -> Iterator[TextUnit]:
    start = element.inner_start
    end = element.inner_end
    escape_end: Callable[[str], str] = escape
    section = _CDATA.fullmatch(element.document, start, end)
    if section is not None:
        start, end = section.span("text")
        escape_end = _escape_section_end
    trimmed = _TRIMMED.match(element.document, start, end)
    assert trimmed is not None
    start, end = trimmed.span("text")
    raw = trimmed["text"]
    content: Content = [raw]
    if section is None:
        content = read_content(replace(element, inner_start=start, inner_end=end), _PAIRS)
    # The model need not read the quotes.
    quote = '"' if _QUOTED.fullmatch(raw) else ""
    coded = NumberedText(_read_part(part, quote) for part in content)
    if not raw.startswith(("@", "?")):
        write = partial(_write, coded, quote, escape_end)
        yield unit_at(coded.text, start, end, write)


def _read_part(part: str | InlineCode, quote: str) -> str | InlineCode:
    """Return a text without escapes, and with only the spaces that Android keeps."""
    if isinstance(part, InlineCode):
        return part
    # A quote in a tag, as in <a href="…">, is meant as one.
    text = re.sub(r"(?<!\\)\"(?![^<>]{0,200}>)", "", part)
    if not quote:
        text = re.sub(rf"(?<!\\){_SPACES}+", " ", text)
    return unescape_backslashes(text)


def _write(
    coded: NumberedText, quote: str, escape_end: Callable[[str], str], translation: str
) -> str:
    def escape_text(text: str) -> str:
        escaped = re.sub(r"[\\'\"]", r"\\\g<0>", text)
        return escape_end(escaped.replace("\n", r"\n").replace("\t", r"\t"))

    written = coded.restore(translation, escape_text)
    # At the start these would name another resource.
    written = re.sub(r"\A(?=[@?])", r"\\", written)
    if not quote:
        written = re.sub(r"\A | \Z", r"\\u0020", written)
    return f"{quote}{written}{quote}"


def _escape_section_end(text: str) -> str:
    """Divide the end of a section, which cannot be escaped, between two sections."""
    return text.replace("]]>", "]]]]><![CDATA[>")
