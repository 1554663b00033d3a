"""Find where two files are misaligned: the line from which on line n no longer translates line n.

Two lines are compared by their lengths, punctuation marks and words. The corpus itself tells which
results are usual in a pair and which by chance: the log odds. With a shift, line n of the source
belongs to line n + shift of the target. The Viterbi algorithm finds the sequence of shifts with the
best score; every change of shift has a cost.
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
SHIFTS = sorted(range(-MAX_SHIFT, MAX_SHIFT + 1), key=abs)
"""The smallest first, because of shifts that fit equally well the first is taken."""
UNRELATED = MAX_SHIFT + 1
"""The state of lines that match no line near them."""
STATES = np.array([*SHIFTS, UNRELATED])
BLOCK_LINES = 2
"""Lines that have one shift; the line of a change is as exact."""
CHANGE_COST = 25.0
"""Nats that a change of shift must gain, so that chance causes a change in one of e^25 lines."""
UNRELATED_SCORE = -0.2
"""Score of unrelated lines, in nats per line; even free translations score higher."""
MIN_LINES = 200
"""Fewest lines of a corpus from which odds can be learnt."""
MIN_OWN_LINES = 32
"""Fewest lines of a passage from which odds of its own can be learnt."""
CHANCE = 3.0
"""Nats per line that chance may gain, when divided by the square root of the number of lines."""
GROUP_LINES = 8
"""Lines in a row of which all or none are learnt from."""
LEARNING_ROUNDS = 3
MAX_LEARNT_LINES = 100_000
KINDS = 32
"""Number of results that a comparison can have; lengths are divided into as many classes."""
MAX_LENGTH = 65_535
"""Largest length that FEATURES can store."""
PRIOR_PAIRS = 50.0
"""Number of chance pairs that are added to the counts, for smoothing."""
_WORD = re.compile(r"\w{3,}|\d+")
_MARKS = [
    re.compile("[?？؟;՞፧⸮]"),
    re.compile(r"\d"),
    re.compile("[,，、;؛،]"),
    re.compile('["“”„«»「」『』]'),
]
"""Marks of a line: question marks, digits, commas, quotation marks."""
_NO_MARK_AT_END = re.compile(r"\w\W?$")

FEATURES = np.dtype([("length", np.uint16), ("marks", np.uint8), ("words", np.uint64)])
Lines = NDArray[Any]
"""(n,) features of n lines of one side, of type FEATURES."""
LineNumbers = NDArray[np.int64]
Scores = NDArray[np.float64]
"""Log odds in nats."""


def line_features(lines: Sequence[str]) -> Lines:
    """Return (n,) features of the lines, of type FEATURES: 11 bytes per line."""
    rows: list[tuple[int, int, int]] = []
    for line in lines:
        marks = sum(1 << bit for bit, mark in enumerate(_MARKS) if mark.search(line))
        if _NO_MARK_AT_END.search(line[-2:]):  # much faster than in the whole line
            marks |= 1 << len(_MARKS)
        words = 0
        for word in _WORD.findall(line.casefold()):
            # Names and cognates begin alike. Other words may set the same bit, as chance pairs do.
            words |= 1 << (crc32(word[:4].encode(errors="replace")) % 64)
        rows.append((min(len(line), MAX_LENGTH), marks, words))
    return np.array(rows, FEATURES)


@dataclass(frozen=True)
class Passage:
    """Consecutive lines of the source, and where their translations are."""

    first: int
    """The first line, counted from 0."""
    count: int
    shift: int | None
    """Line n belongs to line n + shift of the target; None: to no target line near it."""


def find_passages(source: Lines, target: Lines) -> list[Passage]:
    """Divide the lines into passages of one shift each; aligned files give one passage of shift 0.

    `source`, `target`: features of n lines each. Fewer than MIN_LINES lines count as aligned.
    """
    lines = len(source)
    if lines < MIN_LINES:
        return [Passage(first=0, count=lines, shift=0)]
    source, target = _with_length_classes(source), _with_length_classes(target)
    rows = np.arange(lines)
    gains = _gains(source, target, rows)
    best_shift = max(SHIFTS, key=gains.__getitem__)
    # If all lines are similar, every shift gains equally. The median gain is taken for chance.
    if gains[best_shift] - statistics.median(gains.values()) <= CHANCE / math.sqrt(lines):
        return [Passage(first=0, count=lines, shift=None)]
    shifts = np.full(lines, best_shift)
    for _ in range(LEARNING_ROUNDS):  # better shifts give better odds, and the reverse
        related = np.flatnonzero(shifts != UNRELATED)
        odds = _learn_odds(*_pairs(source, target, related, shifts[related]))
        shifts = _likeliest_shifts(odds, source, target)
    for passage in _passages(shifts):
        if passage.shift == 0 or passage.count < MIN_OWN_LINES:
            continue
        # The odds of the whole corpus may be wrong for a passage of another kind.
        own_rows = rows[passage.first : passage.first + passage.count]
        if _is_consistent(_gains(source, target, own_rows), passage):
            shifts[own_rows] = 0
    return _passages(shifts)


def _with_length_classes(lines: Lines) -> Lines:
    """Replace the lengths by classes of equal size, so that two languages are comparable."""
    bounds = np.quantile(lines["length"], np.arange(1, KINDS) / KINDS)
    classified = lines.copy()
    classified["length"] = np.searchsorted(bounds, lines["length"])
    return classified


def _passages(shifts: LineNumbers) -> list[Passage]:
    """Return the passages of lines with equal shifts; `shifts`: (n,), with UNRELATED."""
    firsts = [0, *(np.flatnonzero(np.diff(shifts)) + 1).tolist()]
    passages: list[Passage] = []
    for first, end in zip(firsts, [*firsts[1:], len(shifts)], strict=True):
        shift = None if shifts[first] == UNRELATED else int(shifts[first])
        passages.append(Passage(first=first, count=end - first, shift=shift))
    return passages


def _pairs(
    source: Lines, target: Lines, rows: LineNumbers, shift: int | LineNumbers
) -> tuple[Lines, Lines]:
    """Return the lines of the source that have a target line under a shift, and these lines."""
    target_rows = rows + shift
    is_inside = (target_rows >= 0) & (target_rows < len(target))
    return source[rows[is_inside]], target[target_rows[is_inside]]


def _compare(source: Lines, target: Lines) -> list[NDArray[Any]]:
    """Compare k pairs of lines in three ways; return three times (k,) results below KINDS."""
    lengths = np.abs(source["length"].astype(np.int64) - target["length"])
    marks = source["marks"] ^ target["marks"]
    words = np.bitwise_count(source["words"] & target["words"])
    return [lengths, marks, np.minimum(words, KINDS - 1)]


def _learn_odds(source: Lines, target: Lines) -> list[Scores]:
    """Return for each comparison the log odds, (KINDS,), that its results come from a pair."""
    strangers = np.random.default_rng(seed=0).permutation(target)
    odds: list[Scores] = []
    compared = zip(_compare(source, target), _compare(source, strangers), strict=True)
    for of_pairs, by_chance in compared:
        expected = np.bincount(by_chance, minlength=KINDS) + 1.0  # so that none is impossible
        expected /= expected.sum()
        smoothed = np.bincount(of_pairs, minlength=KINDS) + PRIOR_PAIRS * expected
        odds.append(np.log(smoothed / smoothed.sum() / expected))
    return odds


def _score(odds: list[Scores], source: Lines, target: Lines) -> Scores:
    """Return (k,) log odds that each of k source lines and its target line are a pair."""
    results = zip(odds, _compare(source, target), strict=True)
    return np.asarray(sum(odds_of_kinds[kinds] for odds_of_kinds, kinds in results))


def _gains(source: Lines, target: Lines, rows: LineNumbers) -> dict[int, float]:
    """Return the score of these lines under each shift, in nats per line.

    One half of the lines is scored by the odds of the other half.
    """
    gains: dict[int, float] = {}
    for shift in SHIFTS:
        sources, targets = _pairs(source, target, rows[:MAX_LEARNT_LINES], shift)
        # Groups of lines alternate, so both halves come from the whole text.
        is_learnt = np.arange(len(sources)) // GROUP_LINES % 2 == 0
        odds = _learn_odds(sources[is_learnt], targets[is_learnt])
        scores = _score(odds, sources[~is_learnt], targets[~is_learnt])
        gains[shift] = float(scores.mean())
    return gains


def _likeliest_shifts(odds: list[Scores], source: Lines, target: Lines) -> LineNumbers:
    """Return the likeliest shift of each of n lines, (n,); the lines of a block share one."""
    lines = len(source)
    starts = np.arange(0, lines, BLOCK_LINES)
    scores = np.empty((len(starts), len(STATES)), np.float32)
    for state, shift in enumerate(SHIFTS):
        first = max(0, -shift)
        end = min(lines, lines - shift)
        shifted_target = target[first + shift : end + shift]
        line_scores = np.zeros(lines)  # 0 for a line without a target
        line_scores[first:end] = _score(odds, source[first:end], shifted_target)
        scores[:, state] = np.add.reduceat(line_scores, starts)  # the sum of each block
    scores[:, -1] = UNRELATED_SCORE * BLOCK_LINES
    states = _likeliest_states(scores)
    return np.repeat(STATES[states], BLOCK_LINES)[:lines]


def _likeliest_states(scores: NDArray[np.float32]) -> LineNumbers:
    """Return the sequence of states, (blocks,), with the best sum of scores minus CHANGE_COSTs.

    `scores`: (blocks, states). A first block that is not in state 0 costs as much as a change.
    """
    blocks, states = scores.shape
    # For each block and state: the state of the block before it, on the best path to here.
    previous = np.tile(np.arange(states, dtype=np.int8), (blocks, 1))
    total = np.full(states, -CHANGE_COST)
    total[0] = 0
    for block in range(blocks):
        best = int(total.argmax())  # every change costs the same, so it starts from the best state
        total_after_change = total[best] - CHANGE_COST
        previous[block, total < total_after_change] = best
        total = np.maximum(total, total_after_change) + scores[block]
    path = np.full(blocks, total.argmax())
    for block in range(blocks - 1, 0, -1):
        path[block - 1] = previous[block, path[block]]
    return path


def _is_consistent(gains: dict[int, float], passage: Passage) -> bool:
    """Return whether a passage is aligned by the odds of its own lines; `gains`: with these odds.

    A document may differ from the rest of the corpus: only its targets end in full stops, or it
    lists names. Periodic lists match nearly as well under a shift.
    """
    by_chance = CHANCE / math.sqrt(passage.count)
    if passage.shift is not None:
        return gains[0] > gains[passage.shift] - by_chance
    best_shifted = max(gain for shift, gain in gains.items() if shift != 0)
    return gains[0] > best_shifted + by_chance
