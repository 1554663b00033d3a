"""Fluent (`.ftl`), read with fluent.syntax: each variant of a text is translated."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

from mtkit.corpus.characters import is_capital
from mtkit.extras.documents.codes import InlineCode, NumberedText
from mtkit.extras.documents.units import DocumentError, Replacement, Target, TextUnit

_KEYS = ("accesskey", "commandkey", "key", "style")
"""Attributes that are no texts."""
_LINE_END = re.compile(r"\s*\n\s*")
MAX_PIECES = 63
"""Most sentences of a text, and what stands between them; a text with more stays."""
_Piece = str | NumberedText
"""A piece of the document that stays, or a sentence."""


def read_fluent(document: str) -> Iterator[TextUnit]:
    """Yield a unit for each text of a message or term, and of its attributes.

    Raises:
        ImportError: fluent.syntax is not installed.
        DocumentError: a part of the file is not Fluent.
    """
    from fluent.syntax import FluentParser

    body: Any = FluentParser().parse(document).body
    for entry in body:
        kind = type(entry).__name__
        if kind == "Junk":
            problem = entry.annotations[0].message
            raise DocumentError(entry.span.start, f"not Fluent: {problem}")
        if kind in ("Message", "Term"):
            for part in (entry, *entry.attributes):
                if part.value is not None and part.id.name not in _KEYS:
                    yield from _read_pattern(document, part.value.elements)


def _read_pattern(document: str, elements: Sequence[Any]) -> Iterator[TextUnit]:
    pieces = list(islice(_divide(document, elements), MAX_PIECES + 1))
    if len(pieces) <= MAX_PIECES:
        texts = [piece.text for piece in pieces if isinstance(piece, NumberedText)]
        start = elements[0].span.start
        end = elements[-1].span.end
        yield TextUnit(texts, partial(_write, start, end, pieces))


def _divide(document: str, elements: Sequence[Any]) -> Iterator[_Piece]:
    """Yield a text; of one with variants, the whole sentence for each variant, and what is between.

    "{ $n -> [one] A cat *[other] Cats } in the park" has "A cat in the park", for example.
    """
    content: list[str | InlineCode] = []
    for place, element in enumerate(elements):
        start = done = element.span.start
        end = element.span.end
        expression = getattr(element, "expression", None)
        for variant in getattr(expression, "variants", ()):
            own = variant.value.elements
            before = elements[:place]
            after = elements[place + 1 :]
            yield document[done : own[0].span.start]
            yield from _divide(document, [*before, *own, *after])
            done = own[-1].span.end
        if done > start:  # it has variants
            yield document[done:end]
            return
        raw = document[start:end]
        if expression is None:
            content.append(_LINE_END.sub(_join, raw))
        else:
            content.append(InlineCode(raw, meaning=raw))
    yield NumberedText(content)


def _join(line_end: re.Match[str]) -> str:
    """Return a space, unless a new sentence or a paragraph begins in the next line."""
    end = line_end.end()
    following = line_end.string[end : end + 1]
    if following == "":  # a placeable follows
        return " "
    is_blank_line = line_end[0].count("\n") > 1
    if is_blank_line or is_capital(following):
        return line_end[0]
    return " "


def _write(
    start: int, end: int, pieces: Sequence[_Piece], translations: Sequence[str], target: Target
) -> Iterator[Replacement]:
    left = iter(translations)
    written = ""
    for piece in pieces:
        if isinstance(piece, str):
            written += piece
        else:
            text = piece.restore(next(left), _escape)
            # At the start of a line these begin an attribute or a variant.
            written += re.sub(r"(?m)^([ \t]*)([.*[])", r'\g<1>{"\g<2>"}', text)
    yield Replacement(start, end, written)


def _escape(text: str) -> str:
    return re.sub(r"[{}]", r'{"\g<0>"}', text)
