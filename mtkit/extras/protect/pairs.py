"""Pairs around text that is translated: tags, and the marks of emphasis and links."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mtkit.decoding.text.words import UNSPACED_CHARACTERS
from mtkit.extras.protect.messages import MessageText

FREE_LETTERS = f"{UNSPACED_CHARACTERS}\uac00-\ud7a3"
"""Letters beside which a mark or a stand-in belongs to no word: of scripts without spaces, and of
Korean, where particles follow a noun."""
# No negated class with \W, which JavaScript does not know.
_LETTER = rf"(?![_{FREE_LETTERS}])\w"
IN_WORD = rf"(?![{FREE_LETTERS}])\w"
_STARS_OPEN = rf"(?<!{_LETTER})(?<!\*)\*{{1,3}}(?=[^\s*.,:;)\]])"
_STARS_CLOSE = rf"(?<=[^\s*])\*{{1,3}}(?!{_LETTER}|\*)"
_LINES_OPEN = rf"(?<!{IN_WORD})__?(?=[^\s_.,:;)\]])"
_LINES_CLOSE = rf"(?<=[^\s_])__?(?!{IN_WORD})"
_WAVES_OPEN = rf"(?<!{IN_WORD})(?<!~)~~(?=[^\s~])"
_WAVES_CLOSE = rf"(?<=[^\s~])~~(?!{IN_WORD}|~)"
_IN_BRACKETS = r"[^\[\]]{0,200}"
# A link may surround an image, or a text with brackets: [![A dog](dog.png)](dog.html).
_LINK_TEXT = rf"(?!\]){_IN_BRACKETS}(?:\[{_IN_BRACKETS}\]{_IN_BRACKETS})?"
_LINK_OPENS = rf"(?<!{_LETTER})!?\[(?={_LINK_TEXT}\]\([^\s()])"
# An address may have brackets: Dog_(animal).
_LINK_CLOSES = r"\]\((?:[^\s()]|\([^\s()]{0,100}\)){1,300}(?:\s\"[^\"]{0,200}\")?\)"
# reStructuredText: `text <address>`_
_QUOTE_OPENS = r"(?<![\w`:])`(?=[^`<>]{1,200} <[^`<>\s]{1,300}>`_)"
_QUOTE_CLOSES = r" <[^`<>\s]{1,300}>`__?(?!\w)"
_OPENING = "|".join((_STARS_OPEN, _LINES_OPEN, _WAVES_OPEN, _LINK_OPENS, _QUOTE_OPENS))
_CLOSING = "|".join((_STARS_CLOSE, _LINES_CLOSE, _WAVES_CLOSE, _LINK_CLOSES, _QUOTE_CLOSES))
MARK_PATTERN = f"(?P<opening>{_OPENING})|(?P<closing>{_CLOSING})"
_MAY_CLOSE = re.compile(_CLOSING)
_ADDRESS_OF_LINK = re.compile(r"\]\([^\s()]*[./]")
_OPENING_OF = {"]": "[", " ": "`"}
"""How the partner of a closing mark begins, if both differ."""
_TAG = re.compile(r"(?:<|&lt;)(/?)([A-Za-z][\w:.-]*|\d+)")

MarkSide = Literal["opening", "closing"]


@dataclass(frozen=True)
class FoundSpan:
    """A part of a text that no translation changes, or a message, whose texts are translated."""

    start: int
    end: int
    texts: Sequence[MessageText] = ()
    """The texts of a message."""
    is_tag: bool = False
    """Whether the model reads nothing in its place."""
    mark: MarkSide | None = None
    """Which side of emphasised text, or of a link, the span is."""
    pair: int | None = None
    """Where the pair begins to which the span belongs."""
    character: str = ""
    """What the model reads in place of an entity, if this is translated as text."""


def pair_up(text: str, found: Sequence[FoundSpan]) -> list[FoundSpan]:
    """Return the spans of a text with their pairs; a mark without a partner is text."""
    pairs: dict[int, int] = {}
    open_spans: list[tuple[str, int]] = []
    open_names: Counter[str] = Counter()
    for number, span in enumerate(found):
        side, name = _read_side(text, span)
        # A mark that may be either side closes an open one: the last * of **_*dog*_**.
        may_close = span.mark is not None and _MAY_CLOSE.match(text, span.start) is not None
        closes_open = may_close and open_names[name] > 0
        if side == "opening" and not closes_open:
            open_spans.append((name, number))
            open_names[name] += 1
            continue
        while open_names[name]:  # what was opened later has no end
            other, first = open_spans.pop()
            open_names[other] -= 1
            if other == name:
                pairs[first] = pairs[number] = first
                break
    paired: list[FoundSpan] = []
    for number, span in enumerate(found):
        if number in pairs:
            paired.append(replace(span, pair=found[pairs[number]].start))
        elif span.mark is None:
            paired.append(span)
        elif _ADDRESS_OF_LINK.match(text, span.start):
            # The address of a link whose beginning was not found stays, too.
            paired.append(replace(span, mark=None, is_tag=False))
    return paired


def _read_side(text: str, span: FoundSpan) -> tuple[MarkSide | None, str]:
    """Return which side of a pair a span may be, and the name that both sides share."""
    own = text[span.start : span.end]
    if span.mark == "opening":
        return "opening", own.lstrip("!")  # an image ends as a link does
    if span.mark == "closing":
        return "closing", _OPENING_OF.get(own[0], own)
    tag = _TAG.match(own)
    is_empty = own.endswith("/>")
    if tag is None or is_empty or span.texts:
        return None, ""
    slash, name = tag.groups()
    return "closing" if slash else "opening", name
