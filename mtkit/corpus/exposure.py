"""How much of a test set occurs in the training data: such pairs measure memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.report import plural


@dataclass(frozen=True)
class Exposure:
    """Whether the source of each test pair, and its target, occurs in the training data."""

    sources: list[bool]
    targets: list[bool]

    @classmethod
    def of(cls, tests: Sequence[Pair], training: Iterable[Pair]) -> Exposure:
        """Return the exposure of test pairs.

        Texts that differ only in case, width, spaces or punctuation count as equal.
        """
        keys = [normalised(pair.source) for pair in tests], [normalised(it.target) for it in tests]
        wanted, found = [*map(set, keys)], (set[str](), set[str]())
        for pair in training:
            for text, test_keys, seen in zip(pair[:2], wanted, found, strict=True):
                if (key := normalised(text)) in test_keys:
                    seen.add(key)
        return cls(*([key in seen for key in side] for side, seen in zip(keys, found, strict=True)))

    @property
    def is_seen(self) -> list[bool]:
        """Whether the source or the target of each pair occurs in the training data."""
        return [any(sides) for sides in zip(self.sources, self.targets, strict=True)]

    def __str__(self) -> str:
        sources, targets = plural(sum(self.sources), "source"), plural(sum(self.targets), "target")
        pairs = plural(len(self.sources), "test pair")
        return f"{sources} and {targets} of {pairs} occur in the training data"
