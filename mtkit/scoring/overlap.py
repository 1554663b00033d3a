"""Which pairs of a test set occur in the training data: scores on these measure memory only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.report import plural

Exposure = Sequence[tuple[bool, bool]]
"""For each test pair, whether its source, and whether its target, occurs in the training data."""


def find_exposure(tests: Sequence[Pair], training: Iterable[Pair]) -> Exposure:
    """Find test sources and targets in the training data; ignore case, width and punctuation."""
    keys = [(normalised(pair.source), normalised(pair.target)) for pair in tests]
    wanted, found = [*map(set, zip(*keys, strict=True))], (set[str](), set[str]())
    for pair in training:
        for text, test_keys, seen in zip(pair[:2], wanted, found, strict=False):
            if (key := normalised(text)) in test_keys:
                seen.add(key)
    return [(source in found[0], target in found[1]) for source, target in keys]


def describe_exposure(exposure: Exposure) -> str:
    """Return how many test sources and targets occur in the training data, in words."""
    sources, targets = (sum(pair[side] for pair in exposure) for side in (0, 1))
    counts = f"{plural(sources, 'source')} and {plural(targets, 'target')}"
    return f"{counts} of {plural(len(exposure), 'test pair')} occur in the training data"
