"""Limits of the work on text with references: no translation far longer than a reference would be.

A model that has learned little repeats itself up to the longest length that it may write. With
references it is known how long a translation of such a source can be, so longer ones are cut.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from mtkit.decoding.engines.engine import Request
from mtkit.tokenizer.codec import Tokenizer

_Lengths = NDArray[np.int64]

LENGTHS = (16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024)
"""The lengths to which limits are rounded up, so that few requests serve many lines."""
RATIO_MARGIN = 1.5
"""A long translation may be this much longer than a mean reference of its source."""
SOURCE_MARGIN = 1.25
"""Any translation may be this much longer than its source."""
COVERED_REFERENCES = 0.99
"""Share of the references that are within the limit; the others are mostly misaligned."""
MIN_SLACK = 8.0
"""Fewest subwords that any translation may have, however short its source."""
MIN_TEST_SECONDS = 15.0
MAX_TEST_SHARE = 0.18
"""Time for translating a test set: so many seconds, or this share of the training time."""


MIN_CALIBRATED, MAX_CALIBRATED = 100, 1_000
"""Fewest lines of a validation set that confidence is fitted to, and most."""
MAX_CALIBRATION_COST = 0.05
"""Largest number of subwords in beams for each subword of training.

A subword takes about the same time in both.
"""


def max_test_seconds(training_seconds: float) -> float:
    """Return how long the translation of the test set of a run may take."""
    return max(MIN_TEST_SECONDS, MAX_TEST_SHARE * training_seconds)


@dataclass(frozen=True)
class LimitedLines:
    """The rows of some lines, and the request that limits the length of their translations."""

    rows: list[int]
    request: Request


def limit_lengths(
    sources: Sequence[str], references: Sequence[str], tokenizer: Tokenizer, request: Request
) -> list[LimitedLines]:
    """Divide the lines by the largest number of subwords that their translations may have.

    The limit of a line depends on the length of its source, and on what all references have in
    common, but not on its own reference. `decoding.max_length` stays an upper limit.
    """
    source_lengths = np.array([len(ids) for ids in tokenizer.encode_source(list(sources))])
    target_lengths = np.array([len(ids) for ids in tokenizer.encode_target(list(references))])
    limits = _limits(source_lengths, target_lengths)
    rows_by_limit: dict[int, list[int]] = defaultdict(list)
    for row, limit in enumerate(limits):
        rows_by_limit[min(_round_up(limit), request.settings.max_length)].append(row)
    groups: list[LimitedLines] = []
    for limit, rows in sorted(rows_by_limit.items()):
        changes = {"max_length": limit, "min_length": min(request.settings.min_length, limit)}
        settings = request.settings.model_copy(update=changes)
        groups.append(LimitedLines(rows, replace(request, settings=settings)))
    return groups


def _round_up(limit: float) -> int:
    """Return the smallest of LENGTHS that is not below the limit, or the largest of them."""
    place = bisect_left(LENGTHS, limit)
    return LENGTHS[min(place, len(LENGTHS) - 1)]


def _limits(sources: _Lengths, targets: _Lengths) -> list[float]:
    """Return the limit for each source, from the lengths of all sources and references."""
    ratio = RATIO_MARGIN * targets.sum() / max(1, sources.sum())
    excess = targets - ratio * sources
    slack = max(MIN_SLACK, float(np.quantile(excess, COVERED_REFERENCES)))
    # A source that is longer than the limit would be split; truecasing may lengthen it a little.
    return [
        max(ratio * length + slack, SOURCE_MARGIN * length + MIN_SLACK)
        for length in sources.tolist()
    ]
