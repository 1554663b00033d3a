"""Count which pairs a stage kept, and why it dropped others."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mtkit.batching.store import Lengths
from mtkit.corpus.findings import FaultyPairs
from mtkit.corpus.read import Pair
from mtkit.report import fitted, plural, printable, say

EXAMPLES_PER_REASON = 5
"""How many dropped pairs report.json shows for each reason."""
PRINTED_EXAMPLES = 2
"""How many of them stderr shows."""


class Dropped:
    """The dropped pairs, by reason."""

    def __init__(self) -> None:
        self._reasons: dict[str, FaultyPairs] = {}

    def add(self, pair: Pair, reason: str) -> None:
        """Count a pair; keep the first few as examples."""
        faulty = FaultyPairs(max_examples=EXAMPLES_PER_REASON)
        self._reasons.setdefault(reason, faulty).add(pair)

    def record(self) -> dict[str, Any]:
        """Return counts and examples by reason, for JSON."""
        return {
            reason: {"count": pairs.count, "examples": pairs.examples}
            for reason, pairs in sorted(self._reasons.items())
        }

    def counts(self) -> dict[str, int]:
        """Return the number of pairs by reason."""
        return {reason: pairs.count for reason, pairs in sorted(self._reasons.items())}

    def say(self) -> None:
        """Print the counts, with some examples."""
        for reason, pairs in sorted(self._reasons.items()):
            say(f"  dropped {plural(pairs.count, 'pair')} ({reason}), such as")
            for example in pairs.examples[:PRINTED_EXAMPLES]:
                source, target = printable(example["source"]), printable(example["target"])
                say(f"    {example['where']}")
                say(fitted(f"      source  {source}"))
                say(fitted(f"      target  {target}"))


@dataclass
class Counts:
    """How many pairs of a corpus were kept, and why the others were dropped."""

    kept: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    dropped: Dropped = field(default_factory=Dropped)

    @property
    def pairs(self) -> int:
        return self.kept + sum(self.dropped.counts().values())

    def add(self, lengths: Lengths) -> None:
        """Count rows of the store; `lengths`: (k, 2)."""
        # The lengths are uint16, in which the sum would overflow.
        source_tokens, target_tokens = lengths.sum(axis=0, dtype=np.int64).tolist()
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        self.kept += len(lengths)

    def record(self, *, with_examples: bool = True) -> dict[str, Any]:
        """Return the counts as a dict for JSON; dropped pairs by reason."""
        return {
            "pairs": self.pairs,
            "kept": self.kept,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "dropped": self.dropped.record() if with_examples else self.dropped.counts(),
        }

    def say(self, name: str) -> None:
        """Print the counts of the corpus `name`, with examples of dropped pairs."""
        kept = f"{self.kept:,} of {plural(self.pairs, 'pair')} kept"
        subwords = f"{self.source_tokens:,} source, {self.target_tokens:,} target"
        say(f"{name}: {kept}; subwords: {subwords}")
        self.dropped.say()
