"""Loops: a sentence whose translation repeats itself is searched again, without repetitions.

A translation without a loop is better, whatever its length and its score: those of loops are high
(configs/RESULTS.md). Samples stay as they are, because they are drawn at random, not searched for.
A loop through several sentences of a line stays, too, because each sentence would be translated as
before.
"""

from __future__ import annotations

from dataclasses import dataclass

from mtkit.decoding.estimation.flags import has_loop
from mtkit.tokenizer.codec import Tokenizer

LOOP = "loop"
"""The flag of lines with a loop."""
NGRAM_IN_LOOP = 2
"""The second search repeats no n-gram of this many subwords."""
MIN_REPEATED = 2
"""A loop repeats at least this many subwords; many translations repeat fewer."""


@dataclass(frozen=True)
class LoopJudge:
    """Finds the translations of a sentence that have a loop, and its source has none."""

    tokenizer: Tokenizer
    source: list[int]
    """The subword ids of the sentence."""

    def has_loop(self, tokens: list[int]) -> bool:
        """Return whether the subwords of a translation have a loop."""
        # Most translations repeat less, so that their text is not needed.
        if len(tokens) - len(set(tokens)) < MIN_REPEATED:
            return False
        (text,) = self.tokenizer.decode([tokens])
        (source,) = self.tokenizer.decode_source([self.source])
        return has_loop(text, source)
