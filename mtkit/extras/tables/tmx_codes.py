"""Write the formatting codes in a unit of a translation memory as text that can be translated.

No code is deleted. A code becomes the placeholder or tag that it holds, such as `%s` or `<b>`: so
does a text to translate have it. Any other code, such as one of a word processor, becomes a
numbered tag: `<1>` and `</1>` around a text, or `<2/>`. The same code has the same number in all
languages. What each element means: https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CODES = ("bpt", "ept", "it", "ph", "ut")
"""Elements that hold codes."""
PAIRED = ("bpt", "ept")
"""The begin and the end of a pair, which have the same attribute i."""
TEXTS = ("hi", "sub")
"""Elements that only mark a part of the text."""
TAGS = {"bpt": "<{}>", "begin": "<{}>", "ept": "</{}>", "end": "</{}>"}
"""Numbered tags, by the element or the position of an isolated code; "<{}/>" for others."""
MAX_CODE_CHARACTERS = 1000
"""Longest content that is written as it is."""
# Braces, angle brackets and back quotes come in pairs, and a backslash only begins an escape; so a
# code of RTF, such as `{\b `, does not match.
_READABLE = re.compile(
    r"(?:<[^<>]++>|\{(?:[^{}\\]|\{[^{}\\]*+\})*+\}|`[^`]*+`|[^<>{}`\\]|\\[nrt])++"
)
_SIGN = re.compile(r"[^\s\w]|_")
_EMPTY_BRACES = "{}"
"""What memoQ writes in each code of a pair, though it is a placeholder of Python elsewhere."""


def local_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


@dataclass
class CodeWriter:
    """Writes the codes of a memory, and counts them."""

    count: int = 0
    """Number of codes."""
    _numbers: dict[str, int] = field(default_factory=dict, init=False)
    """Numbers of the codes in this unit."""

    def start_unit(self) -> None:
        """Forget the numbers of the unit before."""
        self._numbers = {}

    def write(self, segment: Any) -> str:
        """Return the text of a segment, an element of lxml, in which codes become text."""
        codes = list(_find_codes(segment))
        self.count += len(codes)
        # Both codes of a pair are written in the same way.
        numbered_pairs = {_pair_of(code) for code in codes if not _is_readable(code)}
        numbered_pairs.discard(None)
        orders: Counter[str] = Counter()
        begun: dict[str | None, int] = {}
        for code in codes:
            pair = _pair_of(code)
            if _is_readable(code) and pair not in numbered_pairs:
                continue
            position = code.get("pos", local_name(code.tag))
            if position == "ept" and pair in begun:
                number = begun[pair]
            else:
                number = self._number_of(code, orders)
            if position == "bpt":
                begun[pair] = number
            code.text = TAGS.get(position, "<{}/>").format(number)
        return "".join(segment.itertext())

    def _number_of(self, code: Any, orders: Counter[str]) -> int:
        """Return the number of a code; `orders`: the codes before it in the segment, by type.

        Codes of two languages are the same if they have the same x, else the same i, else if they
        come equally late among the codes of their type.
        """
        pair = _pair_of(code)
        if "x" in code.attrib:
            key = f"x {code.get('x')}"
        elif pair:
            key = f"i {pair}"
        else:
            kind = code.get("type", "")
            orders[kind] += 1
            key = f"{orders[kind]} {kind}"
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _find_codes(parent: Any) -> Iterator[Any]:
    """Yield the codes of an element, whose content becomes plain text.

    An element that TMX does not know, such as `<g id="1">` of XLIFF, becomes a tag.
    """
    for element in parent:
        name = local_name(element.tag)
        if name in CODES:
            content = "".join(element.itertext())
            del element[:]
            element.text = content
            yield element
            continue
        if name not in TEXTS:
            _write_as_tag(element)
        yield from _find_codes(element)


def _write_as_tag(element: Any) -> None:
    """Put the tags of an element into the texts inside and after it."""
    name = local_name(element.tag)
    tag = name
    for attribute, value in element.attrib.items():
        tag += f' {local_name(attribute)}="{value}"'
    if element.text or len(element):
        element.text = f"<{tag}>{element.text or ''}"
        element.tail = f"</{name}>{element.tail or ''}"
    else:
        element.text = f"<{tag}/>"


def _pair_of(code: Any) -> str | None:
    """Return the number that the file gives the pair; None if the code is not of a pair."""
    return code.get("i", "") if local_name(code.tag) in PAIRED else None


def _is_readable(code: Any) -> bool:
    """Return whether a translator reads the content: white space, or a placeholder or tag."""
    content = code.text
    is_of_memoq = content == _EMPTY_BRACES and _pair_of(code) is not None
    if is_of_memoq or len(content) > MAX_CODE_CHARACTERS or not _READABLE.fullmatch(content):
        return False
    return not content.strip() or _SIGN.search(content) is not None
