"""Markdown, read with markdown-it-py: paragraphs, headings and cells are translated."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import normalizeReference

from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import Replacement, Target, TextUnit

_EXTENSION = re.compile(
    r"(?P<code>^[ \t]*(?P<fence>```|~~~).*?^[ \t]*(?P=fence))"
    r"|\A(?P<front>---|\+\+\+)[ \t]*\r?\n.*?^(?P=front)[ \t]*\r?$"
    r"|^[ \t]*\$\$(?:[^\n]*\$\$|.*?(?:^[ \t]*\$\$|\$\$[ \t]*\r?$))[^\n]*"
    r"|^[ \t]*(?::::|!!!|\?\?\?)[^\n]*"
    r"|(?P<quote>^[ \t]*>[ \t]*)\[![A-Za-z]+\][^\n]*",
    re.DOTALL | re.MULTILINE,
)
"""Front matter, formulas, and lines that mark a note; and code, in which these are none."""
_BLOCK_MARK = re.compile(r"(?=#{1,6}\s|[-+*>]\s|~~~|```)|\d{1,9}(?=[.)]\s)")
"""Where a backslash keeps the start of a text from being a heading, a list, a quote or code."""
_LINK = re.compile(
    r"(?P<code>`+).+?(?P=code)|\\."
    r"|(?P<start>!?\[)(?P<text>[^\[\]]+)\](?:\[(?P<label>[^\[\]]*)\])?(?![(\[])"
)
"""A link with a label, which may be its text; or code, in which there is none."""
_LINE_END = re.compile(r"\r\n?|\n")
_HARD_BREAK = re.compile(r"(?: {2,}|\\)\r?\n")


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
        if "|" in token.content and block in ("td_open", "th_open"):
            # The bar would end the cell: the cell stays, and the next one stands after it.
            raw = token.content.replace("|", r"\|")
            start = document.find(raw, position, starts[last])
            position = max(position, start) + len(raw)
            continue
        for text, start, end in _find_texts(document, token.content, position, starts[last]):
            yield _unit_of(text, start, end, environment["references"])
            position = end


def _unit_of(text: str, start: int, end: int, references: Collection[str]) -> TextUnit:
    """Return a unit that keeps the labels of links, which stays if the translation loses one."""
    coded = NumberedText(_read_links(text, references))

    def write(translations: Sequence[str], target: Target) -> Iterator[Replacement]:
        (translation,) = translations
        if coded.is_intact(translation):
            written = coded.restore(translation, str)
            yield Replacement(start, end, _escape(written))

    return TextUnit([coded.text], write)


def _read_links(text: str, references: Collection[str]) -> Iterator[str | InlineCode]:
    """Yield a text with codes around those of links to labels that the document defines."""
    done = 0
    for link in _LINK.finditer(text):
        label = link["label"] or link["text"] or ""
        if normalizeReference(label) in references:
            yield text[done : link.start()]
            yield InlineCode(link["start"], "link")
            yield link["text"]
            yield InlineCode(f"][{label}]", "link", is_closing=True)
            done = link.end()
    yield text[done:]


def _blank(extension: re.Match[str]) -> str:
    if extension["code"]:
        return extension[0]
    mark = extension["quote"] or ""
    lines = extension[0].count("\n")
    return mark + "\n" * lines


def _find_texts(
    document: str, content: str, position: int, end: int
) -> Iterator[tuple[str, int, int]]:
    """Yield the texts between hard breaks, each in one line, and where they begin and end.

    The last text ends before a line that does not stand in the document in these words.
    """
    lines: list[str] = []
    start = position
    for content_line in content.split("\n"):
        line = content_line.strip().removesuffix("\\")
        place = document.find(line, position, end)
        if place < 0:
            break
        if not lines:
            start = place
        lines.append(line)
        position = place + len(line)
        if _HARD_BREAK.match(document, position):
            yield " ".join(lines), start, position
            lines = []
    if lines:
        yield " ".join(lines), start, position


def _escape(text: str) -> str:
    mark = _BLOCK_MARK.match(text)
    if mark is None:
        return text
    return f"{mark[0]}\\{text[mark.end() :]}"
