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

from mtkit.batching.corpus.read import Pair
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


def length_rules(lengths: NDArray[np.int64], settings: BatchingSettings) -> Rules:
    """What the (k, 2) lengths in subwords say; a side of which nothing is left is blank, too."""
    longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
    rules = np.zeros(len(lengths), np.uint8)
    if settings.max_ratio is not None:
        rules[longer > settings.max_ratio * shorter] = Rule.RATIO
    rules[longer > settings.max_length] = Rule.TOO_LONG
    rules[shorter == 0] = Rule.BLANK
    return rules


def text_rules(pairs: Iterable[Pair], met: set[bytes] | None) -> Rules:
    """What the text itself says.

    `met`: what pairs that came before are known by, where none may come again: a 128-bit hash,
    about 100 bytes of memory each.
    """
    return np.array([_text_rule(pair, met) for pair in pairs], np.uint8)


def _text_rule(pair: Pair, met: set[bytes] | None) -> Rule:
    if not (pair.source.strip() and pair.target.strip()):
        return Rule.BLANK
    if met is None:
        return Rule.KEPT
    known = blake2b(f"{pair.source}\n{pair.target}".encode(), digest_size=16).digest()
    if known in met:
        return Rule.DUPLICATE
    met.add(known)
    return Rule.KEPT


class Drops:
    """How many pairs each rule dropped, and the first of them: where they are, how they begin."""

    def __init__(self) -> None:
        self._by_rule: dict[Rule, dict[str, Any]] = {}

    def add(self, pairs: list[Pair], rules: Rules) -> None:
        for index in np.flatnonzero(rules):
            found = self._by_rule.setdefault(Rule(rules[index]), {"count": 0, "examples": []})
            found["count"] += 1
            if found["count"] <= EXAMPLES_KEPT:
                found["examples"].append(_shown(pairs[index]))

    def record(self) -> dict[str, dict[str, Any]]:
        """For each rule that dropped any, its `count` and `examples`."""
        return {rule.title: self._by_rule[rule] for rule in sorted(self._by_rule)}

    def summary(self) -> str:
        """For instance: 3 blank, 14 too long."""
        return ", ".join(f"{found['count']:,} {rule}" for rule, found in self.record().items())

    def lines(self) -> Iterator[str]:
        """What people should see of it: nothing where nothing was dropped."""
        for rule, found in self.record().items():
            yield f"  dropped {found['count']:,} {rule}, for instance"
            for shown in found["examples"][:2]:
                yield f"    {shown['where']}  {shown['source']!r} | {shown['target']!r}"


def _shown(pair: Pair) -> dict[str, str]:
    return {
        "where": pair.where,
        "source": _beginning(pair.source),
        "target": _beginning(pair.target),
    }


def _beginning(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
