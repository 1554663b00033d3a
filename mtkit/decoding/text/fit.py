"""Encode spans, in parts that the model can read: of at most `max_length` subwords."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import chain
from unicodedata import category

from mtkit.decoding.text.line import Context, Span, SplitSpan, Subwords
from mtkit.decoding.text.sentences import SENTENCE_END, split_at
from mtkit.decoding.text.tags import find_tag
from mtkit.decoding.text.terms import mask_hints, remove_hint

_SPACE = re.compile(r"\s")
_JOINED = re.compile("\u200d|.[\U0001f3fb-\U0001f3ff]")
"""A joiner, or an emoji with its colour of skin."""


def encode_to_fit(spans: Sequence[Span], context: Context) -> list[SplitSpan]:
    """Encode every span, in several parts if it is too long for the model.

    Each part gets the target tag of its line.
    """
    room = _room_for_text(context)
    splits: list[SplitSpan] = []
    for span, parts in zip(spans, split_to_fit(spans, context), strict=True):
        tag = find_tag(span.line, context)
        pieces: list[Subwords] = []
        for part in parts:
            # Even a single character can have more subwords than there is room for.
            for first in range(0, len(part.ids), room):
                end = first + room
                pieces.append(Subwords(part.ids[first:end], part.origin[first:end], tag))
        splits.append(SplitSpan(pieces))
    return splits


def _room_for_text(context: Context) -> int:
    """Return how many subwords of text a part may have; a target tag needs room, too."""
    max_length = context.request.settings.max_length
    return max(1, max_length - 1) if context.tokenizer.tags else max_length


def split_to_fit(spans: Sequence[Span], context: Context) -> list[list[Subwords]]:
    """Return the parts of each span in order, without the white space between them.

    A span of too many subwords is split at sentence ends, else at the space nearest to its middle,
    else in half. Only a part of one character can still have too many.
    """
    room = _room_for_text(context)
    abbreviations = set(context.request.settings.abbreviations.split())
    # All spans in one call, which takes far less time than a call for each.
    encoded = context.tokenizer.encode_source([span.text for span in spans])
    divided: dict[int, list[Span]] = {}
    for number, span in enumerate(spans):
        if len(encoded[number]) > room:
            parts = _divide(span, abbreviations)
            if [part.text for part in parts] != [span.text]:
                divided[number] = parts
    shorter = list(chain.from_iterable(divided.values()))
    # Parts can still be too long.
    fitting = iter(split_to_fit(shorter, context) if shorter else [])
    pieces_of_spans: list[list[Subwords]] = []
    for number, span in enumerate(spans):
        pieces: list[Subwords] = []
        if number in divided:
            for _ in divided[number]:
                pieces += next(fitting)
        else:
            pieces.append(Subwords(encoded[number], _origin_of_subwords(span, context)))
        pieces_of_spans.append(pieces)
    return pieces_of_spans


def _origin_of_subwords(span: Span, context: Context) -> list[int]:
    """Return the origin of the last character of each subword, if alignments are requested."""
    if not context.request.alignments:
        return []
    return [span.origin[offset] for offset in context.tokenizer.source_offsets(span.text)]


def _divide(span: Span, abbreviations: Container[str]) -> list[Span]:
    """Split a span at sentence ends, else in two; return a single character in one part.

    A hint stays whole; a span that is one hint loses it.
    """
    masked = mask_hints(span.text)
    ends = [match.end() for match in SENTENCE_END.finditer(masked)]
    ranges = split_at(ends, masked, abbreviations)
    sentences = [span.cut(start, end) for start, end in ranges]
    if len(sentences) != 1:
        return sentences
    sentence = remove_hint(sentences[0])
    length = len(sentence.text)
    if length <= 1:  # a single character
        return [sentence]
    masked = mask_hints(sentence.text)
    middle = _find_boundary(masked, length // 2)
    spaces = [match.start() for match in _SPACE.finditer(masked)]
    cut = min(spaces, key=lambda space: abs(space - middle), default=middle)
    return [sentence.cut(0, cut), sentence.cut(cut, length)]


def _find_boundary(text: str, offset: int) -> int:
    """Return the first place from `offset` on, else the last before it, that cuts no character."""
    after = range(offset, len(text))
    before = range(offset - 1, 0, -1)
    for place in chain(after, before):
        is_mark = category(text[place])[0] == "M"
        if not is_mark and not _JOINED.search(text[place - 1 : place + 1]):
            return place
    return offset
