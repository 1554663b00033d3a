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

SAMPLES = 1_000
"""Number of bootstrap samples, as for BLEU (Koehn 2004)."""
TRIALS = 10_000
"""Number of trials of approximate randomisation, as for BLEU (Riezler and Maxwell 2005)."""
SEED = 12_345
"""As in sacreBLEU."""
SIGNATURE = f"mean|bs:{SAMPLES}|ar:{TRIALS}|seed:{SEED}"
WIDE_RANGE = 10.0
"""Scores that differ by more, such as those from 0 to 100, have 2 decimals, all others 4."""

_Numbers = NDArray[np.float64]


def mean_line_scores(
    paths: Sequence[Path], *, lines: int | None = None, test: bool = False
) -> tuple[int, list[Score]]:
    """Return the number of lines, and the mean of each file; arguments and errors are as below."""
    systems = read_line_scores(paths, lines)
    return len(systems[0]), score_by_lines(systems, test=test)


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


def score_by_lines(systems: Sequence[Sequence[float]], *, test: bool = False) -> list[Score]:
    """Return the mean score of each system, with an interval; `test` compares with the first.

    All systems have the same number of lines.

    Raises:
        UserError: a test needs a second system, or another number of lines.
    """
    scores = np.array(systems, np.float64)  # (systems, lines)
    lines = scores.shape[1]
    if test:
        check_test(len(systems), lines)
    means = scores.mean(axis=1)
    intervals = [None] * len(scores) if resampling_obstacle(lines) else _intervals(scores)
    digits = 2 if np.ptp(scores) > WIDE_RANGE else 4
    found: list[Score] = []
    for row, (mean, interval) in enumerate(zip(means.tolist(), intervals, strict=True)):
        is_tested = test and row > 0
        found.append(
            Score(
                name="mean of --scores",
                value=mean,
                signature=SIGNATURE,
                interval=interval,
                p_value=_p_value(scores[row] - scores[0]) if is_tested else None,
                difference=mean - means[0].item() if row > 0 else None,
                digits=digits,
            )
        )
    return found


def _intervals(scores: _Numbers) -> list[tuple[float, float]]:
    """Return the 95% interval of the mean of each system, from the same bootstrap samples."""
    lines = scores.shape[1]
    generator = np.random.default_rng(SEED)
    means = np.empty((SAMPLES, len(scores)))
    for sample in range(SAMPLES):
        rows = generator.integers(0, lines, lines)
        means[sample] = scores[:, rows].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5], axis=0)
    return list(zip(low.tolist(), high.tolist(), strict=True))


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
        is_swapped = generator.random(len(differences)) < 0.5
        total = np.where(is_swapped, -differences, differences).sum()
        if abs(total) >= observed - tolerance:
            extreme_trials += 1
    # The observed scores count as a trial, so that p is never 0.
    return (extreme_trials + 1) / (TRIALS + 1)
