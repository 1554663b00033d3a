"""Encode pairs to subword ids, chunk by chunk, and record which pairs are dropped and why.

The reason of a dropped pair is the first of OUTCOMES that applies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.settings import DROP_RULES, BatchingSettings
from mtkit.corpus.read import Pair, chunks
from mtkit.corpus.rules import PairFilter
from mtkit.corpus.statistics import hash_of
from mtkit.machine import count_cores
from mtkit.prefetch import prefetch
from mtkit.report import plural
from mtkit.tokenizer.codec import Tokenizer

EXAMPLES_PER_RULE = 5

OUTCOMES = ("kept", "blank", "duplicate", *DROP_RULES, "too long")
"""All outcomes of a pair: kept, or the reason why it was dropped."""
KEPT, BLANK, DUPLICATE = range(3)
TOO_LONG = len(OUTCOMES) - 1

Outcomes = NDArray[np.uint8]
"""For each pair of a chunk, the index of its outcome in OUTCOMES."""


class Encoded(NamedTuple):
    """A chunk of k pairs, and the ids of those that are kept."""

    pairs: list[Pair]
    outcomes: Outcomes
    """(k,)"""
    lengths: Lengths
    """(kept, 2): source and target lengths of the kept pairs, in subwords."""
    tokens: Tokens
    """Concatenated ids of the kept pairs, for each pair source then target."""


def encode_pairs(
    pairs: Iterable[Pair],
    tokenizer: Tokenizer,
    settings: BatchingSettings,
    pair_filter: PairFilter | None = None,
) -> Iterator[Encoded]:
    """Yield chunks of encoded pairs in order; only a few chunks are in memory.

    `pair_filter`: the rules of `batching.drop`; None: no rules.
    """
    # Pairs are deduplicated by 64-bit hashes, which take about 70 bytes of memory per pair.
    seen: set[int] | None = set() if settings.deduplicate else None
    threads = count_cores()
    for chunk in prefetch(chunks(pairs)):
        by_text = np.array([_text_outcome(pair, seen, pair_filter) for pair in chunk], np.uint8)
        yield _encode(chunk, by_text, tokenizer, settings.max_length, threads)


def _encode(
    pairs: list[Pair], by_text: Outcomes, tokenizer: Tokenizer, max_length: int, threads: int
) -> Encoded:
    """Encode the pairs that `by_text` (k,) keeps, and drop some of them by their lengths."""
    remaining = list(compress(pairs, by_text == KEPT))
    sources = tokenizer.encode_source([pair.tagged for pair in remaining], threads)
    targets = tokenizer.encode_target([pair.target for pair in remaining], threads)
    lengths = np.array([list(map(len, sources)), list(map(len, targets))], np.int64).T
    by_length = length_outcomes(lengths, max_length)
    outcomes = by_text.copy()
    outcomes[by_text == KEPT] = by_length
    kept = by_length == KEPT
    sides = compress(zip(sources, targets, strict=True), kept)
    ids = chain.from_iterable(chain.from_iterable(sides))
    dtype = token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))
    tokens = np.fromiter(ids, dtype, int(lengths[kept].sum()))
    return Encoded(pairs, outcomes, lengths[kept].astype(np.uint16), tokens)


def length_outcomes(lengths: NDArray[np.int64], max_length: int) -> Outcomes:
    """Return the outcomes of pairs by their (k, 2) lengths; a side without subwords is blank."""
    longer, shorter = lengths.max(axis=1), lengths.min(axis=1)
    outcomes = np.zeros(len(lengths), np.uint8)
    outcomes[longer > max_length] = TOO_LONG
    outcomes[shorter == 0] = BLANK
    return outcomes


def _text_outcome(pair: Pair, seen: set[int] | None, pair_filter: PairFilter | None) -> int:
    """Return the outcome of a pair by its text; `seen`: hashes of earlier pairs, to deduplicate."""
    if pair.blank:
        return BLANK
    if seen is not None:
        if (key := hash_of(pair)) in seen:
            return DUPLICATE
        seen.add(key)
    rule = pair_filter.broken_rule(pair) if pair_filter else None
    return KEPT if rule is None else OUTCOMES.index(rule)


class DroppedPairs:
    """For each reason, the number of dropped pairs, and the first pairs as examples."""

    def __init__(self) -> None:
        self._by_outcome: dict[int, dict[str, Any]] = {}

    def add(self, pairs: list[Pair], outcomes: Outcomes) -> None:
        """Count the dropped pairs of a chunk."""
        for index in np.flatnonzero(outcomes):
            dropped = self._by_outcome.setdefault(
                int(outcomes[index]), {"count": 0, "examples": []}
            )
            dropped["count"] += 1
            if dropped["count"] <= EXAMPLES_PER_RULE:
                dropped["examples"].append(pairs[index].excerpt())

    def record(self) -> dict[str, dict[str, Any]]:
        """Return the `count` and `examples` of each reason."""
        return {OUTCOMES[key]: self._by_outcome[key] for key in sorted(self._by_outcome)}

    def summary(self) -> str:
        """Return the counts as text, such as "3 blank, 14 too long"."""
        return ", ".join(f"{dropped['count']:,} {name}" for name, dropped in self.record().items())

    def lines(self) -> Iterator[str]:
        """Yield a line for each reason with its count, followed by two examples."""
        for name, dropped in self.record().items():
            yield f"  dropped {plural(dropped['count'], 'pair')} ({name}), such as"
            for example in dropped["examples"][:2]:
                yield f"    {example['where']}  {example['source']!r} | {example['target']!r}"
