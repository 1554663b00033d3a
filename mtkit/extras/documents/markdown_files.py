"""Markdown, read with markdown-it-py: paragraphs, headings and cells are translated."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import Replacement, Target, TextUnit

_EXTENSION = re.compile(
    r"(?P<code>^[ \t]*(?P<fence>```|~~~).*?^[ \t]*(?P=fence))"
    r"|\A(?P<front>---|\+\+\+)[ \t]*\r?\n.*?^(?P=front)[ \t]*\r?$"
    r"|^[ \t]*\$\$(?:[^\n]*\$\$|.*?(?:^[ \t]*\$\$|\$\$[ \t]*\r?$))[^\n]*"
    r"|^[ \t]*(?::::|!!!|\?\?\?|--8<--|\[TOC\]|\{%)[^\n]*"
    r"|(?P<quote>^[ \t]*>[ \t]*)\[![A-Za-z]+\][^\n]*"
    r"|(?P<item>^[ \t>]*(?:[-+*]|\d{1,9}[.)])[ \t]+)\[[ xX]\](?=[ \t])"
    r"|(?P<definition>^[ \t]*):[ \t]+(?=\S)"
    r"|(?<![ \t])[ \t]*+\{[:#][^{}\n]*\}(?=[ \t]*\r?$)",
    re.DOTALL | re.MULTILINE,
)
"""Front matter, formulas, marks and attributes, which stay; and code, in which these are none."""
_BLOCK_MARK = re.compile(r"\A(?:(?=#{1,6}\s|[-+*>]\s|~~~|```)|\d{1,9}(?=[.)]\s))")
"""Where a backslash keeps the start of a text from being a heading, a list, a quote or code."""
_LINK = re.compile(
    r"(?P<code>`+).+?(?P=code)|\\."
    r"|(?P<start>!?\[)(?P<text>[^\[\]]+)\](?:\[(?P<label>[^\[\]]*)\])?(?![(\[])"
)
"""A link with a label, which may be its text; or code, in which there is none."""
_LINE_END = re.compile(r"\r\n?|\n")
_HARD_BREAK = re.compile(r" {2,}\n|(?<!\\)(?:\\\\)*\\\n")
"""Spaces or a backslash at the end of a line; of two backslashes, the first escapes the other."""


def read_markdown(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text up to a hard line break; code and HTML stay."""
    blanked = _EXTENSION.sub(_blank, document)
    line_ends = [match.end() for match in _LINE_END.finditer(document)]
    starts = [0, *line_ends, len(document)]
    parser = MarkdownIt("commonmark").enable("table")
    environment: dict[str, Any] = {"references": {}}
    position = first = last = 0
    block = ""
    for token in parser.parse(blanked, environment):
        if token.map is not None:
            first, last = token.map
        if token.type != "inline":
            block = token.type
            continue
        # All cells of a row have its lines: each one is looked for after the one before.
        position = max(position, starts[first])
        escape = _ESCAPES.get(block, str)
        content = token.content
        if escape is _escape_cell:
            content = _escape_cell(content)
        for text, start, end in _find_texts(document, content, position, starts[last]):
            yield _unit_of(text, start, end, environment["references"], escape)
            position = end


def _find_texts(
    document: str, content: str, position: int, end: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the texts between hard breaks, each in one line, and where they begin and end.

    A text that does not stand in the document in these words stays.
    """
    for text in _HARD_BREAK.split(content):
        lines = [line.strip() for line in text.split("\n")]
        places: list[int] = []
        for line in lines:
            place = document.find(line, position, end)
            if place < 0:
                break
            places.append(place)
            position = place + len(line)
        else:
            yield " ".join(lines), places[0], position


def _unit_of(
    text: str, start: int, end: int, references: Collection[str], escape: Callable[[str], str]
) -> TextUnit:
    """Return a unit that keeps the labels of links, which stays if the translation loses one."""
    coded = NumberedText(_read_links(text, references))

    def write(translations: Sequence[str], target: Target) -> Iterator[Replacement]:
        (translation,) = translations
        if coded.is_intact(translation):
            written = coded.restore(translation, str)
            yield Replacement(start, end, escape(written))

    return TextUnit([coded.text], write)


def _read_links(text: str, references: Collection[str]) -> Iterator[str | InlineCode]:
    """Yield a text with codes around those of links to labels that the document defines."""
    done = 0
    for link in _LINK.finditer(text):
        label = link["label"] or link["text"] or ""
        if normalizeReference(label) in references:
            yield text[done : link.start()]
            yield InlineCode(link["start"], label)
            yield link["text"]
            yield InlineCode(f"][{label}]", label, is_closing=True)
            done = link.end()
    yield text[done:]


def _blank(extension: re.Match[str]) -> str:
    if extension["code"]:
        return extension[0]
    if extension["definition"] is not None:
        return "- "  # which the parser knows
    line_ends = _LINE_END.findall(extension[0])
    return (extension["quote"] or extension["item"] or "") + "".join(line_ends)


def _escape(text: str) -> str:
    return _BLOCK_MARK.sub(r"\g<0>\\", text, count=1)


def _escape_cell(text: str) -> str:
    """Escape a bar, which would end the cell."""
    return re.sub(r"(?<!\\)\|", r"\\|", text)


_ESCAPES: Mapping[str, Callable[[str], str]] = {
    "paragraph_open": _escape,
    "td_open": _escape_cell,
    "th_open": _escape_cell,
}
"""What is escaped in a block; nothing that is in a heading begins another block."""
