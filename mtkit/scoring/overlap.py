"""The overlap of a test set with the training data: scores on such pairs measure memory only."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.report import plural


@dataclass(frozen=True)
class Overlap:
    """Which texts of a test set occur in the training data, pair by pair."""

    sources: Sequence[bool]
    targets: Sequence[bool]

    @property
    def pairs(self) -> list[bool]:
        """For each pair, whether its source or its target occurs in the training data."""
        sides = zip(self.sources, self.targets, strict=True)
        return [source or target for source, target in sides]

    def __str__(self) -> str:
        sources = plural(sum(self.sources), "source")
        targets = plural(sum(self.targets), "target")
        pairs = plural(len(self.sources), "test pair")
        return f"{sources} and {targets} of {pairs} occur in the training data"


def find_overlap(test_pairs: Sequence[Pair], training: Iterable[Pair]) -> Overlap:
    """Find test sources and targets in the training data; ignore case, width and punctuation."""
    test_sources = [normalised(pair.source) for pair in test_pairs]
    test_targets = [normalised(pair.target) for pair in test_pairs]
    unseen_sources = set(test_sources)
    unseen_targets = set(test_targets)
    for pair in training:
        unseen_sources.discard(normalised(pair.source))
        unseen_targets.discard(normalised(pair.target))
    return Overlap(
        sources=[source not in unseen_sources for source in test_sources],
        targets=[target not in unseen_targets for target in test_targets],
    )
