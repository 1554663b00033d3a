"""HTML: each paragraph, heading or cell is translated with the tags within it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape, unescape

from mtkit.corpus.characters import has_letters
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import TextUnit, unit_at

_STATEMENT = (
    r"\{\{(?:(?!\{\{).)*?\}\}"
    r"|\{%(?:(?!\{%).)*?%\}"
    r"|\{#(?:(?!\{#).)*?#\}"
)
"""A placeholder, a statement or a comment of a template, whose `>` does not end a tag."""
_ATTRIBUTES = (
    rf"(?:{_STATEMENT}|[^<>\"']"
    rf"|\"(?:{_STATEMENT}|[^\"])*+\""
    rf"|'(?:{_STATEMENT}|[^'])*+')*+>"
)
_TOKEN = re.compile(
    rf"<!--(?:.*?-->|.*)|<\?(?:.*?\?>|.*)|<![^<>]*>|{_STATEMENT}"
    # Nothing in these elements is a tag, up to their end tag or the end of the document.
    rf"|<(?P<raw>script|style|textarea)(?=[\s/>]){_ATTRIBUTES}(?:(?!</(?P=raw)[\s/>]).)*"
    rf"|<(?P<end>/?)(?P<name>[^\s/>\"'<!?{{]+){_ATTRIBUTES}",
    re.DOTALL | re.IGNORECASE,
)
_INLINE = re.compile(
    r"\{\{|<!--"
    r"|</?(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q"
    r"|s|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr)(?=[\s/>{])",
    re.IGNORECASE,
)
"""What stands within a text; all other tags end it."""
_VOID = re.compile("img|wbr")
_UNTRANSLATED = re.compile("code|kbd|math|pre|samp|svg|template|var")
"""Elements that stay with all they hold."""
_STAYS = re.compile(r"\s(?:translate\s*=\s*[\"']?no\b|class\s*=\s*[\"']?[^\"'>]*\bnotranslate\b)")
_SPACE = r"(?:\s|&(?:nbsp|#160|#xa0|ensp|emsp|thinsp);)"
_TRIMMED = re.compile(rf"{_SPACE}*+(?P<text>(?:{_SPACE}*+.)*+)", re.DOTALL | re.IGNORECASE)
"""A text without the spaces around it."""


def read_html(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text between tags that end a text."""
    content: list[str | InlineCode] = []
    unended: set[str] = set()
    start = position = 0
    while (token := _TOKEN.search(document, position)) is not None:
        content.append(_read_text(document[position : token.start()]))
        position = token.end()
        name = (token["name"] or "").lower()
        is_opening = name != "" and not token["end"]
        stays = _UNTRANSLATED.fullmatch(name) or _STAYS.search(token[0])
        # No second search to the end of the document, which many unended tags would make slow.
        if stays and is_opening and name not in unended:
            end = _find_end(document, name, position)
            position = max(position, end)
            if end < 0:
                unended.add(name)
        code = document[token.start() : position]
        if not _INLINE.match(code):
            yield from _read_run(document, start, token.start(), content)
            content = []
            start = position
        elif stays or not name or _VOID.fullmatch(name):
            # The model reads {{ name }} as it is; tags are not taken for placeholders.
            content.append(InlineCode(code, meaning=code))
        else:
            content.append(InlineCode(code, name, is_closing=not is_opening))
    content.append(_read_text(document[position:]))
    yield from _read_run(document, start, len(document), content)


def _find_end(document: str, name: str, start: int) -> int:
    """Return where an element ends whose start tag ends at `start`; -1 if it does not end."""
    depth = 1
    tags = re.compile(rf"<(/?){re.escape(name)}\b[^<>]*>", re.IGNORECASE)
    for tag in tags.finditer(document, start):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return -1


def _read_text(raw: str) -> str:
    return unescape(re.sub(r"[ \t\r\n\f]+", " ", raw))


def _read_run(
    document: str, start: int, end: int, content: Sequence[str | InlineCode]
) -> Iterator[TextUnit]:
    """Yield the unit of a text and its codes, if it has letters."""
    if has_letters(document[start:end]):
        # The spaces around the text stay as they are: line ends, indents and &nbsp;.
        trimmed = _TRIMMED.match(document, start, end)
        assert trimmed is not None
        coded = NumberedText(content)
        write = partial(coded.restore, escape=_escape)
        yield unit_at(coded.text.strip(), *trimmed.span("text"), write)


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&nbsp;")
