"""Pairs to subword ids, chunk by chunk; the result does not depend on the number of threads.

Threads suffice, as SentencePiece lets others run while it encodes.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, compress

import numpy as np

from mtkit.batching.corpus.pair import Pair
from mtkit.batching.filters import Rule, Rules, TextRules, length_rules
from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config.settings import BatchingSettings
from mtkit.tokenizer.codec import Tokenizer

CHUNK_PAIRS = 1024
"""Number of pairs that are encoded together."""
CHUNK_CHARACTERS = 1 << 20
"""Number of characters that fill a chunk too, so that long lines do not fill memory."""


@dataclass(frozen=True)
class Encoded:
    """A chunk of k pairs of which some are kept."""

    rules: Rules
    """(k,): the rule that each pair fell to."""
    lengths: Lengths
    """(kept, 2): lengths of source and target in subwords."""
    tokens: Tokens
    """Ids of the kept pairs, source then target, end to end."""


class Encoder:
    """Encodes and filters; makes the same of a pair wherever and whenever it runs."""

    def __init__(self, tokenizer: Tokenizer, settings: BatchingSettings) -> None:
        self._tokenizer, self.settings = tokenizer, settings
        self.dtype = token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))

    def __call__(self, pairs: list[Pair], by_text: Rules) -> Encoded:
        """`by_text` (k,): what is dropped already, and hence not encoded."""
        left = list(compress(pairs, by_text == Rule.KEPT))
        sources = self._tokenizer.encode_source([pair.source for pair in left])
        targets = self._tokenizer.encode_target([pair.target for pair in left])
        lengths = np.array([list(map(len, sources)), list(map(len, targets))], np.int64).T
        by_length = length_rules(lengths, self.settings)
        rules = by_text.copy()
        rules[by_text == Rule.KEPT] = by_length
        kept = by_length == Rule.KEPT
        sides = compress(zip(sources, targets, strict=True), kept)
        ids = chain.from_iterable(chain.from_iterable(sides))
        tokens = np.fromiter(ids, self.dtype, int(lengths[kept].sum()))
        return Encoded(rules, lengths[kept].astype(np.uint16), tokens)


def encode_pairs(pairs: Iterable[Pair], encoder: Encoder) -> Iterator[tuple[list[Pair], Encoded]]:
    """Chunks of pairs with what became of them, in order; few are in memory at a time."""
    by_text, pairs = TextRules(encoder.settings), iter(pairs)
    workers = encoder.settings.workers or os.cpu_count() or 1
    flight: deque[tuple[list[Pair], Future[Encoded]]] = deque()
    pool = ThreadPoolExecutor(workers)
    gc.disable()  # nothing here makes cycles, and looking for them takes a tenth of the time
    try:
        for chunk in _chunks(pairs):
            flight.append((chunk, pool.submit(encoder, chunk, by_text(chunk))))
            if len(flight) > 2 * workers:
                yield _landed(flight)
        while flight:
            yield _landed(flight)
    finally:
        gc.enable()
        pool.shutdown(cancel_futures=True)


def _landed(flight: deque[tuple[list[Pair], Future[Encoded]]]) -> tuple[list[Pair], Encoded]:
    chunk, future = flight.popleft()
    return chunk, future.result()


def _chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    chunk: list[Pair] = []
    held = 0
    for pair in pairs:
        chunk.append(pair)
        held += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK_PAIRS or held >= CHUNK_CHARACTERS:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk
