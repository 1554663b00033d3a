"""Pairs to subword ids, chunk by chunk; the result does not depend on the number of threads.

Threads suffice, as SentencePiece lets others run while it encodes.
"""

from __future__ import annotations

import gc
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, compress
from typing import NamedTuple

import numpy as np

from mtkit.batching.corpus.read import Pair
from mtkit.batching.filters import Rule, Rules, length_rules, text_rules
from mtkit.batching.store import Lengths, Tokens
from mtkit.config.settings import BatchingSettings
from mtkit.tokenizer.codec import Tokenizer

CHUNK_PAIRS = 1024
"""Number of pairs that are encoded together."""
CHUNK_CHARACTERS = 1 << 20
"""Number of characters that fill a chunk too, so that long lines do not fill memory."""


class Encoded(NamedTuple):
    """A chunk of k pairs of which some are kept."""

    pairs: list[Pair]
    rules: Rules
    """(k,): the rule that each pair fell to."""
    lengths: Lengths
    """(kept, 2): lengths of source and target in subwords."""
    tokens: Tokens
    """Ids of the kept pairs, source then target, end to end."""


def encode_pairs(
    pairs: Iterable[Pair], tokenizer: Tokenizer, settings: BatchingSettings
) -> Iterator[Encoded]:
    """Chunks of pairs with what became of them, in order; few are in memory at a time."""
    met: set[bytes] | None = set() if settings.deduplicate else None
    workers = settings.workers or os.cpu_count() or 1
    flight: deque[Future[Encoded]] = deque()
    pool = ThreadPoolExecutor(workers)
    gc.disable()  # nothing here makes cycles, and looking for them takes a tenth of the time
    try:
        for chunk in _chunks(pairs):
            by_text = text_rules(chunk, met)
            flight.append(pool.submit(_encode, chunk, by_text, tokenizer, settings))
            if len(flight) > 2 * workers:
                yield flight.popleft().result()
        while flight:
            yield flight.popleft().result()
    finally:
        gc.enable()
        pool.shutdown(cancel_futures=True)


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


def _encode(
    pairs: list[Pair], by_text: Rules, tokenizer: Tokenizer, settings: BatchingSettings
) -> Encoded:
    """`by_text` (k,): what is dropped already, and hence not encoded."""
    left = list(compress(pairs, by_text == Rule.KEPT))
    sources = tokenizer.encode_source([pair.source for pair in left])
    targets = tokenizer.encode_target([pair.target for pair in left])
    lengths = np.array([list(map(len, sources)), list(map(len, targets))], np.int64).T
    by_length = length_rules(lengths, settings)
    rules = by_text.copy()
    rules[by_text == Rule.KEPT] = by_length
    kept = by_length == Rule.KEPT
    sides = compress(zip(sources, targets, strict=True), kept)
    ids = chain.from_iterable(chain.from_iterable(sides))
    tokens = np.fromiter(ids, np.int32, int(lengths[kept].sum()))
    return Encoded(pairs, rules, lengths[kept].astype(np.uint16), tokens)
