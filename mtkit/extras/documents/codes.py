"""Codes within a text, such as tags: numbered for the model, and put back into its translation."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape

from mtkit.extras.documents.markup import Element

_NUMBERED = re.compile(r"</?(\d{1,7})/?>")
_PLACEHOLDER = re.compile(r"(?=[^%{$]{0,8}[%{$])[^\s<>]{2,60}|\{{1,2}[^<>{}]{1,60}\}{1,2}")
MAX_PLACEHOLDERS = 32
"""Most placeholders of a text that the model reads; other codes are numbered."""
_SECTION = re.compile(r"<!\[CDATA\[(.*?)\]\]>|<!--.*?-->|<\?.*?\?>", re.DOTALL)
_MEANINGS = ("equiv-text", "equiv", "disp", "example")
"""Attributes that say what a code stands for."""


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


Content = Iterable[str | InlineCode]
"""Texts, without escapes, and codes, in order."""


class NumberedText:
    """A text for the model, in which a placeholder or a numbered tag stands for each code.

    `source`: a text with the same codes, whose numbers they get.
    """

    def __init__(self, parts: Content, source: NumberedText | None = None) -> None:
        content = list(parts)
        pairs = _find_pairs(content)
        known: dict[str, list[str]] = {}
        """What stands for each code in the source, which may have a code several times."""
        if source is not None:
            for shown, raw in source._codes.items():
                known.setdefault(raw, []).append(shown)
        texts = [part for part in content if isinstance(part, str)]
        self.plain = "".join(texts)
        """The text without its codes."""
        # Both texts may have such tags already: the numbers of other codes begin after theirs.
        numbers = _NUMBERED.findall(self.plain + (source.text if source else ""))
        number = max(map(int, numbers), default=0)
        placeholders: list[str] = []
        self._codes: dict[str, str] = {}
        """The raw codes, by what stands for them."""
        for place, part in enumerate(content):
            if isinstance(part, str):
                continue
            start = pairs.get(place, place)
            if start < place:
                opening = str(content[start])
                shown = opening.replace("<", "</")
            elif known.get(part.raw):
                shown = known[part.raw].pop(0)
            elif _can_show(part.meaning, self.plain, placeholders):
                shown = part.meaning
                placeholders.append(shown)
            else:
                number += 1
                end = ">" if place in pairs else "/>"
                shown = f"<{number}{end}"
            self._codes[shown] = part.raw
            content[place] = shown
        self.text: str = "".join(map(str, content))
        # Of {name} and {name}s, the longer one is tried first: it begins with the other one.
        placeholders.sort(key=len, reverse=True)
        patterns = [*map(re.escape, placeholders), _NUMBERED.pattern]
        self._pattern = re.compile("|".join(patterns))

    def _find_codes(self, translation: str) -> list[re.Match[str]]:
        matches = self._pattern.finditer(translation)
        return [match for match in matches if match[0] in self._codes]

    def is_intact(self, translation: str) -> bool:
        """Return whether a translation has each code once, and pairs within each other."""
        codes = [match[0] for match in self._find_codes(translation)]
        has_all = sorted(codes) == sorted(self._codes)
        return has_all and _are_nested(codes)

    def restore(self, translation: str, escape: Callable[[str], str]) -> str:
        """Return a translation with its codes; at its end, if they are not intact."""
        is_intact = self.is_intact(translation)
        pieces: list[str] = []
        done = 0
        for match in self._find_codes(translation):
            pieces.append(escape(translation[done : match.start()]))
            if is_intact:
                pieces.append(self._codes[match[0]])
            done = match.end()
        pieces.append(escape(translation[done:]))
        if not is_intact:
            # In their order in the source, the document stays well-formed and no code is lost.
            pieces += self._codes.values()
        return "".join(pieces)


def _can_show(meaning: str, plain: str, placeholders: Sequence[str]) -> bool:
    """Return whether the model reads what a code means, because nothing else looks like it."""
    is_placeholder = _PLACEHOLDER.fullmatch(meaning) is not None
    is_new = meaning not in plain and meaning not in placeholders
    return is_placeholder and is_new and len(placeholders) < MAX_PLACEHOLDERS


def _find_pairs(content: Sequence[str | InlineCode]) -> dict[int, int]:
    """Return where the pair begins of each code that has a partner, by the places of codes."""
    pairs: dict[int, int] = {}
    opened: list[tuple[str, int]] = []
    for place, part in enumerate(content):
        if isinstance(part, str) or not part.name:
            continue
        if not part.is_closing:
            opened.append((part.name, place))
        elif opened and opened[-1][0] == part.name:
            _, start = opened.pop()
            pairs[start] = pairs[place] = start
    return pairs


def _are_nested(codes: Sequence[str]) -> bool:
    """Return whether each closing code ends the last one that is open."""
    opened: list[str] = []
    for code in codes:
        if code.startswith("</"):
            opening = code.replace("</", "<")
            if not opened or opened.pop() != opening:
                return False
        elif code.startswith("<") and not code.endswith("/>"):
            opened.append(code)
    return True


def read_content(element: Element, pairs: re.Pattern[str]) -> Iterator[str | InlineCode]:
    """Yield the texts and codes within an element of XML.

    `pairs`: names of elements whose texts are translated; others are codes with all they hold.
    """
    done = element.inner_start
    for child in element.children:
        yield from _read_text(element.document[done : child.start])
        done = child.end
        attributes = child.attributes
        is_pair = pairs.fullmatch(child.local_name) and child.end_tag
        mark_type = attributes.get("mtype")  # of version 1.2
        is_protected = mark_type == "protected" or attributes.get("translate") == "no"
        if is_pair and not is_protected:
            yield InlineCode(child.tag, child.name)
            yield from read_content(child, pairs)
            yield InlineCode(child.end_tag, child.name, is_closing=True)
            continue
        # What stands within a code, such as {name}, tells more than its attributes.
        meaning = unescape(child.inner)
        for name in _MEANINGS:
            meaning = meaning or attributes.get(name, "")
        yield InlineCode(child.raw, meaning=meaning.strip())
    yield from _read_text(element.document[done : element.inner_end])


def _read_text(raw: str) -> Iterator[str | InlineCode]:
    done = 0
    for section in _SECTION.finditer(raw):
        yield unescape(raw[done : section.start()])
        text = section[1]  # of CDATA; None: a comment or an instruction
        yield InlineCode(section[0]) if text is None else text
        done = section.end()
    yield unescape(raw[done:])
