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
from typing import Literal

MAX_MESSAGE_DEPTH = 10
"""Largest number of messages within each other; nobody can read five."""
QUOTED = r"'[{}#][^']*+(?:''[^']*+)*+(?:'|\Z)"
"""Pattern of quoted text, which has no braces of messages."""
_BEGIN = re.compile(
    r"\{\s*[\w.-]+\s*,\s*(plural|selectordinal|select)\s*,\s*(?:offset\s*:\s*\d+\s*)?"
)
_BEGIN_OR_QUOTED = re.compile(rf"{QUOTED}|{_BEGIN.pattern}")
_BEGIN_OF_TEXT = re.compile(r"\s*(?:=-?\d+|[^\s{}',#=]+)\s*\{")
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


@dataclass
class _Frame:
    """An open brace: of a message, of one of its texts, or of an argument."""

    opens: Literal["message", "text", "argument"]
    syntax: Syntax = Syntax.PLAIN
    """The syntax of the texts of a message."""
    start: int = 0
    """Where a text begins."""
    texts: list[MessageText] = field(default_factory=list)
    """The texts of a message that have ended."""


def _open_message(begin: re.Match[str]) -> _Frame:
    return _Frame("message", Syntax.MESSAGE if begin[1] == "select" else Syntax.NUMBERED)


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
    outermost = _open_message(begin)
    frames = [outermost]
    position = begin.end()
    while frames:
        frame = frames[-1]
        if frame.opens == "message":
            begin_of_text = _BEGIN_OF_TEXT.match(text, position)
            end = _END.match(text, position)
            if begin_of_text is not None:
                position = begin_of_text.end()
                frames.append(_Frame("text", start=position))
            elif end is not None and frame.texts:
                position = end.end()
                frames.pop()
            else:
                return None, position
            continue
        sign = _SIGN.search(text, position)
        if sign is None:
            return None, len(text)
        position = sign.end()
        if sign[0] == "}":
            frames.pop()
            if frame.opens == "text":
                message = frames[-1]
                message.texts.append(MessageText(frame.start, sign.start(), message.syntax))
        elif sign[0] == "{":
            is_text = frame.opens == "text"
            is_argument_of_text = frames[-2].opens == "text"
            nested = _BEGIN.match(text, sign.start())
            if nested is not None and is_text and len(frames) < 2 * MAX_MESSAGE_DEPTH:
                position = nested.end()
                frames.append(_open_message(nested))
            elif nested is None and (is_text or is_argument_of_text):  # {name} or {{name}}
                frames.append(_Frame("argument"))
            else:
                return None, position
    return Message(begin.start(), position, outermost.texts), position
