"""Codes within a text, such as tags: numbered for the model, and put back into its translation."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from html import unescape
from itertools import count

from mtkit.extras.documents.markup import Element

_PLACEHOLDER = r"[%$#]?\{{1,2}[^<>{}\n]{1,60}\}{1,2}|%(?:\d+\$|\(\w+\))?[a-zA-Z@]"
_SIGN = re.compile(rf"(</?\d{{1,7}}/?>|{_PLACEHOLDER})")
"""What may stand for a code."""
_OPENING = re.compile(r"<\d+>")
_PROTECTED = re.compile(r"\s(?:mtype=[\"']protected|translate=[\"']no)[\"']")
"""What marks an element that is not translated, in XLIFF 1.2 and 2."""
_CDATA = "<![CDATA["


@dataclass(frozen=True, slots=True)
class InlineCode:
    """A part of a document that stands within a text and is not translated."""

    raw: str
    """What stands in the document."""
    name: str = ""
    """The name of a tag that may have a partner."""
    is_closing: bool = False
    meaning: str = ""
    """What the code stands for, if it is known."""


_Edit = Callable[[str], str]
Content = Iterable[str | InlineCode]
"""Texts, without escapes, and codes, in order."""


class NumberedText:
    """A text for the model, in which a placeholder or a numbered tag stands for each code."""

    def __init__(self, content: Content) -> None:
        parts = list(content)
        texts = [part for part in parts if isinstance(part, str)]
        # The text may have such tags already: the numbers of codes begin after theirs.
        numbers = re.findall(r"</?(\d{1,7})/?>", "".join(texts))
        self._numbers = count(max(map(int, numbers), default=0) + 1)
        self.has_text = any(map(str.strip, texts))
        """Whether there is more than codes."""
        self._signs: list[str] = []
        self.codes: dict[str, str] = {}
        """What stands in the document, by what stands for it."""
        pieces: list[str] = []
        opened: list[tuple[str, str]] = []
        for part in parts:
            if isinstance(part, str):
                pieces.append(part)
                continue
            if part.is_closing and opened and opened[-1][0] == part.name:
                _, opening = opened.pop()
                sign = opening.replace("<", "</")
            else:
                sign = self._choose_sign(part)
                if _OPENING.fullmatch(sign):
                    opened.append((part.name, sign))
            self._signs.append(sign)
            self.codes[sign] = part.raw
            pieces.append(sign)
        self.text = "".join(pieces)

    def _choose_sign(self, code: InlineCode) -> str:
        """Return what a code means, if it is a placeholder and no other code means it."""
        known = self.codes.get(code.meaning, code.raw)
        if known == code.raw and re.fullmatch(_PLACEHOLDER, code.meaning):
            return code.meaning
        end = "/>" if code.is_closing or not code.name else ">"
        return f"<{next(self._numbers)}{end}"

    def is_intact(self, translation: str) -> bool:
        """Return whether a translation has all codes once, and pairs within each other."""
        pieces = _SIGN.split(translation)
        signs = [piece for piece in pieces if piece in self.codes]
        return len(signs) == len(self._signs) == len(self._find_places(pieces))

    def _find_places(self, pieces: Sequence[str]) -> Set[int]:
        """Return the indices of the codes that can stay: no more than the source has, in pairs.

        Of two pairs that cross each other, the one that ends first stays.
        """
        places: set[int] = set()
        opened: dict[str, int] = {}
        remaining = Counter(self._signs)
        for place, sign in enumerate(pieces):
            if remaining[sign] == 0:
                continue
            remaining[sign] -= 1
            if f"</{sign[1:]}" in self.codes:
                opened[sign] = place
            elif not sign.startswith("</"):
                places.add(place)
            elif f"<{sign[2:]}" in opened:
                start = opened[f"<{sign[2:]}"]
                places |= {start, place}
                opened = {other: its for other, its in opened.items() if its < start}
        return places

    def restore(self, translation: str, escape: _Edit, write_code: _Edit = str) -> str:
        """Return a translation with its codes; at its end those that cannot stay, or are lost.

        `write_code`: what is written of a code; it gets all codes, in their order in the source.
        """
        pieces = _SIGN.split(translation)
        places = self._find_places(pieces)
        for place, piece in enumerate(pieces):
            if piece in self.codes and place not in places:
                pieces[place] = ""
        # In their order in the source, the document stays well-formed and no code is lost.
        lost = Counter(self._signs) - Counter(pieces)
        written = {sign: write_code(raw) for sign, raw in self.codes.items()}
        restored = [written.get(piece) or escape(piece) for piece in (*pieces, *lost.elements())]
        return "".join(restored)


def read_content(element: Element, pairs: re.Pattern[str]) -> Iterator[str | InlineCode]:
    """Yield the texts and codes within an element of XML.

    `pairs`: names of elements whose texts are translated; others are codes with all they hold.
    """
    document = element.document
    done = element.inner_start
    for child in element.children:
        yield unescape(document[done : child.start])
        done = child.end
        is_pair = pairs.fullmatch(child.local_name) and child.end_tag != ""
        if child.raw.startswith(_CDATA):
            yield child.raw.removeprefix(_CDATA).removesuffix("]]>")
        elif is_pair and not _PROTECTED.search(child.tag):
            yield InlineCode(child.tag, child.name)
            yield from read_content(child, pairs)
            yield InlineCode(child.end_tag, child.name, is_closing=True)
        else:
            # What stands within a code, such as {name}, tells more than its attributes.
            meaning = unescape(child.inner)
            for name in ("equiv-text", "equiv", "disp"):
                meaning = meaning or child.attributes.get(name, "")
            yield InlineCode(child.raw, meaning=meaning.strip())
    yield unescape(document[done : element.inner_end])
