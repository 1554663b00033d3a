"""Count which pairs a stage kept, and why it dropped others."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from mtkit.batching.encode import FAULTS, KEPT, Encoded
from mtkit.corpus.findings import FaultyPairs
from mtkit.corpus.store import CorpusRows
from mtkit.report import fitted, plural, printable, say

EXAMPLES_PER_REASON = 5
"""How many dropped pairs report.json shows for each reason."""
PRINTED_EXAMPLES = 2
"""How many of them stderr shows."""


@dataclass
class Counts:
    """How many pairs of a corpus were kept, and why the others were dropped."""

    kept: int = 0
    source_tokens: int = 0
    target_tokens: int = 0
    dropped: dict[str, FaultyPairs] = field(default_factory=dict)
    """The dropped pairs, by reason."""

    @property
    def pairs(self) -> int:
        return self.kept + sum(pairs.count for pairs in self.dropped.values())

    def add(self, corpus: CorpusRows, rows: range, encoded: Encoded) -> None:
        """Count encoded rows of a corpus; keep the first few dropped ones as examples."""
        # The lengths are uint16, in which the sum would overflow.
        source_tokens, target_tokens = encoded.lengths.sum(axis=0, dtype=np.int64).tolist()
        self.source_tokens += source_tokens
        self.target_tokens += target_tokens
        self.kept += len(encoded.lengths)
        for fault in set(encoded.faults.tolist()) - {KEPT}:
            faulty_rows = rows.start + np.flatnonzero(encoded.faults == fault)
            faulty = self.dropped.setdefault(FAULTS[fault], FaultyPairs())
            faulty.count += len(faulty_rows)
            missing_examples = EXAMPLES_PER_REASON - len(faulty.examples)
            for pair in corpus.read(faulty_rows[:missing_examples]):
                faulty.examples.append(pair.excerpt())

    def record(self, *, with_examples: bool = True) -> dict[str, Any]:
        """Return the counts as a dict for JSON; dropped pairs by reason."""
        dropped: dict[str, Any] = {}
        for reason, pairs in self.dropped.items():
            dropped[reason] = asdict(pairs) if with_examples else pairs.count
        return {
            "pairs": self.pairs,
            "kept": self.kept,
            "source_tokens": self.source_tokens,
            "target_tokens": self.target_tokens,
            "dropped": dropped,
        }

    def say(self, name: str) -> None:
        """Print the counts of the corpus `name`, with examples of dropped pairs."""
        kept = f"{self.kept:,} of {plural(self.pairs, 'pair')} kept"
        subwords = f"{self.source_tokens:,} source, {self.target_tokens:,} target"
        say(f"{name}: {kept}; subwords: {subwords}")
        for reason, pairs in sorted(self.dropped.items()):
            say(f"  dropped {plural(pairs.count, 'pair')} ({reason}), such as")
            for example in pairs.examples[:PRINTED_EXAMPLES]:
                say(f"    {example['where']}")
                for side in ("source", "target"):
                    say(fitted(f"      {side}  {printable(example[side])}"))
