"""How much of a test set occurs in the training data: such pairs measure memory, not translation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.report import plural

Exposure = tuple[bool, bool]
"""Whether the source of a test pair, and its target, occurs in the training data."""


def find_exposure(tests: Sequence[Pair], training: Iterable[Pair]) -> list[Exposure]:
    """Return the exposure of each test pair.

    Texts that differ only in case, width, spaces or punctuation count as equal.
    """
    keys = [(normalised(pair.source), normalised(pair.target)) for pair in tests]
    wanted, found = [set(side) for side in zip(*keys, strict=True)], (set[str](), set[str]())
    for pair in training:
        for text, test_keys, seen in zip(pair[:2], wanted, found, strict=True):
            if (key := normalised(text)) in test_keys:
                seen.add(key)
    return [(source in found[0], target in found[1]) for source, target in keys]


def describe_exposure(exposure: Sequence[Exposure]) -> str:
    """Say how many sources and targets of a test set occur in the training data."""
    counts = [plural(sum(side), noun) for side, noun in zip(zip(*exposure), ("source", "target"))]
    return f"{counts[0]} and {counts[1]} of {len(exposure):,} test pairs occur in the training data"
