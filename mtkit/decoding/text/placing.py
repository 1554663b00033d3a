"""Put spans and terms into a translation, where the alignment of its words says.

The alignment is the attention of the model, sharpened by Sinkhorn's iteration (see `sharpen`). From
it follow three kinds of places:

- A stand-in or a term becomes a text: the target token that is aligned to it best is replaced.
- A pair of tags surrounds the target tokens that are aligned to the tokens between the tags.
- A lone tag stands where the fewest links cross it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from mtkit.corpus.characters import (
    is_capital,
    is_sign,
    is_small,
    is_space,
    is_word_character,
    title_case,
)
from mtkit.decoding.text.demands import Demand
from mtkit.decoding.text.text import Edit, Text, concatenate
from mtkit.decoding.text.words import UNSPACED, WITHIN_SENTENCE, Words, tokens_of

if TYPE_CHECKING:  # few translations need numpy; importing it takes as long as all else
    import numpy as np
    from jaxtyping import Float


SHARPNESS = 3.0
ROUNDS = 10
"""Chosen on 1,455 nouns of Multi30k with a known translation: the best token is that translation
for 94 % of them, and for 75 % by the attention as it is (configs/RESULTS.md)."""
MIN_WEIGHT = 0.5
"""Tokens beside the best one are replaced with it if they have this share of its weight."""
WEIGHT_DIGITS = 2
"""Weights that are equal up to so many decimals are equally good."""
MIN_LEFT_OVER_WEIGHT = 0.3
"""The same for a token that no other source token needs."""


@dataclass(frozen=True)
class AlignedTokens:
    """The tokens of a text that the model has read, and of its translation."""

    source: Words
    target: Words
    weights: Float[np.ndarray, "J I"] | None
    """How well each target token is aligned to each source token; None: unknown."""

    def nearest(self) -> list[int]:
        """Return for each target token the source token that it is aligned to best.

        If the alignment is unknown, return the one at the same place of its text.
        """
        if self.weights is not None:
            nearest: list[int] = self.weights.argmax(axis=1).tolist()
            return nearest
        source = max(1, len(self.source.ranges))
        target = len(self.target.ranges)
        return [number * source // target for number in range(target)]


def align_tokens(
    read: str,
    written: str,
    attention: Float[np.ndarray, "T S"] | None,
    source_offsets: Sequence[int],
    target_offsets: Sequence[int],
) -> AlignedTokens:
    """Align the tokens of both texts by the attention of T target to S source subwords.

    `source_offsets`, `target_offsets`: the offset of the last character of each subword.
    """
    source = Words(tokens_of(read))
    target = Words(tokens_of(written))
    if attention is None or not (source_offsets and source.ranges and target.ranges):
        return AlignedTokens(source, target, None)
    from mtkit.decoding.alignment import merge, sharpen

    weights = merge(
        attention,
        target_words=[target.at(offset) for offset in target_offsets],
        source_words=[source.at(offset) for offset in source_offsets],
    )
    return AlignedTokens(source, target, sharpen(weights, power=SHARPNESS, rounds=ROUNDS))


class _Unit(NamedTuple):
    """A target token, or the text that has replaced some of them."""

    start: int
    end: int
    """Characters of the translation."""
    source: int
    """The source token that it is aligned to best."""
    token: int
    """Its first target token."""


def place_demands(
    translation: Text,
    *,
    line: str,
    read: Text,
    demands: Sequence[Demand],
    tokens: AlignedTokens,
    begin: int = 0,
) -> Text:
    """Return the translation with all demanded spans, and with those terms that have a place.

    `line`: the normalised line. `read`: what the model has read. `begin`: the length of a prefix,
    in which nothing is replaced.
    """
    replacing = _Replacing(translation, read, tokens, begin)
    tags = [demand for demand in demands if not replacing.replace(demand)]
    edits = replacing.edits
    if tags:
        units = replacing.units()
        gaps = _Inserting(units, read, tokens).find_gaps(tags)
        edits += _fill_gaps(gaps, units, translation.string, line)
    return translation.replace(sorted(edits, key=lambda edit: (edit.start, edit.end)))


class _Replacing:
    """Puts spans and terms in the place of target tokens."""

    def __init__(self, translation: Text, read: Text, tokens: AlignedTokens, begin: int) -> None:
        self.edits: list[Edit] = []
        self._translation = translation
        self._read = read
        self._source = tokens.source
        self._ranges = tokens.target.ranges
        self._weights = tokens.weights
        self._nearest = tokens.nearest()
        self._first = sum(start < begin for start, _ in self._ranges)
        """The first token after the prefix."""
        self._units: dict[int, _Unit] = {}
        """The units that have replaced tokens, by these tokens."""

    def replace(self, demand: Demand) -> bool:
        """Meet a demand that replaces words; return False if a text has to be inserted for it."""
        if demand.stand_in == "":
            return False
        sources = _tokens_between(demand.start, demand.end, self._read, self._source)
        window = self._find_copy(demand, sources) or self._find_aligned(sources)
        if window is None:
            return demand.is_term  # a term without a place is not inserted
        start = self._ranges[window[0]][0]
        end = self._ranges[window[-1]][1]
        unit = _Unit(start, end, sources.start, window[0])
        self._units.update(dict.fromkeys(window, unit))
        replaced = self._translation.string[start:end]
        if not (demand.is_term and demand.count_in(replaced)):
            self.edits.append(Edit(start, end, self._fit_case(demand, window[0])))
        return True

    def _find_copy(self, demand: Demand, sources: range) -> range | None:
        """Return the token that is a copy of the stand-in, whatever it is aligned to."""
        copies = [
            token
            for token in range(self._first, len(self._ranges))
            if token not in self._units and self._token(token) == demand.stand_in
        ]
        aligned = [token for token in copies if self._nearest[token] in sources]
        chosen = (aligned or copies)[:1]
        return range(chosen[0], chosen[0] + 1) if chosen else None

    def _find_aligned(self, sources: range) -> range | None:
        """Return the tokens that are aligned to the sources; None: the alignment is unknown."""
        if self._weights is None or not sources:
            return None
        weights: list[float] = self._weights[:, sources.start : sources.stop].sum(axis=1).tolist()
        for token in range(len(weights)):
            if not self._may_replace(token, sources):
                weights[token] = 0.0
        best = max(range(len(weights)), key=lambda token: weights[token])
        if weights[best] == 0.0 or self._nearest[best] not in sources:
            return None
        first = best
        while first > 0 and self._belongs(first - 1, sources, weights, best):
            first -= 1
        end = best + 1
        while end < len(weights) and self._belongs(end, sources, weights, best):
            end += 1
        if end < len(weights) and self._is_left_over(end, weights, best):
            end += 1
        return range(first, end)

    def _may_replace(self, token: int, sources: range) -> bool:
        """Return whether a token may be replaced: a sign only if the sources have it."""
        if token < self._first or token in self._units:
            return False
        written = self._token(token)
        start = self._source.ranges[sources.start][0]
        end = self._source.ranges[sources.stop - 1][1]
        return not is_sign(written[0]) or written in self._read.string[start:end]

    def _belongs(self, token: int, sources: range, weights: Sequence[float], best: int) -> bool:
        """Return whether a token is aligned to the sources nearly as well as the best one."""
        return self._nearest[token] in sources and weights[token] >= MIN_WEIGHT * weights[best]

    def _is_left_over(self, token: int, weights: Sequence[float], best: int) -> bool:
        """Return whether a token is the best one of no source token, and partly of these sources.

        An article may take the alignment of its noun, which is then left over: for "Man sits",
        "Ein" of "Ein Mann sitzt" is aligned to "Man", and "Mann" to both words, but best to none.
        """
        assert self._weights is not None
        is_best = token in self._weights.argmax(axis=0)
        return not is_best and weights[token] > MIN_LEFT_OVER_WEIGHT * weights[best]

    def _token(self, number: int) -> str:
        start, end = self._ranges[number]
        return self._translation.string[start:end]

    def _fit_case(self, demand: Demand, first: int) -> Text:
        """Return the text of a demand; a term gets the capital of a word that begins a sentence."""
        new = demand.new_text()
        before = self._token(first - 1) if first > 0 else ""
        begins_sentence = not before or (is_sign(before[0]) and before not in WITHIN_SENTENCE)
        is_capitalised = begins_sentence and is_capital(self._token(first)[0])
        if demand.takes_case and is_capitalised and is_small(new.string[0]):
            # One string for each character: a capital may be longer than its letter, such as ß.
            return new.respell([title_case(new.string[0]), *new.string[1:]])
        return new

    def units(self) -> list[_Unit]:
        """Return the tokens, and what has replaced some of them, in order."""
        units: list[_Unit] = []
        for token, (start, end) in enumerate(self._ranges):
            unit = self._units.get(token) or _Unit(start, end, self._nearest[token], token)
            if not units or units[-1] is not unit:
                units.append(unit)
        return units


def _tokens_between(start: int, end: int, read: Text, source: Words) -> range:
    """Return the source tokens that come from the offsets `start` to `end` of the line."""
    first, last = read.find(start, end)
    return range(source.count_ends(first), source.count_starts(last))


def _find_densest(scores: Sequence[int | None]) -> range | None:
    """Return the range with the largest sum; None: no sum is positive. No range has a None.

    This is Kadane's algorithm, which reads each score once.
    """
    best: range | None = None
    best_total = 0
    start = 0
    total = 0
    for place, score in enumerate(scores):
        if score is None or total + score <= 0:
            start = place + 1
            total = 0
            continue
        total += score
        if total > best_total:
            best = range(start, place + 1)
            best_total = total
    return best


class _Insertion(NamedTuple):
    """A span that is inserted between two units."""

    demand: Demand
    side: Literal["opening", "closing", "lone"] = "lone"


Gaps = Mapping[int, Sequence[_Insertion]]
"""What is inserted before unit n, in order; after the last one, if n is their number."""


@dataclass(frozen=True, eq=False)
class _Area:
    """The units within a pair of tags; or all units, within no pair."""

    units: range
    tags: tuple[Demand, ...] = ()
    lone: dict[int, list[Demand]] = field(default_factory=lambda: defaultdict(list))
    """Lone tags that stand here, but in no pair within this one, by their gap."""
    inner: dict[int, _Area] = field(default_factory=dict)
    """The pairs within this one, by their first gap."""
    taken: set[int] = field(default_factory=set)
    """The gaps that are within one of these pairs."""


class _Inserting:
    """Finds the place of tags between units, so that pairs stay well-formed."""

    def __init__(self, units: Sequence[_Unit], read: Text, tokens: AlignedTokens) -> None:
        self._units = units
        self._read = read
        self._source = tokens.source
        self._weights = tokens.weights
        self._outermost = _Area(range(len(units)))
        self._area_of_unit = [self._outermost] * len(units)
        """The innermost area in which a unit is."""

    def find_gaps(self, demands: Sequence[Demand]) -> Gaps:
        """Return what is inserted in each gap.

        A tag stays within the pair of tags around it in the line, and outside of all others.
        """
        areas = self._open_pairs(demands)
        self._place_lone(demands, areas)
        gaps: dict[int, list[_Insertion]] = defaultdict(list)
        _list_in_order(self._outermost, gaps)
        return gaps

    def _open_pairs(self, demands: Sequence[Demand]) -> dict[int, _Area]:
        """Nest the areas of pairs that have units; return them by the numbers of the pairs."""
        last_tags = {demand.pair: demand for demand in demands}
        areas: dict[int, _Area] = {}
        outer = [self._outermost]
        for demand in demands:
            last = last_tags[demand.pair]
            if demand.pair is None:
                continue
            if demand.pair in areas:
                outer.pop()
            elif last is not demand and (area := self._open(demand, last, outer[-1])):
                areas[demand.pair] = area
                outer.append(area)
        return areas

    def _open(self, first: Demand, last: Demand, outer: _Area) -> _Area | None:
        """Return the area between two tags; None if no unit is aligned to what is between them."""
        sources = _tokens_between(first.end, last.start, self._read, self._source)
        scores: list[int | None] = []
        for unit, area in zip(self._units, self._area_of_unit, strict=True):
            score = 1 if unit.source in sources else -1
            scores.append(score if area is outer else None)
        units = _find_densest(scores) or self._find_best(sources, outer)
        if units is None:
            return None
        inner = _Area(units, (first, last))
        for number in units:
            self._area_of_unit[number] = inner
        outer.inner[units.start] = inner
        outer.taken.update(units[1:])
        return inner

    def _find_best(self, sources: range, area: _Area) -> range | None:
        """Return the unit of an area that is aligned best to the sources; None: that is unknown.

        Of equal units, it is the one whose own source token is nearest to the first of them.
        """
        if self._weights is None or not sources:
            return None
        weights = self._weights[:, sources.start : sources.stop].sum(axis=1).round(WEIGHT_DIGITS)
        best: int | None = None
        best_fit = (0.0, 0)
        for number, unit in enumerate(self._units):
            fit = (float(weights[unit.token]), -abs(unit.source - sources.start))
            if self._area_of_unit[number] is area and (best is None or fit > best_fit):
                best = number
                best_fit = fit
        return None if best is None else range(best, best + 1)

    def _place_lone(self, demands: Sequence[Demand], areas: Mapping[int, _Area]) -> None:
        """Give each tag that bounds no area a gap.

        From the first to the last tag of a pair without units, all have the same one.
        """
        last_tags = {demand.pair: demand for demand in demands}
        outer = [self._outermost]
        gap = 0
        until: Demand | None = None  # the last tag of a pair without units
        for demand in demands:
            area = areas.get(demand.pair) if demand.pair is not None else None
            if area is not None and area is outer[-1]:  # its closing tag
                outer.pop()
            elif area is not None:
                outer.append(area)
            else:
                if until is None:
                    gap = self._find_gap(demand, outer[-1])
                    until = None if demand.pair is None else last_tags[demand.pair]
                outer[-1].lone[gap].append(demand)
                if demand is until:
                    until = None

    def _find_gap(self, demand: Demand, area: _Area) -> int:
        """Return the gap of an area that separates best what stands before and after a tag.

        The fewest units are on the wrong side; or the most, where both sides have changed places.
        """
        place, _ = self._read.find(demand.start, demand.end)
        tag_token = self._source.count_starts(place)
        # At the first gap all units are after it, so those aligned before the tag are misplaced.
        misplaced = sum(self._units[unit].source < tag_token for unit in area.units)
        best = area.units.start
        fewest = min(misplaced, len(area.units) - misplaced)
        for unit in area.units:
            misplaced += 1 if self._units[unit].source >= tag_token else -1
            mixed = min(misplaced, len(area.units) - misplaced)
            if mixed < fewest and unit + 1 not in area.taken:
                best = unit + 1
                fewest = mixed
        return best


def _list_in_order(area: _Area, gaps: dict[int, list[_Insertion]]) -> None:
    """Add the tags within an area to their gaps, in the order in which they stand there."""
    gap = area.units.start
    while gap <= area.units.stop:
        gaps[gap] += [_Insertion(demand) for demand in area.lone[gap]]
        inner = area.inner.get(gap)
        if inner is None:
            gap += 1
            continue
        first, last = inner.tags
        gaps[gap].append(_Insertion(first, "opening"))
        _list_in_order(inner, gaps)
        gap = inner.units.stop
        gaps[gap].append(_Insertion(last, "closing"))


def _fill_gaps(gaps: Gaps, units: Sequence[_Unit], translation: str, line: str) -> Iterator[Edit]:
    """Yield the text of each gap in which something is inserted.

    Closing tags stand directly after the unit before them, and opening tags before the unit after
    them. Other tags have spaces around them as they have in the line.
    """
    ends = [0, *(unit.end for unit in units)]
    starts = [*(unit.start for unit in units), len(translation)]
    for gap, insertions in gaps.items():
        if not insertions:
            continue
        start, end = ends[gap], starts[gap]
        first = 0
        while first < len(insertions) and insertions[first].side == "closing":
            first += 1
        last = len(insertions)
        while last > first and insertions[last - 1].side == "opening":
            last -= 1
        lone = [insertion.demand for insertion in insertions[first:last]]
        texts = [insertion.demand.new_text() for insertion in insertions]
        between = Text.from_one(translation[start:end], texts[0].origin[0])
        if lone:
            between = _space_out(lone, between, translation[:start], translation[end:], line)
        yield Edit(start, end, concatenate([*texts[:first], between, *texts[last:]]))


def _space_out(lone: Sequence[Demand], gap: Text, before: str, after: str, line: str) -> Text:
    """Return lone tags with spaces as in the line.

    `gap`: the spaces that are there. `before`, `after`: the translation on both sides.
    """
    # Whether a neighbour is of a script without spaces.
    is_unspaced = any(UNSPACED.match(side) for side in (before[-1:], after))
    needs_spaces = bool(gap.string) or not is_unspaced
    texts: list[Text] = []
    for number, demand in enumerate(lone):
        is_first = number == 0
        is_last = number == len(lone) - 1
        space = Text.from_one(" ", demand.start)
        previous = line[demand.start - 1 : demand.start] or " "
        following = line[demand.end : demand.end + 1]
        if is_first and before and needs_spaces and _stands_apart(demand, previous, before[-1]):
            texts.append(space)
        texts.append(demand.new_text())
        is_before_word = bool(after) and (bool(gap.string) or not is_sign(after[0]))
        is_apart = bool(following) and is_space(following)
        if is_last:
            is_apart = (
                is_before_word and needs_spaces and _stands_apart(demand, following, after[0])
            )
        if is_apart:
            texts.append(space)
    return concatenate(texts)


def _stands_apart(demand: Demand, beside_in_line: str, beside: str) -> bool:
    """Return whether a space belongs between a tag or span and the character beside it.

    There is one in the line; or a span would touch a word that it does not touch there.
    """
    if beside_in_line and is_space(beside_in_line):
        return True
    is_span = bool(demand.stand_in)
    touches_word = bool(beside_in_line) and is_word_character(beside_in_line)
    return is_span and is_word_character(beside) and not touches_word
