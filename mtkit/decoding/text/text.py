"""A text that remembers where each of its characters comes from, whatever is done to it.

Steps cut, join, replace and respell texts on their way to the model and back. Because every
character keeps its origin, word alignments, copied words and the places of tags need no bookkeeping
of their own: they follow from the origins of the final text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import NamedTuple

# Kana and Han, their punctuation, and wide forms: text without spaces between words or sentences.
CLOSE_CHARACTERS = "\u3000-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uff00-\uffef"
_CLOSE = re.compile(f"[{CLOSE_CHARACTERS}]")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Text:
    """A string and the origin of each of its characters.

    On the way to the model, an origin is an offset in the normalised line, and origins never
    decrease. In a translation, origins that are not below the length of the line are characters
    that the model has written (see `Window.join`).
    """

    string: str
    origin: Sequence[int]

    def __len__(self) -> int:
        return len(self.string)

    @classmethod
    def of_line(cls, string: str, start: int = 0) -> Text:
        """Return a text whose characters come from the offsets `start` onwards."""
        return cls(string, range(start, start + len(string)))

    @classmethod
    def from_one(cls, string: str, origin: int) -> Text:
        """Return a text whose characters all come from one character."""
        return cls(string, [origin] * len(string))

    def slice(self, start: int, end: int | None = None) -> Text:
        """Return the characters from `start` to `end` (default: to the last)."""
        return Text(self.string[start:end], self.origin[start:end])

    def cut(self, start: int, end: int) -> Text:
        """Return the text from `start` to `end`, without white space around it."""
        string = self.string[start:end]
        start += len(string) - len(string.lstrip())
        string = string.strip()
        return Text(string, self.origin[start : start + len(string)])

    def find(self, start: int, end: int) -> tuple[int, int]:
        """Return which characters come from the offsets `start` to `end` of the line.

        Only for a text on its way to the model. If there are none, return an empty range at the
        place where they would be.
        """
        first = bisect_left(self.origin, start)
        return first, bisect_left(self.origin, end, first)

    def replace(self, edits: Iterable[Edit], within: range | None = None) -> Text:
        """Return the text, or the part `within` a range, with other texts in place of some ranges.

        The edits are in order, and their ranges do not overlap.
        """
        if within is None:
            within = range(len(self))
        strings: list[str] = []
        origins: list[Sequence[int]] = []
        done = within.start
        for edit in edits:
            strings += (self.string[done : edit.start], edit.new.string)
            origins += (self.origin[done : edit.start], edit.new.origin)
            done = edit.end
        if not strings:
            return self.slice(within.start, within.stop)
        strings.append(self.string[done : within.stop])
        origins.append(self.origin[done : within.stop])
        return Text("".join(strings), list(chain.from_iterable(origins)))

    def respell(self, pieces: Sequence[str]) -> Text:
        """Return the text with a string, maybe an empty one, in place of each character."""
        lengths = map(len, pieces)
        origins = map(repeat, self.origin, lengths)
        return Text("".join(pieces), list(chain.from_iterable(origins)))

    def respell_words(self, string: str) -> Text:
        """Return `string`, which has the words of this text in another spelling.

        If the number of characters differs, each character of a word comes from the first
        character of that word.
        """
        if len(string) == len(self.string):
            return Text(string, self.origin)
        edits: list[Edit] = []
        for old, new in zip(_WORD.finditer(self.string), _WORD.finditer(string), strict=True):
            text = Text.from_one(new[0], self.origin[old.start()])
            edits.append(Edit(old.start(), old.end(), text))
        return self.replace(edits)


class Edit(NamedTuple):
    """A range of a text, and what takes its place."""

    start: int
    end: int
    new: Text


def concatenate(texts: Sequence[Text]) -> Text:
    """Join texts without spaces."""
    if len(texts) == 1:
        return texts[0]
    string = "".join(text.string for text in texts)
    return Text(string, list(chain.from_iterable(text.origin for text in texts)))


def join_texts(texts: Iterable[Text]) -> Text:
    """Join texts by spaces, but without a space between kana or Han; leave out empty texts.

    A new space has the origin of the character after it.
    """
    joined: list[Text] = []
    for text in texts:
        if not text.string:
            continue
        if joined and needs_space(joined[-1].string, text.string):
            joined.append(Text(" ", text.origin[:1]))
        joined.append(text)
    return concatenate(joined) if joined else Text("", ())


def needs_space(before: str, after: str) -> bool:
    """Return whether a space belongs between two texts.

    None belongs beside an empty text, or between two characters of kana or Han.
    """
    if not before or not after:
        return False
    return not (_CLOSE.match(before[-1]) and _CLOSE.match(after))
