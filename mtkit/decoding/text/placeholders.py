"""Placeholders: the model reads one symbol in place of what no translation changes.

A model that knows placeholders copies them, and in its translation each becomes again what it
stands for. For other models, a line is split at such spans: where the parts are likely to be whole
phrases, and everywhere in a second search if the first one loses a span. No model reads messages of
software: only the texts within them are translated.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice

from mtkit.corpus.characters import has_letters
from mtkit.decoding.text.line import (
    Answer,
    Context,
    Part,
    Span,
    SplitSpan,
    needs_space,
    normalised_prefix,
    normalised_text,
)
from mtkit.decoding.text.mending import TagPair, mend, replace_characters
from mtkit.decoding.text.messages import MessageText, Syntax
from mtkit.decoding.text.sentences import SENTENCE_END, find_sentences, split_at
from mtkit.decoding.text.untranslatable import FoundSpan, find_spans
from mtkit.decoding.text.words import Words
from mtkit.tokenizer.hints import PLACEHOLDERS

_MARK = PLACEHOLDERS[0]
"""Stands for every unit until the segments are known, in which units are numbered."""
_DOUBLED = "''"
_SIGN = re.compile(_MARK)
_SIGN_OF_MESSAGE = re.compile(f"{_MARK}|{_DOUBLED}")
_TAG = re.compile(r"(?:<|&lt;)(/?)([A-Za-z][\w:.-]*|\d+)")
_WORD = re.compile(r"\S+")
_SPACE = re.compile(r"\s")
_WORD_CHARACTER = re.compile(r"\w")
_COLON_AT_BEGIN = re.compile(r"[\"'”’»)\]]?:\s")
_COLON_AT_END = re.compile(r":\s?[\"'“„«(\[`]?\Z")
MAX_SIGNS = 3
"""Characters at the end of a text in which a colon is looked for."""


def protect_placeholders(spans: Sequence[Span], context: Context) -> list[SplitSpan]:
    """Protect what no translation changes; leave everything after a prefix as it is."""
    return [_protect_line(span, context) for span in spans]


def _protect_line(span: Span, context: Context) -> SplitSpan:
    found = find_spans(span.text)
    if not found or normalised_prefix(span.line):
        return SplitSpan([span])
    units = _find_units(span.text, found)
    if not (context.tokenizer.has_hints or context.cuts_at_spans):
        units = _find_units_at_colons(units, span.text)
    if not units:
        return SplitSpan([span])
    has_messages = any(each.message is not None for each in found)
    syntax = Syntax.MESSAGE if has_messages else Syntax.PLAIN
    words = Words(normalised_text(span.line)) if context.request.alignments else None
    return _Protector(context, words).protect(span, units, syntax, is_inner=False)


# What is protected


@dataclass(frozen=True)
class _Unit:
    """Spans that touch each other: one placeholder stands for all of them."""

    start: int
    end: int
    spans: Sequence[FoundSpan]
    pair: int | None = None
    """The number of the pair of tags to which the unit belongs, if it is a tag."""

    @property
    def has_message(self) -> bool:
        """Whether a message is among the spans."""
        return any(span.message is not None for span in self.spans)


def _find_units(text: str, found: Sequence[FoundSpan]) -> list[_Unit]:
    """Join spans that touch each other, unless a tag of a pair would be without the other one."""
    pairs = _find_pairs(text, found)
    units: list[_Unit] = []
    first = 0
    while first < len(found):
        last = first
        while last + 1 < len(found) and found[last].end == found[last + 1].start:
            last += 1
        run = found[first : last + 1]
        tags = [pairs[number] for number in range(first, last + 1) if number in pairs]
        has_whole_pairs = len(tags) == 2 * len(set(tags))
        if len(run) > 1 and has_whole_pairs:
            units.append(_Unit(run[0].start, run[-1].end, run))
        else:
            for number, span in enumerate(run, first):
                units.append(_Unit(span.start, span.end, [span], pairs.get(number)))
        first = last + 1
    return units


def _find_pairs(text: str, found: Sequence[FoundSpan]) -> dict[int, int]:
    """Return for each tag in a pair, by the number of its span, the number of the first tag."""
    pairs: dict[int, int] = {}
    open_tags: list[tuple[str, int]] = []
    open_names: Counter[str] = Counter()
    for number, span in enumerate(found):
        tag = _TAG.match(text, span.start, span.end) if span.message is None else None
        if tag is None:
            continue
        slash, name = tag.groups()
        if not slash:
            open_tags.append((name, number))
            open_names[name] += 1
            continue
        while open_names[name]:  # tags that were opened later have no end
            other, first = open_tags.pop()
            open_names[other] -= 1
            if other == name:
                pairs[first] = pairs[number] = first
                break
    return pairs


def _find_units_at_colons(units: Sequence[_Unit], text: str) -> list[_Unit]:
    """Return the units at which a line is split at once for a model without placeholders.

    These are messages, and units that a colon separates from the words of the line: "%s: not found"
    and "not found: %s". Elsewhere, the parts may not be whole phrases.
    """
    starts = [0, *(unit.end for unit in units)]
    ends = [*(unit.start for unit in units), len(text)]
    between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    with_words = [number for number, part in enumerate(between) if _WORD_CHARACTER.search(part)]
    # The units before the first of these texts, and those after the last one, stand at the ends.
    first = 0
    last = len(units)
    if with_words and _COLON_AT_BEGIN.match(between[with_words[0]]):
        first = with_words[0]
    if with_words and _COLON_AT_END.search(between[with_words[-1]][-MAX_SIGNS:]):
        last = with_words[-1]
    return [
        unit
        for number, unit in enumerate(units)
        if number < first or number >= last or unit.has_message
    ]


def _hide(span: Span, units: Sequence[_Unit]) -> Span:
    """Return the span with a mark in place of each unit."""
    text: list[str] = []
    origin: list[int] = []
    end = 0
    for unit in units:
        text += [span.text[end : unit.start], _MARK]
        origin += span.origin[end : unit.start]
        origin.append(span.origin[unit.end - 1])  # as everywhere, the last character stands for all
        end = unit.end
    text.append(span.text[end:])
    origin += span.origin[end:]
    return Span("".join(text), origin, span.line)


# What the model reads


@dataclass(frozen=True)
class _Segment:
    """A part of a text with marks that the model reads."""

    start: int
    end: int
    units: Sequence[_Unit]
    """They have the placeholders from the first one on."""
    follows_sentence: bool = False
    """Whether a sentence ends before it; then the target language decides on the space."""

    def tags(self) -> list[TagPair]:
        """Return the placeholders of the pairs of tags in it."""
        opening: dict[int, str] = {}
        pairs: list[TagPair] = []
        for placeholder, unit in zip(PLACEHOLDERS, self.units, strict=False):
            if unit.pair is None:
                continue
            if unit.pair in opening:
                pairs.append(TagPair(opening[unit.pair], placeholder))
            else:
                opening[unit.pair] = placeholder
        return pairs


def _find_segments(text: str, units: Sequence[_Unit], context: Context) -> Iterator[_Segment]:
    """Split a text with marks into sentences, and these into parts with few enough marks.

    Sentences have placeholders of their own, so that each begins with the first one. What has no
    letters belongs to no segment.
    """
    settings = context.request.settings
    abbreviations = set(settings.abbreviations.split())
    ranges = [(0, len(text))]
    if settings.sentences is not None:
        ranges = find_sentences(text, settings.sentences, abbreviations)
    elif len(units) > len(PLACEHOLDERS):
        ranges = split_at((end.end() for end in SENTENCE_END.finditer(text)), text, abbreviations)
    first_unit = 0
    previous_end = 0
    for sentence_start, sentence_end in ranges:
        start = sentence_start
        for end in [*_find_cuts(text, sentence_start, sentence_end), sentence_end]:
            last_unit = first_unit + text.count(_MARK, start, end)
            if has_letters(text[start:end]):
                begin, stop = _trim(text, start, end)
                is_next = not text[previous_end:begin].strip()
                follows_sentence = 0 < start == sentence_start and is_next
                yield _Segment(begin, stop, units[first_unit:last_unit], follows_sentence)
                previous_end = stop
            first_unit = last_unit
            start = end


def _find_cuts(text: str, start: int, end: int) -> Iterator[int]:
    """Yield where a sentence with too many marks is cut: at the space after the last mark."""
    marks = [mark.start() for mark in _SIGN.finditer(text, start, end)]
    for number in range(len(PLACEHOLDERS), len(marks), len(PLACEHOLDERS)):
        after_last = marks[number - 1] + 1
        space = _SPACE.search(text, after_last, marks[number])
        yield space.start() if space else after_last


def _find_segments_between(text: str) -> Iterator[_Segment]:
    """Yield the segments between the marks of a text, without colons towards the marks."""
    start = 0
    for part in text.split(_MARK):
        end = start + len(part)
        if has_letters(part):
            begin, stop = start, end
            if start > 0 and (colon := _COLON_AT_BEGIN.match(part)):
                begin = start + colon.end()
            if end < len(text) and (colon := _COLON_AT_END.search(part[-MAX_SIGNS:])):
                stop = end - len(colon[0])
            yield _Segment(*_trim(text, begin, stop), ())
        start = end + 1


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the range without the white space at its ends."""
    part = text[start:end]
    begin = start + len(part) - len(part.lstrip())
    return begin, begin + len(part.strip())


def _read(segment: _Segment, hidden: Span, syntax: Syntax) -> Span:
    """Return a segment as the model reads it, with numbered placeholders in place of the marks.

    `hidden`: the whole text, with a mark for each unit. In a message, two apostrophes stand for
    one.
    """
    pattern = _SIGN if syntax is Syntax.PLAIN else _SIGN_OF_MESSAGE
    placeholders = iter(PLACEHOLDERS)
    text: list[str] = []
    origin: list[int] = []
    end = segment.start
    for sign in pattern.finditer(hidden.text, segment.start, segment.end):
        text.append(hidden.text[end : sign.start()])
        text.append(next(placeholders) if sign[0] == _MARK else "'")
        # A sign becomes one character; two apostrophes have the origin of the first.
        origin += hidden.origin[end : sign.start() + 1]
        end = sign.end()
    text.append(hidden.text[end : segment.end])
    origin += hidden.origin[end : segment.end]
    return Span("".join(text), origin, hidden.line)


@dataclass(frozen=True)
class _Replacement:
    """What the placeholder of a unit becomes: text as it is, and translated texts of messages."""

    pieces: Sequence[Answer | SplitSpan]

    @property
    def parts(self) -> list[Part]:
        """The parts of all texts of messages."""
        parts: list[Part] = []
        for piece in self.pieces:
            if isinstance(piece, SplitSpan):
                parts += piece.parts
        return parts

    def join(self, answers: Iterator[Answer]) -> Answer:
        """Return the text; `answers`: to all parts, in order."""
        joined: list[Answer] = []
        for piece in self.pieces:
            if isinstance(piece, SplitSpan):
                joined.append(piece.join(list(islice(answers, len(piece.parts)))))
            else:
                joined.append(piece)
        return _concatenate(joined)


@dataclass(frozen=True)
class _Protector:
    """Protects a line, and the texts of the messages in it."""

    context: Context
    words: Words | None
    """The words of the line, if alignments are requested."""

    def protect(
        self, span: Span, units: Sequence[_Unit], syntax: Syntax, *, is_inner: bool
    ) -> SplitSpan:
        """Hide the units of a text from the model; `is_inner`: whether a message has the text."""
        hidden = _hide(span, units)
        if self.context.tokenizer.has_hints:
            segments = list(_find_segments(hidden.text, units, self.context))
        else:
            segments = list(_find_segments_between(hidden.text))
        read = [_read(segment, hidden, syntax) for segment in segments]
        replacements = [self._replacement(unit, span) for unit in units]
        parts: list[Part] = [*read]
        for replacement in replacements:
            parts += replacement.parts
        join = partial(
            _show,
            text=hidden.text,
            segments=segments,
            sources=[part.text for part in read],
            replacements=replacements,
            style=_Style(syntax, is_inner, has_doubled=_DOUBLED in hidden.text),
        )
        return SplitSpan(parts, join)

    def _replacement(self, unit: _Unit, span: Span) -> _Replacement:
        """Return what the placeholder of a unit becomes."""
        pieces: list[Answer | SplitSpan] = []
        for found in unit.spans:
            if found.message is None:
                text = span.text[found.start : found.end]
                pieces.append(Answer(text, self._links(text, span, found.start)))
                continue
            first, *others = found.message.skeleton(span.text)
            pieces.append(Answer(first))
            for inner, following in zip(found.message.texts, others, strict=True):
                pieces += self._protect_inner(span, inner)
                pieces.append(Answer(following))
        return _Replacement(pieces)

    def _protect_inner(self, span: Span, inner: MessageText) -> list[Answer | SplitSpan]:
        """Protect a text of a message; the white space around it stays."""
        text = span.text[inner.start : inner.end]
        stripped = span.cut(inner.start, inner.end)
        if not stripped.text:
            return [Answer(text)]
        spans = find_spans(stripped.text, inner.syntax)
        units = _find_units(stripped.text, spans)
        split = self.protect(stripped, units, inner.syntax, is_inner=True)
        before, _, after = text.partition(stripped.text)
        return [Answer(before), split, Answer(after)]

    def _links(self, text: str, span: Span, start: int) -> list[tuple[int, int]]:
        """Link each word of a text that stays to itself; `start`: its offset in the span."""
        if self.words is None:
            return []
        ends = [word.end() - 1 for word in _WORD.finditer(text)]
        return [(self.words.at(span.origin[start + end]), end) for end in ends]


# The way back


@dataclass(frozen=True)
class _Style:
    """How apostrophes and braces are written in a text."""

    syntax: Syntax
    is_inner: bool
    """Whether the text is within a message, so that every brace has a meaning."""
    has_doubled: bool
    """Whether the source doubles apostrophes."""

    def escape(self, answer: Answer, shown: Sequence[Answer], *, is_before_unit: bool) -> Answer:
        """Return the answer as text of a message, where only placeholders have a meaning.

        `shown`: what becomes of the placeholders. If the source does not double apostrophes, only
        those are doubled that would quote what follows, or continue a quotation.
        """
        if self.syntax is Syntax.PLAIN:
            return answer
        signs = "{}" if self.is_inner else ""
        if self.syntax is Syntax.NUMBERED:
            signs += "#"
        quoted = [
            placeholder
            for placeholder, unit in zip(PLACEHOLDERS, shown, strict=False)
            if unit.text.endswith("'")
        ]
        text = answer.text
        last = len(text) - 1
        pieces = ["" if character in signs else character for character in text]
        for number, character in enumerate(text):
            if character != "'":
                continue
            is_before_sign = text[number + 1 : number + 2] in (*PLACEHOLDERS, *"{}#'")
            is_at_end = number == last and (self.is_inner or is_before_unit)
            may_continue = text[number - 1 : number] in quoted
            if self.has_doubled or is_before_sign or is_at_end or may_continue:
                pieces[number] = _DOUBLED
        return replace_characters(answer, pieces)


def _show(
    answers: Sequence[Answer],
    *,
    text: str,
    segments: Sequence[_Segment],
    sources: Sequence[str],
    replacements: Sequence[_Replacement],
    style: _Style,
) -> Answer:
    """Return the answer to a text in which units are hidden.

    `text`: the text with marks. `sources`: what the model has read of each segment. Answers to the
    segments come first, then those to the texts of messages.
    """
    of_messages = iter(answers[len(segments) :])
    shown = iter([replacement.join(of_messages) for replacement in replacements])
    joined: list[Answer] = []
    end = 0
    before = ""  # the last answer that is not empty
    for segment, source, answer in zip(segments, sources, answers, strict=False):
        between = text[end : segment.start]
        if segment.follows_sentence:
            between = " " if needs_space(before, answer.text) else ""
        joined += _fill_marks(between, shown)
        own = [*islice(shown, len(segment.units))]
        mended = mend(answer, source, segment.tags())
        is_before_unit = text[segment.end : segment.end + 1] == _MARK
        joined.append(_expand(style.escape(mended, own, is_before_unit=is_before_unit), own))
        before = mended.text or before
        end = segment.end
    joined += _fill_marks(text[end:], shown)
    return _concatenate(joined)


def _fill_marks(text: str, shown: Iterator[Answer]) -> Iterator[Answer]:
    """Yield the pieces of a text that is copied, and the units between them."""
    first, *others = text.split(_MARK)
    yield Answer(first)
    for piece in others:
        yield next(shown)
        yield Answer(piece)


def _expand(answer: Answer, shown: Sequence[Answer]) -> Answer:
    """Return the answer with `shown` in place of its placeholders."""
    if not shown:
        return answer
    by_placeholder = dict(zip(PLACEHOLDERS, shown, strict=False))
    pieces: list[str] = []
    links: list[tuple[int, int]] = []
    length = 0
    for character in answer.text:
        piece = character
        if unit := by_placeholder.get(character):
            piece = unit.text
            links += [(word, length + offset) for word, offset in unit.links]
        pieces.append(piece)
        length += len(piece)
    expanded = replace_characters(answer, pieces)
    return Answer(expanded.text, [*expanded.links, *links])


def _concatenate(answers: Sequence[Answer]) -> Answer:
    """Join answers as they are."""
    length = 0
    links: list[tuple[int, int]] = []
    for answer in answers:
        links += [(word, length + offset) for word, offset in answer.links]
        length += len(answer.text)
    return Answer("".join(answer.text for answer in answers), links)
