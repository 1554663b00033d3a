"""HTML: each paragraph, heading or cell is translated with the tags within it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape, unescape

from mtkit.corpus.characters import has_letters
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import Replacement, Target, TextUnit, splice

_STATEMENT = (
    r"\{\{(?:(?!\{\{).)*?\}\}"
    r"|\{%(?:(?!\{%).)*?%\}"
    r"|\{#(?:(?!\{#).)*?#\}"
)
"""A placeholder, a statement or a comment of a template, whose `>` does not end a tag."""
_QUOTED = rf"\"(?:{_STATEMENT}|[^\"])*+\"|'(?:{_STATEMENT}|[^'])*+'"
_ATTRIBUTES = rf"(?:{_STATEMENT}|[^<>\"']|{_QUOTED})*+>"
_TOKEN = re.compile(
    rf"<!--(?:.*?-->|.*)|<\?(?:.*?\?>|.*)|<![^<>]*>|{_STATEMENT}"
    # Nothing in these elements is a tag, up to their end tag or the end of the document.
    rf"|<(?P<raw>script|style)(?=[\s/>]){_ATTRIBUTES}(?:(?!</(?P=raw)[\s/>]).)*"
    rf"|<(?P<end>/?)(?P<name>[^\s/>\"'<!?{{]+){_ATTRIBUTES}",
    re.DOTALL | re.IGNORECASE,
)
_SHOWN = re.compile(
    rf"{_STATEMENT}|\s(?:alt|aria-label|placeholder|title)\s*=\s*(?P<quote>[\"'])"
    rf"(?P<text>(?:(?!(?P=quote)|\{{[{{%#]|<[?%]).)+)(?P=quote)|{_QUOTED}",
    re.DOTALL | re.IGNORECASE,
)
"""An attribute that users see, unless a template fills it; or what may look like one."""
_INLINE = re.compile(
    r"\{\{|<!--"
    r"|</?(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q"
    r"|s|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr)(?=[\s/>{])",
    re.IGNORECASE,
)
"""What stands within a text; all other tags end it."""
_VOID = re.compile("img|wbr")
_UNTRANSLATED = re.compile("code|kbd|math|pre|samp|svg|template|textarea|var")
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
            yield from _read_run(document, token.start(), position, [InlineCode(code)])
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
    """Yield the unit of a text with its codes and of their attributes, if it has letters."""
    coded = NumberedText(content)
    shown = [
        unescape(found["text"]) for code in coded.codes.values() for found in _find_shown(code)
    ]
    if not (shown or has_letters(coded.text)):
        return
    # The spaces around the text stay as they are: line ends, indents and &nbsp;.
    trimmed = _TRIMMED.match(document, start, end)
    assert trimmed is not None
    span = trimmed.span("text")

    def write(translations: Sequence[str], target: Target) -> Iterator[Replacement]:
        text, *others = translations
        write_code = partial(_write_code, iter(others))
        yield Replacement(*span, coded.restore(text, _escape, write_code))

    yield TextUnit([coded.text.strip(), *shown], write)


def _find_shown(code: str) -> Iterator[re.Match[str]]:
    """Yield the attributes of a start tag that users see."""
    tag = _TOKEN.match(code)
    if tag is not None and tag["name"] and not _STAYS.search(tag[0]):
        for attribute in _SHOWN.finditer(tag[0]):
            if attribute["text"]:
                yield attribute


def _write_code(translations: Iterator[str], code: str) -> str:
    """Return a code with the next translations in its attributes."""
    edits: list[Replacement] = []
    for attribute in _find_shown(code):
        quote = attribute["quote"]
        text = _escape(next(translations)).replace(quote, f"&#{ord(quote)};")
        edits.append(Replacement(*attribute.span("text"), text))
    return splice(code, edits)


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", "&nbsp;")
