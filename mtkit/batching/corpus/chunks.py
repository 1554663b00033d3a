"""Pairs by the chunk, for whatever is quicker for many at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mtkit.batching.corpus.read import Pair

CHUNK_PAIRS = 1024
CHUNK_CHARACTERS = 1 << 20
"""Number of characters that fill a chunk too, so that long lines do not fill memory."""


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """The pairs, so many at a time as fill CHUNK_PAIRS or CHUNK_CHARACTERS."""
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
