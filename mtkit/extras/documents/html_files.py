"""HTML: each paragraph, heading or cell is translated with the tags within it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from html import escape, unescape

from mtkit.corpus.characters import has_letters
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.markup import TAG
from mtkit.extras.documents.units import TextUnit, unit_at

_INLINE = re.compile(
    "<!--|a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|img|ins|kbd|label|mark|q|s|samp"
    "|small|span|strike|strong|sub|sup|time|tt|u|var|wbr"
)
"""Tags and comments that stand within a text; all others end it."""
_UNTRANSLATED = re.compile("code|kbd|math|pre|samp|script|style|svg|template|textarea|var")
"""Elements that stay with all they hold."""
_RAW = re.compile("script|style|textarea|title")
"""Elements in which nothing is a tag."""
_ENDS = {"<!--": "-->", "<?": "?>", "{%": "%}", "{#": "#}", "{{": "}}"}
"""How comments, and the statements, comments and placeholders of templates end."""
_TOKEN = re.compile(rf"(?P<begin>{'|'.join(map(re.escape, _ENDS))})|{TAG}")
_STAYS = re.compile(r"\s(?:translate\s*=\s*[\"']?no\b|class\s*=\s*[\"']?[^\"'>]*\bnotranslate\b)")
_NBSP = "&nbsp;"
_SPACES = (_NBSP, "&#160;", "&#xa0;", "&ensp;", "&emsp;", "&thinsp;")
_SPACES_BEFORE = re.compile(rf"(?:\s|{'|'.join(_SPACES)})*", re.IGNORECASE)
_SPACES_AFTER = re.compile(rf"(?:\s|{'|'.join(_SPACES)[::-1]})*", re.IGNORECASE)
"""The same, read backwards."""
_SPACE = re.compile(r"[ \t\r\n\f]+")


def read_html(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text between tags that end a text."""
    content: list[str | InlineCode] = []
    unended: set[str] = set()
    start = position = title_end = 0
    while (token := _TOKEN.search(document, position)) is not None:
        content.append(_read_text(document[position : token.start()]))
        position = token.end()
        is_in_title = token.start() < title_end < len(document)
        if is_in_title and token[0].startswith("<"):
            # Nothing in a title is a tag, but it may have the statements of a template.
            content.append(_read_text(token[0]))
            continue
        begin = token["begin"]
        name = (begin or token["name"] or "").lower()
        is_opening = not token["end"]
        stays = begin or _UNTRANSLATED.fullmatch(name) or _STAYS.search(token[0])
        # No second search to the end of the document, which many "{{" would make slow.
        if stays and is_opening and name not in unended:
            end = _find_end(document, name, position)
            position = max(position, end)
            if end < 0:
                unended.add(name)
        elif is_opening and name == "title" and title_end < position:
            title_end = _find_end(document, name, position)
        code = document[token.start() : position]
        is_inline = begin == "{{" or _INLINE.fullmatch(name)
        if begin in unended:  # a sign in a text
            content.append(code)
        elif stays and is_inline:
            # The model reads {{ name }} as it is; tags are not taken for placeholders.
            content.append(InlineCode(code, meaning=code))
        elif is_inline:
            content.append(InlineCode(code, name, not is_opening))
        else:
            yield from _read_run(document, start, token.start(), content)
            content = []
            start = position
    content.append(_read_text(document[position:]))
    yield from _read_run(document, start, len(document), content)


def _find_end(document: str, name: str, start: int) -> int:
    """Return where an element, a comment or a statement ends that begins before `start`.

    Return -1 if it does not end. The end tag of a script and the like is not included.
    """
    if name in _ENDS:
        sign = _ENDS[name]
        end = document.find(sign, start)
        return -1 if end < 0 else end + len(sign)
    if _RAW.fullmatch(name):
        end_tag = re.compile(rf"</{name}[\s/>]", re.IGNORECASE)
        raw_end = end_tag.search(document, start)
        if raw_end is not None:
            return raw_end.start()
        # Browsers read an element without an end tag to the end of the document.
        return len(document)
    depth = 1
    tags = re.compile(rf"<(/?){re.escape(name)}\b[^<>]*>", re.IGNORECASE)
    for tag in tags.finditer(document, start):
        depth += -1 if tag[1] else 1
        if depth == 0:
            return tag.end()
    return -1


def _read_text(raw: str) -> str:
    return unescape(_SPACE.sub(" ", raw))


def _read_run(
    document: str, start: int, end: int, content: list[str | InlineCode]
) -> Iterator[TextUnit]:
    """Yield the unit of a text and its codes, if it has letters."""
    coded = NumberedText(content)
    if has_letters(coded.plain):
        # The spaces around the text stay as they are: line ends, indents and &nbsp;.
        raw = document[start:end]
        start += _count_spaces(_SPACES_BEFORE, raw)
        # Read backwards, because a search for the last spaces would try each place.
        end -= _count_spaces(_SPACES_AFTER, raw[::-1])
        text = coded.text.strip()
        write = partial(coded.restore, escape=_escape)
        yield unit_at(text, start, end, write)


def _count_spaces(spaces: re.Pattern[str], text: str) -> int:
    match = spaces.match(text)
    return match.end() if match else 0


def _escape(text: str) -> str:
    return escape(text, quote=False).replace("\xa0", _NBSP)
