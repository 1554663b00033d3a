"""Which pairs are dropped, and the record of it.

Rules apply in the order of `Rule`; the first that fits names the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import IntEnum
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.corpus.pair import Pair
from mtkit.config.settings import BatchingSettings

EXAMPLES_KEPT = 5
SHOWN_CHARACTERS = 80
"""Number of characters that are shown of each side of an example."""


class Rule(IntEnum):
    KEPT = 0
    BLANK = 1
    DUPLICATE = 2
    TOO_LONG = 3
    RATIO = 4

    @property
    def title(self) -> str:
        return self.name.lower().replace("_", " ")


Rules = NDArray[np.uint8]
"""A `Rule` for each pair of a chunk."""


def is_blank(source: str, target: str) -> bool:
    return not (source.strip() and target.strip())


def length_rules(lengths: NDArray[np.int64], settings: BatchingSettings) -> Rules:
    """What the (k, 2) lengths in subwords say; a side of which nothing is left is blank, too."""
    longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
    rules = np.zeros(len(lengths), np.uint8)
    if settings.max_ratio is not None:
        rules[longer > settings.max_ratio * shorter] = Rule.RATIO
    rules[longer > settings.max_length] = Rule.TOO_LONG
    rules[shorter == 0] = Rule.BLANK
    return rules


class TextRules:
    """What the text itself says, chunk after chunk.

    Deduplication knows pairs it has met by a 128-bit hash: about 100 bytes of memory each.
    """

    def __init__(self, settings: BatchingSettings) -> None:
        self._deduplicate = settings.deduplicate
        self._met: set[bytes] = set()

    def __call__(self, pairs: Iterable[Pair]) -> Rules:
        return np.array([self._rule(pair) for pair in pairs], np.uint8)

    def _rule(self, pair: Pair) -> Rule:
        if is_blank(pair.source, pair.target):
            return Rule.BLANK
        if self._deduplicate and self._is_known(pair):
            return Rule.DUPLICATE
        return Rule.KEPT

    def _is_known(self, pair: Pair) -> bool:
        text = f"{pair.source}\n{pair.target}".encode()
        count = len(self._met)
        self._met.add(blake2b(text, digest_size=16).digest())
        return len(self._met) == count


class Drops:
    """How many pairs each rule dropped, and the first of them."""

    def __init__(self) -> None:
        self.counts: dict[Rule, int] = {}
        self.examples: dict[Rule, list[Pair]] = {}

    def add(self, pairs: list[Pair], rules: Rules) -> None:
        for index in np.flatnonzero(rules):
            rule = Rule(rules[index])
            self.counts[rule] = self.counts.get(rule, 0) + 1
            examples = self.examples.setdefault(rule, [])
            if len(examples) < EXAMPLES_KEPT:
                examples.append(pairs[index])

    def summary(self) -> str:
        """For instance: 3 blank, 14 too long."""
        return ", ".join(f"{n:,} {rule.title}" for rule, n in sorted(self.counts.items()))

    def lines(self) -> Iterator[str]:
        """What people should see of it: nothing where nothing was dropped."""
        for rule, count in sorted(self.counts.items()):
            yield f"  dropped {count:,} {rule.title}, for instance"
            for pair in self.examples[rule][:2]:
                where, source, target = _shown(pair).values()
                yield f"    {where}  {source!r} | {target!r}"

    def record(self) -> dict[str, Any]:
        """How many pairs each rule dropped, where the first are and how they begin."""
        return {
            rule.title: {"count": count, "examples": [_shown(p) for p in self.examples[rule]]}
            for rule, count in sorted(self.counts.items())
        }


def _shown(pair: Pair) -> dict[str, str]:
    sides = {"source": pair.source, "target": pair.target}
    return {"where": pair.where, **{k: _shortened(text) for k, text in sides.items()}}


def _shortened(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
