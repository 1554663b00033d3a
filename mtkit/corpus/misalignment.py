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
LEVELS = 8
"""Number of length classes; each holds about as many lines of a side."""
MAX_SHARED = 7
"""Largest number of shared words that is counted; lines that share more count as such."""
CHANGE_COST = 25.0
"""Nats that a change of shift must gain, so that chance causes a change in one of e^25 lines."""
UNRELATED_SCORE = -0.2
"""Score of unrelated lines, in nats per line; even free translations score higher."""
MIN_LINES = 200
"""Fewest lines of a corpus from which a model can be learnt."""
MIN_OWN_LINES = 32
"""Fewest lines of a passage from which a model of its own can be learnt."""
OWN_SHARE = 0.5
"""A passage is aligned if shift 0 gains more than this share of what the found shift gains."""
CHANCE = 3.0
"""Nats per line that chance may gain, when divided by the square root of the number of lines."""
PRIOR_PAIRS = 50.0
"""Number of chance pairs that are added to the counts, for smoothing."""
LEARNING_ROUNDS = 3
MAX_LEARNT_LINES = 100_000
MAX_LENGTH = 65_535
"""Largest length that FEATURES can store."""
_WORD = re.compile(r"\w{3,}|\d+")
_MARKS = [
    re.compile("[?？؟;՞፧⸮]"),
    re.compile(r"\d"),
    re.compile("[,，、;؛،]"),
    re.compile('["“”„«»「」『』]'),
    re.compile(r"\w\W?$"),
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
    """Return a bit for each kind of mark: 1 if the line has one."""
    bits = 0
    for bit, mark in enumerate(_MARKS):
        if mark.search(line):
            bits |= 1 << bit
    return bits


def _word_bits(line: str) -> int:
    """Return 64 bits; the start of each word sets one, so names and cognates set the same."""
    bits = 0
    for word in _WORD.findall(line.casefold()):
        start = word[:4].encode(errors="replace")
        # Different words may set the same bit; the model learns how often that happens by chance.
        bits |= 1 << (crc32(start) % 64)
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
    lines = len(source)
    if lines < MIN_LINES:
        return [Passage(first=0, count=lines, shift=0)]
    model = _PairModel(source, target)
    gains = model.gains(np.arange(lines))
    # Of shifts that gain equally, the smallest.
    best_shift = max(gains, key=lambda shift: (gains[shift], -abs(shift)))
    # If all lines are similar, every shift gains equally. The median gain is taken for chance.
    gain_above_chance = gains[best_shift] - statistics.median(gains.values())
    if gain_above_chance <= CHANCE / math.sqrt(lines):
        return [Passage(first=0, count=lines, shift=None)]
    shifts = np.full(lines, best_shift)
    for _ in range(LEARNING_ROUNDS):  # better shifts give a better model, and the reverse
        related = np.flatnonzero(shifts != UNRELATED)
        source_rows, target_rows = model.pairs(related, shifts[related])
        model.learn(source_rows, target_rows)
        shifts = _likeliest_shifts(model)
    for passage in _passages(shifts):
        if passage.shift == 0 or passage.count < MIN_OWN_LINES:
            continue
        # The model of the whole corpus may be wrong for a passage of another kind.
        rows = np.arange(passage.first, passage.first + passage.count)
        if _is_consistent(model, rows, passage.shift):
            shifts[rows] = 0
    return _passages(shifts)


def _passages(shifts: LineNumbers) -> list[Passage]:
    """Return the passages of lines with equal shifts; `shifts`: (n,), with UNRELATED."""
    changes = np.flatnonzero(np.diff(shifts)) + 1
    passages: list[Passage] = []
    first = 0
    for end in [*changes.tolist(), len(shifts)]:
        shift = int(shifts[first])
        passages.append(
            Passage(first=first, count=end - first, shift=None if shift == UNRELATED else shift)
        )
        first = end
    return passages


@dataclass(frozen=True)
class _Side:
    """The features of n lines of one side, in the form in which the model counts them."""

    length_classes: LineNumbers
    """(n,): 0 for the shortest lines, up to LEVELS - 1 for the longest."""
    marks: NDArray[np.uint8]
    words: NDArray[np.uint64]

    @classmethod
    def of_features(cls, features: NDArray[Any]) -> _Side:
        """Classify the lengths by the quantiles of this side, so both languages are comparable."""
        lengths = features["length"]
        bounds = np.quantile(lengths, np.arange(1, LEVELS) / LEVELS)
        return cls(
            length_classes=np.searchsorted(bounds, lengths),
            marks=features["marks"],
            words=features["words"],
        )


class _PairModel:
    """Scores whether two lines are a pair, by their lengths, marks and shared words.

    Rows are numbers of lines, from 0; k rows of the source stand next to k rows of the target.
    """

    def __init__(self, source: NDArray[Any], target: NDArray[Any]) -> None:
        self._source = _Side.of_features(source)
        self._target = _Side.of_features(target)
        self.lines = len(source)

    def pairs(self, rows: LineNumbers, shift: int | LineNumbers) -> tuple[LineNumbers, LineNumbers]:
        """Return the source rows that have a target line under a shift, and these target rows."""
        targets = rows + shift
        is_inside = (targets >= 0) & (targets < self.lines)
        return rows[is_inside], targets[is_inside]

    def learn(self, source: LineNumbers, target: LineNumbers) -> None:
        """Learn which features occur together, from rows that are pairs."""
        self._length_odds = _learn_odds(
            self._source.length_classes[source],
            self._target.length_classes[target],
            kinds=LEVELS,
        )
        self._mark_odds = _learn_odds(
            self._source.marks[source],
            self._target.marks[target],
            kinds=MARK_KINDS,
        )
        # Targets of lines far away, beyond every shift, show how many words are shared by chance.
        far_target = np.roll(target, len(target) // 3 + MAX_SHIFT)
        counts = self._count_shared_words(source, target)
        by_chance = self._count_shared_words(source, far_target) + 1  # so that none is impossible
        self._word_odds = _log_odds(counts, by_chance / by_chance.sum())

    def score(self, source: LineNumbers, target: LineNumbers) -> Scores:
        """Return (k,) log odds that each source row and its target row are a pair."""
        lengths = self._length_odds[
            self._source.length_classes[source], self._target.length_classes[target]
        ]
        marks = self._mark_odds[self._source.marks[source], self._target.marks[target]]
        words = self._word_odds[self._shared_words(source, target)]
        return np.asarray(lengths + marks + words)

    def _shared_words(self, source: LineNumbers, target: LineNumbers) -> LineNumbers:
        """Return (k,) numbers of shared words, at most MAX_SHARED."""
        shared_bits = self._source.words[source] & self._target.words[target]
        return np.asarray(np.minimum(np.bitwise_count(shared_bits), MAX_SHARED), np.int64)

    def _count_shared_words(self, source: LineNumbers, target: LineNumbers) -> LineNumbers:
        """Return (MAX_SHARED + 1,) numbers of pairs, by the number of words that they share."""
        return np.bincount(self._shared_words(source, target), minlength=MAX_SHARED + 1)

    def gains(self, rows: LineNumbers) -> dict[int, float]:
        """Return the score of these lines under each shift, in nats per line.

        One half of the lines is scored by a model that is learnt from the other half.
        """
        gains: dict[int, float] = {}
        for shift in SHIFTS:
            source, target = self.pairs(rows[:MAX_LEARNT_LINES], shift)
            # Blocks alternate, so both halves come from the whole text.
            is_learnt = source // BLOCK_LINES % 2 == 0
            is_scored = ~is_learnt
            self.learn(source[is_learnt], target[is_learnt])
            scores = self.score(source[is_scored], target[is_scored])
            gains[shift] = float(scores.mean())
        return gains

    def score_lines(self, rows: LineNumbers, shift: int) -> Scores:
        """Return (k,) scores of k consecutive lines under a shift; 0 for a line without a target.

        `shift` may be UNRELATED.
        """
        if shift == UNRELATED:
            return np.full(len(rows), UNRELATED_SCORE)
        scores = np.zeros(len(rows))
        source, target = self.pairs(rows, shift)
        scores[source - rows[0]] = self.score(source, target)
        return scores


def _learn_odds(source: NDArray[Any], target: NDArray[Any], kinds: int) -> Scores:
    """Return (kinds, kinds) log odds that a kind of source and a kind of target are a pair."""
    counts = np.zeros((kinds, kinds))
    np.add.at(counts, (source, target), 1)  # `counts[source, target] += 1` counts each place once
    source_shares = (counts.sum(axis=1) + 1) / (len(source) + kinds)
    target_shares = (counts.sum(axis=0) + 1) / (len(source) + kinds)
    return _log_odds(counts, np.outer(source_shares, target_shares))


def _log_odds(counts: NDArray[Any], expected: Scores) -> Scores:
    """Return the log of the observed share of each kind over its expected share."""
    smoothed = counts + PRIOR_PAIRS * expected
    return np.asarray(np.log(smoothed / smoothed.sum() / expected))


def _likeliest_shifts(model: _PairModel) -> LineNumbers:
    """Return the likeliest shift of each line, (n,): find it for blocks, then refine the edges."""
    rows = np.arange(model.lines)
    starts = np.arange(0, model.lines, BLOCK_LINES)
    scores = np.empty((len(STATES), len(starts)))
    for state, shift in enumerate(STATES):
        line_scores = model.score_lines(rows, shift)
        scores[state] = np.add.reduceat(line_scores, starts)  # the sum of each block
    states = _viterbi(scores, start=STATES.index(0))
    block_shifts = np.array(STATES)[states]
    # The last block may be shorter.
    shifts = np.repeat(block_shifts, BLOCK_LINES)[: model.lines]
    changed_blocks = np.flatnonzero(np.diff(block_shifts)) + 1
    for block in changed_blocks.tolist():
        before = block_shifts[block - 1]
        after = block_shifts[block]
        edge = block * BLOCK_LINES
        line = _find_change(model, edge, before, after)
        # One of these two slices is empty.
        shifts[line:edge] = after
        shifts[edge:line] = before
    return shifts


def _find_change(model: _PairModel, edge: int, before: int, after: int) -> int:
    """Return the line, near the edge of two blocks, from which the shift `after` fits better."""
    first = max(0, edge - 2 * BLOCK_LINES)
    end = min(edge + 2 * BLOCK_LINES, model.lines)
    near = np.arange(first, end)
    score_before = model.score_lines(near, before)
    score_after = model.score_lines(near, after)
    gain = score_before - score_after
    # Place i of the sums is what `before` gains if it holds for the first i lines.
    gain_of_first = np.append(0, gain.cumsum())
    return first + int(gain_of_first.argmax())


def _viterbi(scores: Scores, start: int) -> LineNumbers:
    """Return the sequence of states, (blocks,), with the best sum of scores minus CHANGE_COSTs.

    `scores`: (states, blocks). If the first block is not in the state `start`, this costs as much
    as a change.
    """
    states, blocks = scores.shape
    # For each block and state: the state of the block before it, on the best path to here.
    previous = np.tile(np.arange(states), (blocks, 1))
    total = np.full(states, -CHANGE_COST)
    total[start] = 0
    for block in range(blocks):
        # Every change costs the same, so it always starts from the best state.
        best = int(total.argmax())
        total_after_change = total[best] - CHANGE_COST
        previous[block, total < total_after_change] = best
        total = np.maximum(total, total_after_change) + scores[:, block]
    path = np.empty(blocks, np.int64)
    path[-1] = total.argmax()
    for block in range(blocks - 1, 0, -1):
        path[block - 1] = previous[block, path[block]]
    return path


def _is_consistent(model: _PairModel, rows: LineNumbers, shift: int | None) -> bool:
    """Return whether a passage is aligned according to a model that is learnt from its own lines.

    A document may differ from the rest of the corpus: only its targets end in full stops, or it
    lists names. Periodic lists match nearly as well under a shift.
    """
    gains = model.gains(rows)
    aligned_gain = gains.pop(0)  # of shift 0
    if shift is None:
        return aligned_gain > max(gains.values()) + CHANCE / math.sqrt(len(rows))
    return aligned_gain > OWN_SHARE * gains[shift]
