"""Pairs to subword ids, chunk by chunk; the result does not depend on the number of processes."""

from __future__ import annotations

import os
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from itertools import chain, compress, islice
from multiprocessing import get_all_start_methods, get_context
from multiprocessing.context import BaseContext

import numpy as np

from mtkit.batching.filters import Duplicates, Rule, Rules, is_blank, length_rules
from mtkit.batching.store import Lengths, Tokens, token_dtype
from mtkit.config import BatchingSettings
from mtkit.corpus import Pair
from mtkit.errors import MtkitError
from mtkit.tokenizer.codec import Tokenizer

CHUNK = 4096
"""Pairs encoded at a time."""
ALONE = 16
"""Chunks this process encodes before it starts workers, which would take as long."""

Texts = list[tuple[str, str]]


@dataclass(frozen=True)
class Encoded:
    """A chunk of k pairs of which some are kept."""

    rules: Rules
    """(k,)"""
    lengths: Lengths
    """(kept, 2)"""
    tokens: Tokens
    """Ids of the kept pairs, source then target, end to end."""


class Encoder:
    """Encodes and filters; makes the same of a pair wherever and whenever it runs."""

    def __init__(self, tokenizer: Tokenizer, settings: BatchingSettings) -> None:
        self._tokenizer, self.settings = tokenizer, settings
        self.dtype = token_dtype(max(tokenizer.source_vocab, tokenizer.target_vocab))

    def __call__(self, texts: Texts) -> Encoded:
        sources = self._tokenizer.encode_source([source for source, _ in texts])
        targets = self._tokenizer.encode_target([target for _, target in texts])
        lengths = np.array([list(map(len, sources)), list(map(len, targets))]).T  # (k, 2)
        rules = length_rules(lengths, self.settings)
        rules[[is_blank(source, target) for source, target in texts]] = Rule.BLANK
        kept = rules == Rule.KEPT
        sides = compress(zip(sources, targets, strict=True), kept)
        ids = chain.from_iterable(chain.from_iterable(sides))
        tokens = np.fromiter(ids, self.dtype, int(lengths[kept].sum()))
        return Encoded(rules, lengths[kept].astype(np.uint16), tokens)


def encode_pairs(pairs: Iterable[Pair], encoder: Encoder) -> Iterator[tuple[list[Pair], Encoded]]:
    """Chunks of pairs with what became of them, in order; few are in memory at a time."""
    workers = encoder.settings.workers or os.cpu_count() or 1
    chunks = _chunks(pairs, encoder.settings.deduplicate)
    for chunk in islice(chunks, None if workers == 1 else ALONE):
        yield chunk.pairs, chunk.merged(encoder(chunk.texts))
    if first := next(chunks, None):
        yield from _on_workers(chain([first], chunks), encoder, workers)


@dataclass(frozen=True)
class _Chunk:
    pairs: list[Pair]
    duplicates: Rules | None

    @property
    def texts(self) -> Texts:
        """What is left to encode; nothing for a pair that is dropped already."""
        texts = [(pair.source, pair.target) for pair in self.pairs]
        if self.duplicates is not None:
            for index in np.flatnonzero(self.duplicates):
                texts[index] = ("", "")
        return texts

    def merged(self, encoded: Encoded) -> Encoded:
        if self.duplicates is None:
            return encoded
        rules = np.where(self.duplicates, self.duplicates, encoded.rules)
        return Encoded(rules, encoded.lengths, encoded.tokens)


def _chunks(pairs: Iterable[Pair], deduplicate: bool) -> Iterator[_Chunk]:
    duplicates = Duplicates() if deduplicate else None
    pairs = iter(pairs)
    while chunk := list(islice(pairs, CHUNK)):
        yield _Chunk(chunk, duplicates.rules(chunk) if duplicates else None)


def _on_workers(
    chunks: Iterable[_Chunk], encoder: Encoder, workers: int
) -> Iterator[tuple[list[Pair], Encoded]]:
    flight: deque[tuple[_Chunk, Future[Encoded]]] = deque()
    pool = ProcessPoolExecutor(
        workers, mp_context=_context(), initializer=_start_worker, initargs=(encoder,)
    )
    try:
        with pool:
            for chunk in chunks:
                flight.append((chunk, pool.submit(_work, chunk.texts)))
                if len(flight) > 2 * workers:
                    chunk, future = flight.popleft()
                    yield chunk.pairs, chunk.merged(future.result())
            for chunk, future in flight:
                yield chunk.pairs, chunk.merged(future.result())
    except BrokenProcessPool as error:
        raise MtkitError(
            "a process that encodes was killed (out of memory?): set batching.workers lower"
        ) from error


def _context() -> BaseContext:
    """Workers are copies of one fresh process that has imported this module, where that exists.

    A fork of this process would copy its threads' locks.
    """
    if "forkserver" not in get_all_start_methods():
        return get_context("spawn")
    context = get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


_encoder: Encoder


def _start_worker(encoder: Encoder) -> None:
    global _encoder
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that reads
    _encoder = encoder


def _work(texts: Texts) -> Encoded:
    return _encoder(texts)
