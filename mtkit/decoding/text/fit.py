"""Encode spans, in parts that the model can read: of at most `max_length` subwords."""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections.abc import Container, Sequence
from itertools import chain
from unicodedata import category

from mtkit.decoding.text.demands import Demand, demands_within, show_stand_ins
from mtkit.decoding.text.line import Context, Part, Segment
from mtkit.decoding.text.prefix import find_symbols
from mtkit.decoding.text.sentences import SENTENCE_END, split_at
from mtkit.decoding.text.text import Text

_SPACE = re.compile(r"\s")
_JOINED = re.compile("\u200d|.[\U0001f3fb-\U0001f3ff]")
"""A joiner, or an emoji with its colour of skin."""


def encode_to_fit(segments: Sequence[Segment], context: Context) -> list[list[Part]]:
    """Encode every segment, in several parts if it is too long for the model.

    The model reads stand-ins in place of marks. Each part gets the language symbols of its line.
    """
    room = _room_for_text(context)
    read: list[Text] = []
    for segment in segments:
        read.append(show_stand_ins(segment.text, demands_within(segment.text, segment.demands)))
    parts_of_segments: list[list[Part]] = []
    for segment, encoded in zip(segments, split_to_fit(read, context), strict=True):
        symbols, begin = find_symbols(segment.line, context)
        parts: list[Part] = []
        demands = _divide_demands(segment, [text for text, _ in encoded])
        for (text, ids), own_demands in zip(encoded, demands, strict=True):
            # Even a single character can have more subwords than there is room for.
            for first in range(0, max(len(ids), 1), room):
                part_ids = ids[first : first + room]
                prefix = begin if parts else [*begin, *segment.prefix]
                parts.append(Part(part_ids, text, own_demands, segment.changes, prefix, symbols))
        parts_of_segments.append(parts)
    return parts_of_segments


def _divide_demands(segment: Segment, texts: Sequence[Text]) -> list[Sequence[Demand]]:
    """Return the demands of each part of a segment; those between two parts belong to the first.

    A term that lies in two parts has no place in either.
    """
    if not segment.demands:
        return [()] * len(texts)
    divided: list[Sequence[Demand]] = []
    demands = demands_within(segment.text, segment.demands)
    # A text can be empty if its marks stand for nothing that the model reads.
    starts = [*(text.origin[0] if text.string else math.inf for text in texts[1:]), math.inf]
    first = 0
    for text, following in zip(texts, starts, strict=True):
        last = bisect_left(demands, following, key=lambda demand: demand.end - 1)
        own: list[Demand] = []
        for demand in demands[first:last]:
            if demand.is_placed and (not demand.is_term or _has_whole(text, demand)):
                own.append(demand)
        divided.append(own)
        first = last
    return divided


def _has_whole(text: Text, demand: Demand) -> bool:
    """Return whether the whole range of a demand lies in a text."""
    if not text.string:
        return False
    return text.origin[0] <= demand.start and demand.end - 1 <= text.origin[-1]


def _room_for_text(context: Context) -> int:
    """Return how many subwords of text a part may have; a target tag needs room, too."""
    max_length = context.request.settings.max_length
    return max(1, max_length - 1) if context.tokenizer.tags else max_length


def split_to_fit(texts: Sequence[Text], context: Context) -> list[list[tuple[Text, list[int]]]]:
    """Return the parts of each text in order, with their subword ids, without spaces between them.

    A text of too many subwords is split at sentence ends, else at the space nearest to its middle,
    else in half. Only a part of one character can still have too many.
    """
    room = _room_for_text(context)
    abbreviations = set(context.request.settings.abbreviations.split())
    # All texts in one call, which takes far less time than a call for each.
    encoded = context.tokenizer.encode_source([text.string for text in texts])
    parts_of_texts: list[list[tuple[Text, list[int]]]] = []
    for text, ids in zip(texts, encoded, strict=True):
        parts = [text]
        if len(ids) > room:
            parts = _divide(text, abbreviations)
        if [part.string for part in parts] == [text.string]:
            parts_of_texts.append([(text, ids)])
        else:  # parts can still be too long
            parts_of_texts.append(list(chain.from_iterable(split_to_fit(parts, context))))
    return parts_of_texts


def _divide(text: Text, abbreviations: Container[str]) -> list[Text]:
    """Split a text at sentence ends, else in two; return a single character in one part."""
    string = text.string
    ends = [match.end() for match in SENTENCE_END.finditer(string)]
    sentences = [text.cut(start, end) for start, end in split_at(ends, string, abbreviations)]
    if len(sentences) != 1:
        return sentences
    sentence = sentences[0]
    length = len(sentence)
    if length <= 1:  # a single character
        return [sentence]
    middle = _find_boundary(sentence.string, length // 2)
    spaces = [match.start() for match in _SPACE.finditer(sentence.string)]
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
