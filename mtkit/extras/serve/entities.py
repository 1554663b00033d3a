"""Text of HTML pages: entities become characters before the translation, and again after it."""

from __future__ import annotations

import re
from html import unescape

from mtkit.corpus.characters import is_printable

_TAG = re.compile(r"(<[a-zA-Z/!?][^>]*>)")
_NAME = r"(?:#\d+|#[xX][\da-fA-F]+|\w+);"
_NAME_OF_ENTITY = re.compile(_NAME)
_ENTITY = re.compile(f"&{_NAME}")
_BARE_AMPERSAND = re.compile(f"&(?!{_NAME})")
_BARE_BRACKET = re.compile(r"<(?![a-zA-Z/!?])")


def decode_entities(html: str) -> str:
    """Return HTML with characters for the entities outside tags.

    An entity stays if its character would be markup, a control character or a line break.
    """
    pieces = _TAG.split(html)
    # Every second piece is a tag, whose attributes stay as they are.
    pieces[::2] = [_decode(piece) for piece in pieces[::2]]
    return "".join(pieces)


def encode_entities(text: str) -> str:
    """Return text as HTML, in which tags and entities stay and other markup is encoded."""
    escaped = _BARE_AMPERSAND.sub("&amp;", text)
    return _BARE_BRACKET.sub("&lt;", escaped)


def _decode(text: str) -> str:
    decoded: list[str] = []
    end = 0
    for match in _ENTITY.finditer(text):
        character = unescape(match[0])
        begins_entity = character == "&" and _NAME_OF_ENTITY.match(text, match.end())
        is_markup = character in "<>" or begins_entity
        decoded.append(text[end : match.start()])
        decoded.append(character if is_printable(character) and not is_markup else match[0])
        end = match.end()
    return "".join([*decoded, text[end:]])
