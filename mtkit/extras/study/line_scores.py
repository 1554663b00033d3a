"""Scores of lines that another program has computed, such as COMET: their mean, and its tests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.corpus.files import open_input, split_lines, text_blocks
from mtkit.errors import UserError
from mtkit.report import plural, printable
from mtkit.scoring.metrics import Score, check_test, resampling_obstacle

TRIALS = 10_000
"""Number of trials of approximate randomisation, as for BLEU (Riezler and Maxwell 2005)."""
SEED = 12_345
"""As in sacreBLEU."""
SIGNATURE = f"mean|ci:normal|ar:{TRIALS}|seed:{SEED}"
WIDE_RANGE = 10.0
"""Scores that differ by more, such as those from 0 to 100, have 2 decimals, all others 4."""

_Numbers = NDArray[np.float64]


def read_line_scores(paths: Sequence[Path], lines: int | None = None) -> list[list[float]]:
    """Read files of line scores, one for each system; `lines`: how many each must have.

    Raises:
        UserError: a file cannot be read, or has another number of lines than `lines` or the first.
    """
    systems = [_read_numbers(path) for path in paths]
    for path, scores in zip(paths, systems, strict=True):
        expected = len(systems[0]) if lines is None else lines
        if not scores:
            raise UserError(f"{path} is empty; write one score on each line")
        if len(scores) != expected:
            raise UserError(
                f"{path} has {plural(len(scores), 'score')}, but should have {expected:,}; line n "
                "must belong to line n"
            )
    return systems


def _read_numbers(path: Path) -> list[float]:
    """Read a file with a number on each line.

    Raises:
        UserError: the file cannot be read, or a line is not a finite number.
    """
    scores: list[float] = []
    with open_input(path) as file:
        for number, raw in enumerate(split_lines(text_blocks(file, str(path))), 1):
            text = raw.decode(errors="replace").strip()
            try:
                score = float(text)
            except ValueError:
                score = math.nan
            if not math.isfinite(score):
                raise UserError(
                    f"{path}:{number}: {printable(text[:40])!r} is not a number; write one score "
                    "on each line"
                )
            scores.append(score)
    return scores


def mean_line_scores(
    paths: Sequence[Path], *, lines: int | None = None, test: bool = False
) -> tuple[int, list[Score]]:
    """Return the number of lines, and the mean of each file with its 95 % interval.

    `lines`: how many each file must have. `test`: compare each system with the first.

    Raises:
        UserError: a file cannot be read, the numbers of lines differ, or a test needs a second
            system, or another number of lines.
    """
    scores = np.array(read_line_scores(paths, lines), np.float64)  # (systems, lines)
    count = scores.shape[1]
    if test:
        check_test(len(scores), count)
    means = scores.mean(axis=1).tolist()
    # 95 % of a normal distribution.
    half_widths = (1.96 * scores.std(axis=1) / math.sqrt(count)).tolist()
    obstacle = resampling_obstacle(count)
    digits = 2 if np.ptp(scores) > WIDE_RANGE else 4
    found: list[Score] = []
    for row, (mean, half) in enumerate(zip(means, half_widths, strict=True)):
        is_tested = test and row > 0
        found.append(
            Score(
                name="mean of --scores",
                value=mean,
                signature=SIGNATURE,
                interval=None if obstacle else (mean - half, mean + half),
                p_value=_p_value(scores[row] - scores[0]) if is_tested else None,
                difference=mean - means[0] if row > 0 else None,
                digits=digits,
            )
        )
    return count, found


def _p_value(differences: _Numbers) -> float:
    """Return the two-sided p-value of approximate randomisation; `differences`: (lines,).

    Each trial swaps the scores of the two systems on random lines, which negates the differences.
    The p-value is the share of trials with at least the observed difference.
    """
    generator = np.random.default_rng(SEED)
    observed = abs(differences.sum())
    # Sums of equal numbers in another order may differ by rounding.
    tolerance = 1e-9 * np.abs(differences).sum()
    extreme_trials = 0
    for _ in range(TRIALS):
        signs = generator.choice((-1.0, 1.0), len(differences))
        extreme_trials += abs(signs @ differences) >= observed - tolerance
    # The observed scores count as a trial, so that p is never 0.
    return float((extreme_trials + 1) / (TRIALS + 1))
