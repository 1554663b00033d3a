"""A source of chance that gives the same choices under every version of Python.

Only `random.Random.random` is promised to stay the same for a seed, so all rests on it.
"""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Chance:
    """Seeded choices."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def one(self, items: Sequence[T]) -> T:
        """One of the items, all equally likely."""
        return items[int(self._random.random() * len(items))]

    def happens(self, probability: float) -> bool:
        """True with this probability."""
        return self._random.random() < probability

    def number(self, low: int, high: int) -> int:
        """An integer between the two, both included."""
        return low + int(self._random.random() * (high - low + 1))

    def weighted(self, items: Sequence[tuple[T, int]]) -> T:
        """One of the items, as likely as its weight."""
        point = self._random.random() * sum(weight for _, weight in items)
        for item, weight in items:
            point -= weight
            if point < 0:
                return item
        return items[-1][0]
