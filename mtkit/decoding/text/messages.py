"""ICU messages: texts for each number or gender, in one line of software.

`{count, plural, one {# file} other {# files}}` chooses one of its texts when the program runs. The
texts may have arguments (`{name}`) and further messages. An apostrophe before a brace or a number
sign quotes all up to the next apostrophe, and two apostrophes stand for one.
https://unicode-org.github.io/icu/userguide/format_parse/messages/
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

MAX_MESSAGE_DEPTH = 10
"""Largest number of messages within each other; nobody can read five."""
QUOTED = r"'[{}#][^']*+(?:''[^']*+)*+(?:'|\Z)"
"""Pattern of quoted text, which has no braces of messages."""
_BEGIN = re.compile(
    r"\{\s*[\w.-]+\s*,\s*(plural|selectordinal|select)\s*,\s*(?:offset\s*:\s*\d+\s*)?"
)
_BEGIN_OR_QUOTED = re.compile(rf"{QUOTED}|{_BEGIN.pattern}")
_BEGIN_OF_TEXT = re.compile(r"\s*(?:=\d+|[^\s{}',#=]+)\s*\{")
_END = re.compile(r"\s*\}")
_SIGN = re.compile(rf"{QUOTED}|''|[{{}}]")


class Syntax(Enum):
    """What has a meaning in a text besides words."""

    PLAIN = "a line"
    MESSAGE = "a line with messages, or the text of a message: apostrophes quote"
    NUMBERED = "the text of a message for a number: # stands for the number, too"


@dataclass(frozen=True)
class MessageText:
    """One of the texts of a message: a part of the line."""

    start: int
    end: int
    syntax: Syntax


@dataclass(frozen=True)
class Message:
    """A message, and its texts; what lies between them is its skeleton."""

    start: int
    end: int
    texts: Sequence[MessageText]

    def skeleton(self, text: str) -> list[str]:
        """Return what stands before, between and after the texts; `text`: the line."""
        starts = [self.start, *(inner.end for inner in self.texts)]
        ends = [*(inner.start for inner in self.texts), self.end]
        return [text[start:end] for start, end in zip(starts, ends, strict=True)]


@dataclass
class _Frame:
    """An open brace: of a message, of one of its texts, or of an argument."""

    is_message: bool
    kind: str = ""
    """The type of a message, such as plural."""
    start: int = 0
    """Where a text begins."""
    texts: list[MessageText] = field(default_factory=list)
    """The texts of a message that have ended."""


def find_messages(text: str, *, has_quotes: bool = False) -> list[Message]:
    """Return the messages of a text, without those within others.

    A message whose braces are unbalanced, or that breaks another rule, is plain text. `has_quotes`:
    whether apostrophes quote, as they do within a message.
    """
    pattern = _BEGIN_OR_QUOTED if has_quotes else _BEGIN
    found: list[Message] = []
    begin = pattern.search(text)
    while begin is not None:
        end = begin.end()
        if begin[1] is not None:
            message, end = _parse(text, begin)
            if message is not None:
                found.append(message)
        # Nothing is read twice: after an error, the search goes on behind it.
        begin = pattern.search(text, end)
    return found


def _parse(text: str, begin: re.Match[str]) -> tuple[Message | None, int]:
    """Return the message that begins there, or None after an error, and where reading ended."""
    outermost = _Frame(is_message=True, kind=begin[1])
    frames = [outermost]
    position = begin.end()
    while frames:
        frame = frames[-1]
        if frame.is_message:
            if inner := _BEGIN_OF_TEXT.match(text, position):
                frames.append(_Frame(is_message=False, start=inner.end()))
                position = inner.end()
            elif frame.texts and (end := _END.match(text, position)):
                frames.pop()
                position = end.end()
            else:
                return None, position
            continue
        sign = _SIGN.search(text, position)
        if sign is None:
            return None, len(text)
        position = sign.end()
        if sign[0] == "}":
            frames.pop()
            above = frames[-1]
            if above.is_message:
                syntax = Syntax.MESSAGE if above.kind == "select" else Syntax.NUMBERED
                above.texts.append(MessageText(frame.start, sign.start(), syntax))
        elif sign[0] == "{":
            is_text = frames[-2].is_message
            nested = _BEGIN.match(text, sign.start())
            if nested is not None and is_text and len(frames) < 2 * MAX_MESSAGE_DEPTH:
                frames.append(_Frame(is_message=True, kind=nested[1]))
                position = nested.end()
            elif nested is None and (is_text or frames[-3].is_message):  # {name} or {{name}}
                frames.append(_Frame(is_message=False))
            else:
                return None, position
    return Message(begin.start(), position, outermost.texts), position
