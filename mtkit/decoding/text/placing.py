"""Put spans and terms into a translation, where the alignment of its words says.

The alignment is the attention of the model, sharpened by Sinkhorn's iteration (see `sharpen`). From
it follow three kinds of places:

- A stand-in or a term becomes a text: the target token that is aligned to it best is replaced.
- A pair of tags surrounds the target tokens that are aligned to the tokens between the tags.
- A lone tag stands where the fewest links cross it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

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
        inserting = _Inserting(units, read, tokens)
        inserting.insert(tags, range(len(units)))
        string = translation.string
        ends = [0, *(unit.end for unit in units)]
        starts = [*(unit.start for unit in units), len(string)]
        for number, gap in inserting.gaps.items():
            start = ends[number]
            end = starts[number]
            before = string[:start][-1:]
            after = string[end : end + 1]
            new = _fill(gap, string[start:end], before, after, line)
            edits.append(Edit(start, end, new))
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
        belongs: list[bool] = []  # whether a token is aligned nearly as well as the best one
        for token, weight in enumerate(weights):
            is_heavy = weight >= MIN_WEIGHT * weights[best]
            belongs.append(is_heavy and self._nearest[token] in sources)
        first = best
        while first > 0 and belongs[first - 1]:
            first -= 1
        end = best + 1
        while end < len(belongs) and belongs[end]:
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
        letter = new.string[0]
        replaces_capital = is_capital(self._token(first)[0])
        if not (demand.takes_case and replaces_capital and is_small(letter)):
            return new
        if not self._begins_sentence(first):
            return new
        # A string for each character, because a capital may be longer than its letter, such as ß.
        return new.respell([title_case(letter), *new.string[1:]])

    def _begins_sentence(self, token: int) -> bool:
        """Return whether a sentence may begin with a token."""
        if token == 0:
            return True
        before = self._token(token - 1)
        return is_sign(before[0]) and before not in WITHIN_SENTENCE

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


@dataclass
class _Gap:
    """The tags that are inserted between two units, in order."""

    closing: list[Demand] = field(default_factory=list)
    """Those that stand directly after the unit before them."""
    others: list[Demand] = field(default_factory=list)
    """Those that have spaces around them as in the line."""
    opening: list[Demand] = field(default_factory=list)
    """Those that stand directly before the unit after them."""

    def close(self, tag: Demand) -> None:
        """Add the last tag of a pair."""
        tags = self.others or self.closing
        tags.append(tag)

    def add(self, tag: Demand) -> None:
        """Add a lone tag, before which an opening tag no longer stands before a unit."""
        self.others += self.opening
        self.others.append(tag)
        self.opening = []


class _Inserting:
    """Finds the places of tags between units, so that pairs stay well-formed."""

    def __init__(self, units: Sequence[_Unit], read: Text, tokens: AlignedTokens) -> None:
        self.gaps: dict[int, _Gap] = defaultdict(_Gap)
        """What is inserted before unit n; after the last one, if n is their number."""
        self._units = units
        self._read = read
        self._source = tokens.source
        self._weights = tokens.weights

    def insert(self, tags: Sequence[Demand], area: range) -> None:
        """Insert tags between the units of an area.

        A tag stays within the pair of tags around it in the line, and outside of all others.
        """
        free = set(area)  # units within no pair
        taken: set[int] = set()  # gaps within a pair
        pairs: dict[int, tuple[Sequence[Demand], range]] = {}  # by their first gaps
        lone: list[Sequence[Demand]] = []
        for run in _split_into_runs(tags):
            units = self._find_units(run, free)
            if units is None:
                lone.append(run)
                continue
            pairs[units.start] = (run, units)
            free.difference_update(units)
            taken.update(units[1:])
        lone_by_gap: dict[int, list[Demand]] = defaultdict(list)
        for run in lone:
            lone_by_gap[self._find_gap(run[0], area, taken)] += run
        gap = area.start
        while gap <= area.stop:
            for tag in lone_by_gap[gap]:
                self.gaps[gap].add(tag)
            if gap not in pairs:
                gap += 1
                continue
            run, units = pairs[gap]
            self.gaps[gap].opening.append(run[0])
            self.insert(run[1:-1], units)
            gap = units.stop
            self.gaps[gap].close(run[-1])

    def _find_units(self, run: Sequence[Demand], free: Collection[int]) -> range | None:
        """Return the units that a pair surrounds; None if that is unknown, or the tag is lone.

        They are free, and most of them are aligned to what is between the tags in the line.
        """
        sources = _tokens_between(run[0].end, run[-1].start, self._read, self._source)
        if len(run) == 1 or not sources:
            return None
        scores: list[int | None] = []
        for number, unit in enumerate(self._units):
            score = 1 if unit.source in sources else -1
            scores.append(score if number in free else None)
        return _find_densest(scores) or self._find_best(sources, free)

    def _find_best(self, sources: range, free: Collection[int]) -> range | None:
        """Return the free unit that is aligned best to the sources; None: that is unknown.

        Of equal units, it is the one whose own source token is nearest to the first of them.
        """
        if self._weights is None or not free:
            return None
        weights = self._weights[:, sources.start : sources.stop].sum(axis=1).round(WEIGHT_DIGITS)

        def fit(number: int) -> tuple[float, int]:
            unit = self._units[number]
            return float(weights[unit.token]), -abs(unit.source - sources.start)

        best = max(sorted(free), key=fit)
        return range(best, best + 1)

    def _find_gap(self, tag: Demand, area: range, taken: Collection[int]) -> int:
        """Return the gap of an area that separates best what stands before and after a tag.

        The fewest units are on the wrong side; or the most, where both sides have changed places.
        """
        place, _ = self._read.find(tag.start, tag.end)
        tag_token = self._source.count_starts(place)
        # At the first gap all units are after it, so those aligned before the tag are misplaced.
        misplaced = sum(self._units[unit].source < tag_token for unit in area)
        best = area.start
        fewest = min(misplaced, len(area) - misplaced)
        for unit in area:
            misplaced += 1 if self._units[unit].source >= tag_token else -1
            mixed = min(misplaced, len(area) - misplaced)
            if mixed < fewest and unit + 1 not in taken:
                best = unit + 1
                fewest = mixed
        return best


def _split_into_runs(tags: Sequence[Demand]) -> Iterator[Sequence[Demand]]:
    """Yield each lone tag, and each pair with the tags between its two."""
    last_places = {tag.pair: place for place, tag in enumerate(tags)}
    start = 0
    while start < len(tags):
        pair = tags[start].pair
        last = start if pair is None else last_places[pair]
        yield tags[start : last + 1]
        start = last + 1


def _fill(gap: _Gap, spaces: str, before: str, after: str, line: str) -> Text:
    """Return the text of a gap in which tags are inserted.

    `spaces`: what is there. `before`, `after`: the characters beside it; "" at the ends.
    """
    tags = [*gap.closing, *gap.others, *gap.opening]
    # The spaces come from where the first tag stands.
    between = [Text.from_one(spaces, tags[0].start)]
    if gap.others:
        between = list(_space_out(gap.others, spaces, before, after, line))
    closing = [tag.new_text() for tag in gap.closing]
    opening = [tag.new_text() for tag in gap.opening]
    return concatenate([*closing, *between, *opening])


def _space_out(
    tags: Sequence[Demand], spaces: str, before: str, after: str, line: str
) -> Iterator[Text]:
    """Yield tags, and the spaces around and between them; the arguments are as in `_fill`."""
    line = f" {line}."  # a tag at the beginning stands apart, and one at the end need not
    is_beside_unspaced = any(map(UNSPACED.match, (before, after)))
    may_have_spaces = bool(spaces) or not is_beside_unspaced
    first, last = tags[0], tags[-1]
    if before and may_have_spaces and _stands_apart(first, line[first.start], before):
        yield Text.from_one(" ", first.start)
    for tag in tags:
        yield tag.new_text()
        following = line[tag.end + 1]
        is_apart = is_space(following)
        if tag is last:
            is_before_word = bool(after) and (bool(spaces) or not is_sign(after))
            is_apart = is_before_word and may_have_spaces and _stands_apart(tag, following, after)
        if is_apart:
            yield Text.from_one(" ", tag.start)


def _stands_apart(tag: Demand, beside_in_line: str, beside: str) -> bool:
    """Return whether a space belongs between a tag or span and the character beside it.

    There is one in the line; or a span would touch a word that it does not touch there.
    """
    if is_space(beside_in_line):
        return True
    is_span = bool(tag.stand_in)
    return is_span and is_word_character(beside) and not is_word_character(beside_in_line)
