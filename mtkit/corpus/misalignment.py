"""Do the lines of two files still belong together, and if not, from which line on?

What is noted of each line is its length, its marks (how it ends, digits, commas, quotes) and some
bits for its words. How these go together in a pair is learnt from the corpus itself: the log of how
much likelier two values are in a pair than by chance. Then dynamic programming finds the shifts
(line n of the source belongs to line n + shift of the target) that explain all lines best, where
each change of shift costs what chance can hardly pay.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

SHIFTS = 12
"""Lines that one side may be ahead of the other, at most."""
BLOCK = 8
"""Lines that are judged together, before the line is looked for."""
LEVELS = 8
"""Lengths are told apart by so many quantiles."""
CHANGE_COST = 25.0
"""Nats: a change of shift that is none is taken for one in e^-25 of all places."""
MIN_LINES, MIN_OWN_LINES = 200, 4 * BLOCK
"""Fewer lines do not tell what goes together: in a corpus, and by itself in a passage of one."""
OWN_SHARE = 0.5
"""Of what a shift explains, lines in order explain more where the shift only seems to."""
CHANCE = 3.0
"""Nats, times the square root of lines: what chance may seem to explain of each."""
UNRELATED = -0.2
"""Nats a line, below which lines belong to none near them, however free the translation."""
PRIOR = 50.0
"""Pairs by chance that are added to what is counted."""
SAMPLE_LINES = 100_000
"""Lines, from the first, that tell whether anything goes together."""

_QUOTES = '"“”„‟«»「」『』＂'
_CLOSING = " \t\"'“”„«»‹›’‘)]}）】］」』》*_"
_QUESTION = "?？؟;՞፧⸮"
_STATEMENT = ".。．｡!！…।॥|։።۔:：;；"
_ENDINGS = {"?": 0, ".": 1, "-": 2}
MARKS = len(_ENDINGS) * 8
MOST_SHARED = 7
_WORD = re.compile(r"\w{3,}|\d+")
_COMMA = re.compile("[,，、;؛،]")
_DIGIT = re.compile(r"\d")
_QUOTE = re.compile(f"[{_QUOTES}]")

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]


class LineFeatures:
    """What is noted of each line of one side: 11 bytes."""

    def __init__(self) -> None:
        self._lengths: list[NDArray[np.uint16]] = []
        self._marks: list[NDArray[np.uint8]] = []
        self._words: list[NDArray[np.uint64]] = []

    def add(self, lines: Sequence[str]) -> None:
        count = len(lines)
        lengths = (min(len(line), 65_535) for line in lines)
        self._lengths.append(np.fromiter(lengths, np.uint16, count))
        self._marks.append(np.fromiter(map(_marks, lines), np.uint8, count))
        self._words.append(np.fromiter(map(_words, lines), np.uint64, count))

    def lengths(self) -> NDArray[np.uint16]:
        """(n,) in characters."""
        return np.concatenate(self._lengths or [np.empty(0, np.uint16)])

    def newest(self) -> NDArray[np.uint16]:
        """Lengths of the lines that were added last."""
        return self._lengths[-1]

    def levels(self) -> NDArray[np.uint8]:
        """(n,) the quantile of each length, below LEVELS."""
        lengths = self.lengths()
        bounds = np.quantile(lengths, np.arange(1, LEVELS) / LEVELS)
        return np.asarray(np.searchsorted(bounds, lengths), np.uint8)

    def marks(self) -> NDArray[np.uint8]:
        """(n,) below MARKS."""
        return np.concatenate(self._marks)

    def words(self) -> NDArray[np.uint64]:
        """(n,) bits."""
        return np.concatenate(self._words)


def _marks(line: str) -> int:
    digit, comma, quote = (pattern.search(line) is not None for pattern in (_DIGIT, _COMMA, _QUOTE))
    return _ENDINGS[_ending(line)] * 8 + digit * 4 + comma * 2 + quote


def _ending(text: str) -> str:
    """How a line ends: as a question (?), a statement (.), or otherwise (-)."""
    last = text.rstrip(_CLOSING)[-1:]
    return "?" if last in _QUESTION and last else "." if last in _STATEMENT and last else "-"


def _words(line: str) -> int:
    """A bit of 64 for the beginning of each word: names, numbers and kindred words are alike."""
    bits = 0
    for word in _WORD.findall(line.casefold()):
        bits |= 1 << (crc32(word[:4].encode(errors="replace")) & 63)
    return bits


@dataclass(frozen=True)
class Passage:
    """Lines of the source, and where their translations are."""

    first: int
    """Counted from 0."""
    count: int
    shift: int | None
    """Line n belongs to line n + shift of the target; None: to none near it."""


def find_passages(source: LineFeatures, target: LineFeatures) -> list[Passage]:
    """All lines, in passages of one shift each: one of shift 0 where all is in order.

    Fewer than MIN_LINES tell nothing, and are taken to be in order.
    """
    lines = len(source.lengths())
    if lines < MIN_LINES:
        return [Passage(0, lines, 0)]
    evidence = _Evidence(source, target)
    known = evidence.of_shifts(0, lines)
    best = max(known, key=lambda shift: (known[shift], -abs(shift)))
    # Where all lines end alike every shift explains as much: half of them are taken for chance.
    if known[best] - statistics.median(known.values()) <= CHANCE * lines**-0.5:
        return [Passage(0, lines, None)]
    evidence.learn(*evidence.pairs(best, 0, lines))
    for _ in range(2):  # what goes together is known better once it is known where
        found = _explained(evidence, lines)
        parts = [evidence.pairs(p.shift, p.first, p.count) for p in found if p.shift is not None]
        ours, theirs = (np.concatenate(side) for side in zip(*parts, strict=True))
        evidence.learn(ours, theirs)
    return _in_order(evidence, found)


class _Evidence:
    """Of two lines, whether they are a pair: the log of how much likelier that is than chance."""

    def __init__(self, source: LineFeatures, target: LineFeatures) -> None:
        self._levels = source.levels(), target.levels()
        self._marks = source.marks(), target.marks()
        self._words = source.words(), target.words()
        self.lines = len(self._words[0])

    def pairs(self, shift: int, first: int, count: int) -> tuple[Rows, Rows]:
        """Lines of source and target that are pairs under this shift, where both are there."""
        rows = np.arange(max(first, -shift), min(first + count, self.lines - shift))
        return rows, rows + shift

    def learn(self, ours: Rows, theirs: Rows) -> None:
        """What goes together, from lines of source and target that are taken for pairs."""
        self._of_levels = _association(self._levels, ours, theirs, LEVELS)
        self._of_marks = _association(self._marks, ours, theirs, MARKS)
        shared = self._shared(ours, theirs)
        chance = self._shared(ours, np.roll(theirs, len(theirs) // 3 + SHIFTS))
        expected = (np.bincount(chance, minlength=MOST_SHARED + 1) + 1) / (len(chance) + 8)
        counted = np.bincount(shared, minlength=MOST_SHARED + 1)
        self._of_words = _log_odds(counted, expected)

    def of(self, ours: Rows, theirs: Rows) -> Floats:
        """(k,) in nats, of k pairs of lines."""
        return np.asarray(
            self._of_levels[self._levels[0][ours], self._levels[1][theirs]]
            + self._of_marks[self._marks[0][ours], self._marks[1][theirs]]
            + self._of_words[self._shared(ours, theirs)]
        )

    def of_shifts(self, first: int, count: int) -> dict[int, float]:
        """What each shift explains of these lines."""
        every = range(-SHIFTS, SHIFTS + 1)
        return {shift: self.information(shift, first, count) for shift in every}

    def information(self, shift: int, first: int, count: int) -> float:
        """Nats a line that this shift explains: learnt from half of the lines, asked of others."""
        ours, theirs = self.pairs(shift, first, min(count, SAMPLE_LINES))
        half = ours // BLOCK % 2 == 0
        self.learn(ours[half], theirs[half])
        return float(self.of(ours[~half], theirs[~half]).mean())

    def _shared(self, ours: Rows, theirs: Rows) -> NDArray[np.uint8]:
        both = np.bitwise_count(self._words[0][ours] & self._words[1][theirs])
        return np.asarray(np.minimum(both, MOST_SHARED))


def _association(
    sides: tuple[NDArray[np.uint8], NDArray[np.uint8]], ours: Rows, theirs: Rows, kinds: int
) -> Floats:
    """(kinds, kinds) log odds of a kind on one side and a kind on the other."""
    one, two = sides[0][ours].astype(np.int64), sides[1][theirs]
    counted = np.bincount(one * kinds + two, minlength=kinds * kinds).reshape(kinds, kinds)
    margins = [(counted.sum(axis=axis) + 1) / (len(ours) + kinds) for axis in (1, 0)]
    return _log_odds(counted, np.outer(*margins))


def _log_odds(counted: NDArray[np.int64], expected: NDArray[np.float64]) -> Floats:
    shares = (counted + PRIOR * expected) / (counted.sum() + PRIOR)
    return np.asarray(np.log(shares / expected), np.float32)


def _explained(evidence: _Evidence, lines: int) -> list[Passage]:
    """The passages of the likeliest shifts."""
    shifts: list[int | None] = [*range(-SHIFTS, SHIFTS + 1), None]
    blocks = -(-lines // BLOCK)
    odds = np.full((len(shifts), blocks), UNRELATED * BLOCK, np.float32)
    for state, shift in enumerate(shifts):
        if shift is not None:
            each = np.zeros(blocks * BLOCK, np.float32)
            ours, theirs = evidence.pairs(shift, 0, lines)
            each[ours] = evidence.of(ours, theirs)
            odds[state] = each.reshape(blocks, BLOCK).sum(axis=1)
    path = _likeliest(odds, SHIFTS)
    starts = [0, *(np.flatnonzero(np.diff(path)) + 1).tolist()]
    found: list[Passage] = []
    for block in starts:
        shift = shifts[path[block]]
        first = 0
        if found:
            last = found[-1]
            first = max(last.first, _turning(evidence, block * BLOCK, last.shift, shift))
            found[-1] = Passage(last.first, first - last.first, last.shift)
        found.append(Passage(first, lines - first, shift))
    return [passage for passage in found if passage.count]


def _in_order(evidence: _Evidence, found: list[Passage]) -> list[Passage]:
    """`found`, with passages that go together by rules of their own counted as in order.

    A corpus that was put together of several may have passages whose ways are not those of the rest
    (where only one side has full stops, or list after list of names): by what is usual in the whole
    of it they seem to belong to nothing. Alone, they are to explain each other better than under
    any other shift. Lists that come back to the same every few lines (the sign of five colours, and
    the next of the same five) explain each other nearly as well under such a shift.
    """
    joined: list[Passage] = []
    for passage in found:
        if passage.shift != 0 and passage.count >= MIN_OWN_LINES:
            known = evidence.of_shifts(passage.first, passage.count)
            here = known.pop(0)
            if passage.shift is None:
                is_own = here > max(known.values()) + CHANCE * passage.count**-0.5
            else:
                is_own = here > OWN_SHARE * known[passage.shift]
            if is_own:
                passage = replace(passage, shift=0)
        if joined and joined[-1].shift == passage.shift:
            before = joined.pop()
            passage = replace(before, count=before.count + passage.count)
        joined.append(passage)
    return joined


def _likeliest(odds: Floats, start: int) -> NDArray[np.int64]:
    """(blocks,) the states of greatest sum of odds, from `start`, at CHANGE_COST for a change."""
    states, blocks = odds.shape
    came = np.empty((blocks, states), np.int8)
    stay = np.arange(states, dtype=np.int8)
    total = np.full(states, -CHANGE_COST, np.float64)
    total[start] = 0
    for block in range(blocks):
        best = int(total.argmax())
        changed = total < total[best] - CHANGE_COST
        came[block] = np.where(changed, best, stay)
        total = np.where(changed, total[best] - CHANGE_COST, total) + odds[:, block]
    path = np.empty(blocks, np.int64)
    path[-1] = total.argmax()
    for block in range(blocks - 1, 0, -1):
        path[block - 1] = came[block, path[block]]
    return path


def _turning(evidence: _Evidence, about: int, before: int | None, after: int | None) -> int:
    """The line near `about` from which on `after` explains more than `before`."""
    first, last = max(0, about - 2 * BLOCK), min(evidence.lines, about + 2 * BLOCK)

    def explained(shift: int | None) -> Floats:
        each = np.full(last - first, UNRELATED if shift is None else 0, np.float32)
        if shift is not None:
            ours, theirs = evidence.pairs(shift, first, last - first)
            each[ours - first] = evidence.of(ours, theirs)
        return each

    gain = np.concatenate([[0], np.cumsum(explained(before) - explained(after))])
    return first + int(gain.argmax())
