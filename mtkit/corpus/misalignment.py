"""Find where two files are misaligned: the line from which on line n no longer translates line n.

The features of a line are its length, its punctuation marks and 64 bits for its words. A model
learns from the corpus itself which features occur together: the log odds of a pair against chance.
With a shift, line n of the source belongs to line n + shift of the target. The Viterbi algorithm
finds the sequence of shifts with the best score; every change of shift has a cost.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

MAX_SHIFT = 12
"""Largest shift that is searched for, in lines."""
SHIFTS = range(-MAX_SHIFT, MAX_SHIFT + 1)
UNRELATED = MAX_SHIFT + 1
"""The state of lines that match no line near them."""
STATES = [*SHIFTS, UNRELATED]
BLOCK_LINES = 8
"""Lines that are scored together, before the exact line of a change is searched for."""
LEVELS, MAX_SHARED = 8, 7
"""Number of length classes (quantiles), and the largest count of shared words (more are equal)."""
CHANGE_COST = 25.0
"""Nats that a change of shift must gain, so that chance causes a change in one of e^25 lines."""
UNRELATED_SCORE = -0.2
"""Score of unrelated lines, in nats per line; even free translations score higher."""
MIN_LINES, MIN_OWN_LINES = 200, 32
"""Fewest lines from which a model can be learnt: of a whole corpus, and of one passage."""
OWN_SHARE = 0.5
"""A passage is aligned if shift 0 gains more than this share of what the found shift gains."""
CHANCE = 3.0
"""Nats per line that chance may gain, when divided by the square root of the number of lines."""
PRIOR_PAIRS = 50.0
"""Number of chance pairs that are added to the counts, for smoothing."""
MAX_LEARNT_LINES = 100_000
MAX_LENGTH = 65_535
_WORD = re.compile(r"\w{3,}|\d+")
_MARKS = [
    re.compile(it) for it in ("[?？؟;՞፧⸮]", r"\d", "[,，、;؛،]", '["“”„«»「」『』]', r"\w\W?$")
]
"""Marks of a line: question marks, digits, commas, quotation marks, no punctuation at the end."""
MARK_KINDS = 1 << len(_MARKS)

FEATURES = np.dtype([("length", np.uint16), ("marks", np.uint8), ("words", np.uint64)])
LineNumbers = NDArray[np.int64]
Scores = NDArray[np.float64]
"""Log odds in nats."""


def line_features(lines: Sequence[str]) -> NDArray[Any]:
    """Return (n,) features of the lines, of type FEATURES: 11 bytes per line."""
    rows = [(min(len(line), MAX_LENGTH), _mark_bits(line), _word_bits(line)) for line in lines]
    return np.array(rows, FEATURES)


def _mark_bits(line: str) -> int:
    return sum(1 << bit for bit, mark in enumerate(_MARKS) if mark.search(line))


def _word_bits(line: str) -> int:
    """Return 64 bits; the start of each word sets one, so names and cognates set the same."""
    bits = 0
    for word in _WORD.findall(line.casefold()):
        bits |= 1 << (crc32(word[:4].encode(errors="replace")) & 63)
    return bits


@dataclass(frozen=True)
class Passage:
    """Consecutive lines of the source, and where their translations are."""

    first: int
    """The first line, counted from 0."""
    count: int
    shift: int | None
    """Line n belongs to line n + shift of the target; None: to no target line near it."""


def find_passages(source: NDArray[Any], target: NDArray[Any]) -> list[Passage]:
    """Divide the lines into passages of one shift each; aligned files give one passage of shift 0.

    `source`, `target`: (n,) features of the lines. Fewer than MIN_LINES lines count as aligned.
    """
    if len(source) < MIN_LINES:
        return [Passage(0, len(source), 0)]
    model = _PairModel(source, target)
    gains = model.gains(np.arange(model.lines))
    best = max(gains, key=lambda shift: (gains[shift], -abs(shift)))
    # If all lines are similar, every shift gains equally. The median gain is taken for chance.
    if gains[best] - statistics.median(gains.values()) <= CHANCE / math.sqrt(model.lines):
        return [Passage(0, model.lines, None)]
    shifts = np.full(model.lines, best)
    for _ in range(3):  # better shifts give a better model, and the reverse
        rows = np.flatnonzero(shifts != UNRELATED)
        model.learn(*model.pairs(rows, shifts[rows]))
        shifts = _likeliest_shifts(model)
    for passage in _passages(shifts):
        rows = np.arange(passage.first, passage.first + passage.count)
        is_long = len(rows) >= MIN_OWN_LINES
        if passage.shift != 0 and is_long and _is_consistent(model, rows, passage.shift):
            shifts[rows] = 0
    return _passages(shifts)


def _passages(shifts: LineNumbers) -> list[Passage]:
    """Return the passages of lines with equal shifts."""
    starts = [0, *(np.flatnonzero(np.diff(shifts)) + 1).tolist()]
    known = [None if shift == UNRELATED else int(shift) for shift in shifts[starts]]
    counts = np.diff([*starts, len(shifts)]).tolist()
    return [Passage(*passage) for passage in zip(starts, counts, known, strict=True)]


class _PairModel:
    """Scores whether two lines are a pair, by their lengths, marks and shared words."""

    def __init__(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        quantiles = np.arange(1, LEVELS) / LEVELS
        self._lengths = [
            np.searchsorted(np.quantile(side["length"], quantiles), side["length"])
            for side in (source, target)
        ]
        self._marks = source["marks"], target["marks"]
        self._words = source["words"], target["words"]
        self.lines = len(source)

    def pairs(self, rows: LineNumbers, shift: int | LineNumbers) -> tuple[LineNumbers, LineNumbers]:
        """Return the source rows that have a target line under a shift, and these target rows."""
        targets = rows + shift
        is_inside = (targets >= 0) & (targets < self.lines)
        return rows[is_inside], targets[is_inside]

    def learn(self, source: LineNumbers, target: LineNumbers) -> None:
        """Learn which features occur together, from rows that are pairs."""
        self._length_odds = _learn_odds(self._lengths[0][source], self._lengths[1][target], LEVELS)
        self._mark_odds = _learn_odds(self._marks[0][source], self._marks[1][target], MARK_KINDS)
        random = np.roll(target, len(target) // 3 + MAX_SHIFT)
        by_chance = np.bincount(self._shared_words(source, random), minlength=MAX_SHARED + 1) + 1
        counts = np.bincount(self._shared_words(source, target), minlength=MAX_SHARED + 1)
        self._word_odds = _log_odds(counts, by_chance / by_chance.sum())

    def score(self, source: LineNumbers, target: LineNumbers) -> Scores:
        """Return (k,) log odds that each source row and its target row are a pair."""
        lengths = self._length_odds[self._lengths[0][source], self._lengths[1][target]]
        marks = self._mark_odds[self._marks[0][source], self._marks[1][target]]
        return np.asarray(lengths + marks + self._word_odds[self._shared_words(source, target)])

    def _shared_words(self, source: LineNumbers, target: LineNumbers) -> LineNumbers:
        shared = np.bitwise_count(self._words[0][source] & self._words[1][target])
        return np.asarray(np.minimum(shared, MAX_SHARED), np.int64)

    def gains(self, rows: LineNumbers) -> dict[int, float]:
        """Return the score of these lines under each shift, in nats per line.

        One half of the lines is scored by a model that is learnt from the other half.
        """
        gains = {}
        for shift in SHIFTS:
            source, target = self.pairs(rows[:MAX_LEARNT_LINES], shift)
            half = source // BLOCK_LINES % 2 == 0
            self.learn(source[half], target[half])
            gains[shift] = float(self.score(source[~half], target[~half]).mean())
        return gains

    def score_lines(self, rows: LineNumbers, shift: int) -> Scores:
        """Return (k,) scores of k lines under a shift; 0 for a line without a target."""
        if shift == UNRELATED:
            return np.full(len(rows), UNRELATED_SCORE)
        scores = np.zeros(len(rows))
        source, target = self.pairs(rows, shift)
        scores[source - rows[0]] = self.score(source, target)
        return scores


def _learn_odds(source: NDArray[Any], target: NDArray[Any], kinds: int) -> Scores:
    """Return (kinds, kinds) log odds that a kind of source and a kind of target are a pair."""
    counts = np.zeros((kinds, kinds))
    np.add.at(counts, (source, target), 1)
    shares = [(counts.sum(axis=axis) + 1) / (len(source) + kinds) for axis in (1, 0)]
    return _log_odds(counts, np.outer(*shares))


def _log_odds(counts: NDArray[Any], expected: Scores) -> Scores:
    smoothed = counts + PRIOR_PAIRS * expected
    return np.asarray(np.log(smoothed / smoothed.sum() / expected))


def _likeliest_shifts(model: _PairModel) -> LineNumbers:
    """Return the likeliest shift of each line, (n,): find it for blocks, then refine the edges."""
    rows, blocks = np.arange(model.lines), np.arange(0, model.lines, BLOCK_LINES)
    scores = [np.add.reduceat(model.score_lines(rows, shift), blocks) for shift in STATES]
    path = np.array(STATES)[_viterbi(np.array(scores), start=MAX_SHIFT)]
    shifts = np.repeat(path, BLOCK_LINES)[: model.lines]
    for block in (np.flatnonzero(np.diff(path)) + 1).tolist():
        edge, before, after = block * BLOCK_LINES, path[block - 1], path[block]
        near = rows[max(0, edge - 2 * BLOCK_LINES) : edge + 2 * BLOCK_LINES]
        gain = model.score_lines(near, before) - model.score_lines(near, after)
        line = near[0] + int(np.append(0, gain.cumsum()).argmax())
        shifts[line:edge] = after
        shifts[edge:line] = before
    return shifts


def _viterbi(scores: Scores, start: int) -> LineNumbers:
    """Return the sequence of states, (blocks,), with the best sum of scores minus CHANGE_COSTs.

    `scores`: (states, blocks). If the first block is not in the state `start`, this costs as much
    as a change.
    """
    states, blocks = scores.shape
    came_from = np.tile(np.arange(states), (blocks, 1))
    total = np.full(states, -CHANGE_COST)
    total[start] = 0
    for block in range(blocks):
        best = int(total.argmax())
        changed = total < total[best] - CHANGE_COST
        came_from[block, changed] = best
        total = np.maximum(total, total[best] - CHANGE_COST) + scores[:, block]
    path = np.empty(blocks, np.int64)
    path[-1] = total.argmax()
    for block in range(blocks - 1, 0, -1):
        path[block - 1] = came_from[block, path[block]]
    return path


def _is_consistent(model: _PairModel, rows: LineNumbers, shift: int | None) -> bool:
    """Return whether a passage is aligned according to a model that is learnt from its own lines.

    A document may differ from the rest of the corpus: only its targets end in full stops, or it
    lists names. Periodic lists match nearly as well under a shift.
    """
    gains = model.gains(rows)
    aligned = gains.pop(0)
    if shift is None:
        return aligned > max(gains.values()) + CHANCE / math.sqrt(len(rows))
    return aligned > OWN_SHARE * gains[shift]
