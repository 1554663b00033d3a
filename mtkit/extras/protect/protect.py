"""Protect what no translation changes: it comes back once, unchanged, and in its place.

Tags around a line, and between its sentences, are copied. Within a sentence the model reads the
sentence as a whole: without tags, and with a stand-in for each placeholder, URL or piece of code.
`mtkit.decoding.text.placing` puts them back. Of messages of software, only the texts within them
are translated.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from mtkit.corpus.characters import has_letters, is_small, is_word_character
from mtkit.decoding.text.demands import MARK, Demand
from mtkit.decoding.text.line import Context, Copied, Segment, normalised_prefix
from mtkit.decoding.text.sentences import SENTENCE_END
from mtkit.decoding.text.text import Edit, Text
from mtkit.extras.protect.messages import Syntax
from mtkit.extras.protect.pairs import FREE_LETTERS, FoundSpan
from mtkit.extras.protect.spans import find_outer_tags, find_spans, is_cue

NAME = "X"
NUMBER = "7"
"""Stand-ins: most models copy them, or translate them by one word."""
MAX_SPANS = 32
"""Most spans of a text that the model reads as one; time grows with their square."""
_NUMBER_SPAN = re.compile(
    r"%(?:\(\w+\)|\d+\$)?[-+#, 0]*\d*(?:\.\d+)?(?:hh?|ll?|[jztLZ])?[diuxXofFeEgG]"
    r"|[$#%]?\{+\s*(?:\d+|n|num\w*|count\w*|total\w*|size|amount|\w+_count|\w*[nN]umber)\s*\}+"
    r"|\{\w+, ?(?:number|ordinal|spellout)[^{}]*\}|#"
)
_ENDING = re.compile(r"[a-z]{1,3}(?!\w)")
_STANDS_ALONE = re.compile(f"[{FREE_LETTERS}]")
_WORD_CHARACTER = re.compile(r"\w")
_COLON_AT_BEGIN = re.compile(r"[\"'”’»)\]]?:\s")
_COLON_AT_END = re.compile(r":\s?[\"'“„«(\[`]?\Z")
_DOUBLED = "''"
_WRITTEN = re.compile(rf"{_DOUBLED}|&#?\w+;")
_ENTITIES_OF_MARKUP = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MAX_ENTITY = 10
"""Length of the longest entity of letters, such as &Ccedil; and &#1234567;."""
MAX_SIGNS = 8
"""Characters beside a span that are looked at."""
Piece = Segment | Copied


def protect(segment: Segment, context: Context) -> list[Piece]:
    """Protect what no translation changes; leave everything after a prefix as it is."""
    if is_cue(segment.string):
        return [Copied(segment.text)]
    patterns = context.request.settings.protect
    found = find_spans(segment.string, patterns=patterns)
    if not found:
        return [segment]
    facts = context.estimator.facts
    own_name = "" if facts is None else facts.stand_in
    name = own_name or NAME
    # A digit that the vocabulary lacks becomes a byte, which may join another word.
    number = NUMBER if context.tokenizer.can_spell(NUMBER) else name
    spellings = _find_spellings(segment.string, found)
    protector = _Protector(segment, name, number, patterns, spellings)
    if normalised_prefix(segment.line):
        return [protector.look_for(found)]
    first, last = find_outer_tags(segment.string)
    inner = segment.text.cut(first, last)
    # Only spaces stand before the inner text, so that it begins where it is first found.
    start = segment.string.index(inner.string, first)
    end = start + len(inner)
    if len(inner) < len(segment.text):
        found = find_spans(inner.string, patterns=patterns)
    has_messages = any(span.texts for span in found)
    syntax = Syntax.MESSAGE if has_messages else Syntax.PLAIN
    pieces = protector.protect(inner, found, syntax, is_inner=False)
    before = _copy_exactly(segment.text, 0, start)
    return [*before, *pieces, *_copy_exactly(segment.text, end, len(segment.text))]


def _copy_exactly(text: Text, start: int, end: int) -> list[Piece]:
    """Return a part of a text as a piece that is copied with its spaces; none if it is empty."""
    return [Copied(text.slice(start, end), is_exact=True)] if start < end else []


def _find_spellings(text: str, found: Sequence[FoundSpan]) -> Mapping[str, str]:
    """Return the characters that a translation has as entities, as the line has them.

    A line with entities has the signs of markup only as entities, too. What the line has plain as
    well stays plain.
    """
    spans = [text[span.start : span.end] for span in found]
    entities = [span for span in spans if span.startswith("&")]
    if not entities:
        return {}
    spellings = dict(_ENTITIES_OF_MARKUP)
    for entity in reversed(entities):
        spellings[html.unescape(entity)] = entity
    plain = Counter(text)
    plain.subtract("".join(spans))
    for character in +plain:
        spellings.pop(character, None)
    return spellings


@dataclass(frozen=True)
class _Unit:
    """Spans that touch each other: one mark stands for all of them."""

    start: int
    end: int
    spans: Sequence[FoundSpan]
    outer: range
    """Where the first and last of all spans are that touch each other, also of other units."""
    pair: int | None = None
    """Where the pair of tags begins to which the unit belongs, if it is a tag."""

    @property
    def has_message(self) -> bool:
        """Whether a message is among the spans."""
        return any(span.texts for span in self.spans)

    @property
    def is_tag(self) -> bool:
        """Whether a tag begins the unit."""
        return self.spans[0].is_tag


def _find_units(text: str, found: Sequence[FoundSpan]) -> list[_Unit]:
    """Join spans that touch each other, unless a tag of a pair would be without the other one."""
    runs: list[list[FoundSpan]] = []
    for span in found:
        if runs and runs[-1][-1].end == span.start:
            runs[-1].append(span)
        else:
            runs.append([span])
    units: list[_Unit] = []
    for run in runs:
        outer = range(run[0].start, run[-1].end)
        tags = [span.pair for span in run if span.pair is not None]
        # Both tags of a pair have the same number.
        has_whole_pairs = len(tags) == 2 * len(set(tags))
        if len(run) > 1 and has_whole_pairs:
            units.append(_Unit(outer.start, outer.stop, run, outer))
            continue
        for span in run:
            units.append(_Unit(span.start, span.end, [span], outer, span.pair))
    return [_with_ending(unit, text) for unit in units]


def _with_ending(unit: _Unit, text: str) -> _Unit:
    """Return a unit with the ending that a placeholder has: {name}s, {n}th."""
    if unit.is_tag or unit.has_message:
        return unit
    ending = _ENDING.match(text, unit.end)
    return unit if ending is None else replace(unit, end=ending.end())


def _find_cuts(units: Sequence[_Unit], text: str) -> list[_Unit]:
    """Return the units at which a text is cut, because they stand within no sentence.

    These are messages; tags between sentences; and units that a colon separates from the words of
    the line: "%s: not found" and "not found: %s".
    """
    beside_words = _find_beside_words(units, text)
    # Of a pair, both tags are cut; or neither, if one of them stands within a sentence.
    within = {unit.pair for unit in units if not _is_between(unit, text)}
    cuts: list[_Unit] = []
    for number, unit in enumerate(units):
        has_pair_within = unit.pair is not None and unit.pair in within
        is_between = unit.is_tag and not has_pair_within and _is_between(unit, text)
        if unit.has_message or is_between or number not in beside_words:
            cuts.append(unit)
    return cuts


def _find_beside_words(units: Sequence[_Unit], text: str) -> range:
    """Return the numbers of the units that no colon separates from the words of a text."""
    starts = [0, *(unit.end for unit in units)]
    ends = [*(unit.start for unit in units), len(text)]
    # Part k stands before unit k, and the last part after all units.
    between = [text[start:end] for start, end in zip(starts, ends, strict=True)]
    with_words = [number for number, part in enumerate(between) if _WORD_CHARACTER.search(part)]
    first = 0
    end = len(units)
    if with_words and _COLON_AT_BEGIN.match(between[with_words[0]]):
        first = with_words[0]
    if with_words and _COLON_AT_END.search(between[with_words[-1]][-MAX_SIGNS:]):
        end = with_words[-1]
    return range(first, end)


def _is_between(unit: _Unit, text: str) -> bool:
    """Return whether a sentence ends before a unit, and another one begins after it."""
    before = text[max(0, unit.start - MAX_SIGNS) : unit.start]
    after = text[unit.end : unit.end + MAX_SIGNS].lstrip()
    last = before.rstrip()[-1:]
    ends = not last or SENTENCE_END.fullmatch(f"{last} ") is not None
    return ends and not (after and is_small(after[0]))


@dataclass(frozen=True)
class _Protector:
    """Protects the spans of a line, and those of the texts of its messages."""

    segment: Segment
    name: str
    """The stand-in of spans that are no numbers."""
    number: str
    """The stand-in of numbers."""
    patterns: Sequence[str]
    """Those of `decoding.protect`."""
    spellings: Mapping[str, str]
    """Entities that the translation has in place of characters."""

    def look_for(self, found: Sequence[FoundSpan]) -> Segment:
        """Return the segment as it is; which spans its translation lacks is known nevertheless."""
        demands: list[Demand] = []
        for span in found:
            if not span.texts and not span.character:
                unit = _Unit(span.start, span.end, [span], range(span.start, span.end))
                demands.append(self._demand(self.segment.text, unit, is_placed=False))
        return replace(self.segment, demands=demands)

    def protect(
        self, text: Text, found: Sequence[FoundSpan], syntax: Syntax, *, is_inner: bool
    ) -> list[Piece]:
        """Return the pieces of a text; `is_inner`: whether a message has the text."""
        characters: dict[str, str] = {}
        others: list[FoundSpan] = []
        for span in found:
            if span.character:
                characters[text.string[span.start : span.end]] = span.character
            else:
                others.append(span)
        has_doubled = syntax is not Syntax.PLAIN and _DOUBLED in text.string
        if has_doubled:
            characters[_DOUBLED] = "'"
        style = _Style(syntax, is_inner, has_doubled, characters, self.spellings)
        units = _find_units(text.string, others)
        cuts = _find_cuts(units, text.string)
        pieces: list[Piece] = []
        start = 0
        first = 0  # the first unit after the last cut
        for cut in cuts:
            last = units.index(cut, first)
            pieces += self._protect_run(text, range(start, cut.start), units[first:last], style)
            pieces += self._copy(text, cut)
            start = cut.end
            first = last + 1
        pieces += self._protect_run(text, range(start, len(text)), units[first:], style)
        return pieces

    def _protect_run(
        self, text: Text, run: range, units: Sequence[_Unit], style: _Style
    ) -> Iterator[Piece]:
        """Yield the pieces of a text between two cuts: segments, and what is beside them."""
        start = run.start
        while len(units) > MAX_SPANS:
            last = units[MAX_SPANS - 1]
            following = units[MAX_SPANS]
            space = text.string.find(" ", last.end, following.start)
            end = max(space, last.end)  # there is none: -1
            yield from self._protect_run(text, range(start, end), units[:MAX_SPANS], style)
            start = end
            units = units[MAX_SPANS:]
        begin, end = _trim(text.string, start, run.stop)
        segment = self._segment(text, range(begin, end), units, style)
        if not has_letters(segment.string):
            begin = end = run.stop
        yield from _copy_exactly(text, start, begin)
        if end > begin:
            yield segment
        yield from _copy_exactly(text, end, run.stop)

    def _segment(self, text: Text, run: range, units: Sequence[_Unit], style: _Style) -> Segment:
        """Return a segment with marks in place of the units."""
        edits: list[Edit] = []
        demands = [*self.segment.demands]
        end = run.start
        for unit in units:
            edits += style.read(text, end, unit.start)
            mark = Text.from_one(MARK, text.origin[unit.end - 1])
            edits.append(Edit(unit.start, unit.end, mark))
            demands.append(self._demand(text, unit))
            end = unit.end
        edits += style.read(text, end, run.stop)
        marked = text.replace(edits, run)
        segment = replace(self.segment, text=marked, demands=demands)
        if style.syntax is Syntax.PLAIN and not style.spellings:
            return segment
        is_before_unit = run.stop < len(text)
        write = partial(
            style.write,
            line_length=segment.line_length,
            is_at_end=style.is_inner or is_before_unit,
        )
        return segment.with_change(write)

    def _demand(self, text: Text, unit: _Unit, *, is_placed: bool = True) -> Demand:
        """Return what the translation must have because of a unit."""
        return Demand(
            start=text.origin[unit.start],
            end=text.origin[unit.end - 1] + 1,
            text=text.string[unit.start : unit.end],
            stand_in=_find_stand_in(unit, text.string, self.name, self.number),
            pair=None if unit.pair is None else text.origin[unit.pair],
            is_placed=is_placed,
        )

    def _copy(self, text: Text, unit: _Unit) -> Iterator[Piece]:
        """Yield a unit at which a text is cut: text as it is, and texts of messages."""
        start = unit.start
        for found in unit.spans:
            for inner in found.texts:
                yield from _copy_exactly(text, start, inner.start)
                own = text.slice(inner.start, inner.end)
                spans = find_spans(own.string, inner.syntax, self.patterns)
                yield from self.protect(own, spans, inner.syntax, is_inner=True)
                start = inner.end
        yield from _copy_exactly(text, start, unit.end)


def _find_stand_in(unit: _Unit, text: str, name: str, number: str) -> str:
    """Return what the model reads for a unit; "" if it is left out, and placed by alignment."""
    own = text[unit.start : unit.end]
    if own == "%%":
        return "%"
    character = html.unescape(own)
    if own.startswith("&") and len(character) == 1:
        return character.strip()
    placeholders = [span for span in unit.spans if not span.is_tag]
    if not placeholders:
        return ""
    start = unit.outer.start
    end = max(unit.end, unit.outer.stop)  # with the ending of {name}s
    # The character beside it may be written as an entity.
    before = html.unescape(text[max(0, start - MAX_ENTITY) : start])
    after = html.unescape(text[end : end + MAX_ENTITY])
    beside = before[-1:] + after[:1]
    if any(_joins_word(character, name) for character in beside):
        return ""
    first = placeholders[0]
    is_number = _NUMBER_SPAN.fullmatch(text, first.start, first.end) is not None
    return number if is_number else name


def _joins_word(character: str, name: str) -> bool:
    """Return whether a stand-in beside a character would become a part of its word.

    A word of the corpus does not in a script without spaces, nor in Korean, where particles follow
    a noun. The default does: X is a part of the Chinese word for X-rays.
    """
    is_letter = is_word_character(character)
    return is_letter and (name == NAME or _STANDS_ALONE.match(character) is None)


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Return where a part begins and ends without spaces around it, and colons beside cuts."""
    part = text[start:end]
    first = end - len(part.lstrip())
    last = start + len(part.rstrip())
    colon = _COLON_AT_BEGIN.match(text, start, end)
    is_after_cut = start > 0
    if is_after_cut and colon is not None:
        first = colon.end()
    signs = text[max(first, last - MAX_SIGNS) : end]
    colon = _COLON_AT_END.search(signs)
    is_before_cut = end < len(text)
    if is_before_cut and colon is not None:
        last = end - len(colon[0])
    return first, max(first, last)


@dataclass(frozen=True)
class _Style:
    """How characters are written in a text: apostrophes and braces in messages, and entities."""

    syntax: Syntax
    is_inner: bool
    """Whether the text is within a message, so that every brace has a meaning."""
    has_doubled: bool
    """Whether the source doubles apostrophes."""
    characters: Mapping[str, str]
    """What the model reads in place of entities and of two apostrophes."""
    spellings: Mapping[str, str]
    """Entities that the translation has in place of characters."""

    def read(self, text: Text, start: int, end: int) -> Iterator[Edit]:
        """Yield the edits of a part of a text after which the model can read it."""
        for match in _WRITTEN.finditer(text.string, start, end):
            character = self.characters.get(match[0])
            if character is not None:
                new = Text.from_one(character, text.origin[match.start()])
                yield Edit(*match.span(), new)

    def write(self, translation: Text, *, line_length: int, is_at_end: bool) -> Text:
        """Return a translation as it is written in the text: only spans have a meaning.

        If the source does not double apostrophes, only those are doubled that would quote what
        follows, or continue a quotation. `is_at_end`: whether a sign follows the translation.
        """
        signs = "{}" if self.is_inner else ""
        if self.syntax is Syntax.NUMBERED:
            signs += "#"
        string = translation.string
        pieces = list(string)
        for number, character in enumerate(string):
            if translation.origin[number] < line_length:
                continue  # a span, which stays as it is
            if character in signs:
                pieces[number] = ""
            if character in self.spellings:
                pieces[number] = self.spellings[character]
                continue
            if character != "'" or self.syntax is Syntax.PLAIN:
                continue
            following = string[number + 1 : number + 2]
            is_quoting = following in ("{", "}", "#", "'") or (not following and is_at_end)
            is_after_span = number > 0 and translation.origin[number - 1] < line_length
            may_continue = is_after_span and string[number - 1] == "'"
            if self.has_doubled or is_quoting or may_continue:
                pieces[number] = _DOUBLED
        return translation.respell(pieces)
