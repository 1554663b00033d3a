"""What a translation must have in its place: spans that stay as they are, and terms of a glossary.

A step finds demands in the line, by its offsets. In the text, it puts a `MARK` in place of a span,
which stands for it in all later steps. The model reads a stand-in for the mark, or nothing, and
`placing.py` puts the span where the alignment says.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.corpus.characters import is_space, is_word_character
from mtkit.decoding.text.text import Edit, Text

MARK = "\ufdd4"
"""Stands for a span of the line. Unicode reserves this character (a noncharacter, section 23.7) for
the inside of a program, so a text that has it is faulty, and loses it."""
MAX_MARKS_IN_A_ROW = 64
"""Most marks next to each other, behind which the next character is looked for."""
MAX_LOOKED_FOR = 1000
"""Most different texts that are looked for in a translation in which they were not placed."""


@dataclass(frozen=True)
class Demand:
    """A text that must stand where the translation of a range of the line does."""

    start: int
    end: int
    """The range: offsets in the normalised line."""
    text: str
    """What the translation must have."""
    stand_in: str | None = None
    """What the model reads for the range: "" for nothing; None: the words of the line."""
    pair: int | None = None
    """The number of a pair of tags; the first tag opens it, and the second one closes it."""

    is_placed: bool = True
    """Whether the text is put into the translation; else it is only looked for there."""
    takes_case: bool = False
    """Whether the text gets a capital at the start of a sentence."""

    @property
    def is_term(self) -> bool:
        """Whether a glossary demands it, so that the words of the line are translated."""
        return self.stand_in is None

    def count_in(self, translation: str, most: int = 1) -> int:
        """Return how often a translation has what is demanded; a term is counted up to `most`."""
        return translation.count(self.text)

    def new_text(self) -> Text:
        """Return what is put into a translation: its characters come from the range, in order."""
        length = self.end - self.start
        size = len(self.text)
        return Text(self.text, [self.start + place * length // size for place in range(size)])


def demands_within(text: Text, demands: Sequence[Demand]) -> Sequence[Demand]:
    """Return the demands that belong to a text, which is a part of the line."""
    if not demands or not text.string:
        return ()
    first = bisect_left(demands, text.origin[0], key=lambda demand: demand.end - 1)
    last = bisect_left(demands, text.origin[-1] + 1, key=lambda demand: demand.start)
    return demands[first:last]


def show_marks(text: Text, demands: Sequence[Demand]) -> Text:
    """Return a text that is copied, with the spans in place of their marks."""
    edits: list[Edit] = []
    for demand in demands_within(text, demands):
        place = _find_mark(text, demand)
        if place >= 0:
            edits.append(Edit(place, place + 1, demand.new_text()))
    return text.replace(edits)


def _find_mark(text: Text, demand: Demand) -> int:
    """Return where a text has the mark of a demand; -1 if it has none.

    A space that joins two parts of the line may have the origin of the mark beside it.
    """
    return text.string.find(MARK, *text.find(demand.start, demand.end))


def show_stand_ins(text: Text, demands: Sequence[Demand]) -> Text:
    """Return a text as the model reads it: with stand-ins in place of the marks.

    A mark without a stand-in takes one of two spaces around it along. Between two words it leaves a
    space, unless it is one of a pair: <b>n</b>ames.
    """
    edits: list[Edit] = []
    last_end = 0
    before = " "  # the character before the mark, without the marks next to it
    for demand in demands:
        start = _find_mark(text, demand)
        if demand.stand_in is None or start < 0:
            continue
        end = start + 1
        if start > last_end:
            before = text.string[start - 1]
        stand_in = demand.stand_in
        if not stand_in:
            after = text.string[end : end + MAX_MARKS_IN_A_ROW].lstrip(MARK)[:1] or " "
            is_between_words = is_word_character(before) and is_word_character(after)
            if is_between_words and demand.pair is None:
                stand_in = " "
            elif is_space(before) and is_space(after):
                # Of marks next to each other, the last one takes the space after them.
                end += text.string[end : end + 1] == after
        edits.append(Edit(start, end, Text.from_one(stand_in, demand.end - 1)))
        last_end = end
        before = stand_in[-1:] or before
    return text.replace(edits)


def find_unmet(demands: Sequence[Demand], translation: Text) -> list[Demand]:
    """Return the demands that a translation does not meet.

    Of equal demands, it meets as many as it has the text.
    """
    placed = set(translation.origin)
    needed = Counter((demand.text, demand.is_term) for demand in demands)
    missing: dict[tuple[str, bool], int] = {}
    unmet: list[Demand] = []
    for demand in demands:
        # A term may stand in what is copied from the line, and its target not.
        if demand.end - 1 in placed and not demand.is_term:
            continue
        kind = (demand.text, demand.is_term)
        if kind not in missing:
            if len(missing) == MAX_LOOKED_FOR:
                continue
            missing[kind] = needed[kind] - demand.count_in(translation.string, needed[kind])
        if missing[kind] > 0:
            missing[kind] -= 1
            unmet.append(demand)
    return unmet
