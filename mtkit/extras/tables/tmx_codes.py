"""Write the formatting codes in a unit of a translation memory as text that can be translated.

No code is deleted. A code becomes the placeholder or tag that it holds, such as `%s` or `<b>`: so
does a text to translate have it. Any other code, such as one of a word processor, becomes a
numbered tag: `<1>` and `</1>` around a text, or `<2/>`. The same code has the same number in all
languages. What each element means: https://www.gala-global.org/tmx-14b.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

CODES = ("bpt", "ept", "it", "ph", "ut")
"""Elements that hold codes."""
PAIRED = ("bpt", "ept")
"""The begin and the end of a pair, which have the same attribute i."""
TEXTS = ("hi", "sub")
"""Elements that only mark a part of the text."""
ENDS = ("ept", "end")
"""The element, or the position of an isolated code, that ends a pair."""
BEGINS = ("bpt", "begin")
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


class Code(NamedTuple):
    """A formatting code in a segment."""

    element: str
    attributes: Mapping[str, str]
    content: str

    @property
    def pair(self) -> str | None:
        """The number that the file gives the pair; None if the code is not of a pair."""
        if self.element not in PAIRED:
            return None
        return self.attributes.get("i", "")

    @property
    def is_readable(self) -> bool:
        """Whether the content is what a translator reads: white space, or a placeholder or tag."""
        is_of_memoq = self.pair is not None and self.content == _EMPTY_BRACES
        return not is_of_memoq and _is_readable(self.content)


@lru_cache(maxsize=1 << 12)  # few codes are different
def _is_readable(content: str) -> bool:
    if len(content) > MAX_CODE_CHARACTERS or not _READABLE.fullmatch(content):
        return False
    return not content.strip() or _SIGN.search(content) is not None


def read_segment(element: Any) -> Iterator[str | Code]:
    """Yield the texts and codes of an element.

    An element that TMX does not know, such as `<g id="1">` of XLIFF, is written as a tag.
    """
    yield element.text or ""
    for child in element:
        name = local_name(child.tag)
        if name in CODES:
            yield Code(name, dict(child.attrib), "".join(child.itertext()))
        elif name in TEXTS:
            yield from read_segment(child)
        else:
            inner = list(read_segment(child))
            yield _tag_of(child, "" if any(inner) else "/")
            yield from inner
            if any(inner):
                yield f"</{name}>"
        yield child.tail or ""


def _tag_of(element: Any, end: str) -> str:
    attributes = ""
    for name, value in element.attrib.items():
        attributes += f' {local_name(name)}="{value}"'
    return f"<{local_name(element.tag)}{attributes}{end}>"


def local_name(name: str) -> str:
    """Return a name without its namespace."""
    return name.rpartition("}")[2]


@dataclass
class CodeWriter:
    """Writes the codes of a memory, and counts them."""

    readable: int = 0
    """Number of codes that were written as they are."""
    numbered: int = 0
    """Number of codes that became numbered tags."""
    _numbers: dict[tuple[str, str], int] = field(default_factory=dict, init=False)
    """Numbers of the codes in this unit."""

    def start_unit(self) -> None:
        """Forget the numbers of the unit before."""
        self._numbers = {}

    def write(self, element: Any) -> str:
        """Return the text of a segment, an element of lxml."""
        segment = list(read_segment(element))
        numbered_pairs: set[str] = set()  # both codes of a pair are written in the same way
        for part in segment:
            if isinstance(part, Code) and part.pair is not None and not part.is_readable:
                numbered_pairs.add(part.pair)
        orders: Counter[str] = Counter()
        begun: dict[str | None, int] = {}
        written: list[str] = []
        for part in segment:
            if isinstance(part, str):
                written.append(part)
            elif part.is_readable and part.pair not in numbered_pairs:
                written.append(part.content)
                self.readable += 1
            else:
                if part.element == "ept" and part.pair in begun:
                    number = begun[part.pair]
                else:
                    number = self._number_of(part, orders)
                if part.element == "bpt":
                    begun[part.pair] = number
                written.append(_numbered_tag(part, number))
                self.numbered += 1
        return "".join(written)

    def _number_of(self, code: Code, orders: Counter[str]) -> int:
        """Return the number of a code; `orders`: the codes before it in the segment, by type.

        Codes of two languages are the same if they have the same x, else the same i, else if they
        come equally late among the codes of their type.
        """
        key: tuple[str, str]
        if "x" in code.attributes:
            key = ("x", code.attributes["x"])
        elif code.pair:
            key = ("i", code.pair)
        else:
            kind = code.attributes.get("type", "")
            orders[kind] += 1
            key = (f"type {kind}", str(orders[kind]))
        return self._numbers.setdefault(key, len(self._numbers) + 1)


def _numbered_tag(code: Code, number: int) -> str:
    position = code.attributes.get("pos", code.element)
    if position in ENDS:
        return f"</{number}>"
    return f"<{number}>" if position in BEGINS else f"<{number}/>"
