"""The token store of a part, with a key of each row by which repeated pairs are found.

Besides the files of a token store there are `NAME.keys`, sorted by key, and `NAME.buckets`, which
says where the keys of each first byte begin. So the keys of all parts can be compared bucket by
bucket, and memory holds a 256th of them at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.manifest import Artifact
from mtkit.batching.encode import Encoded, key_of_pair
from mtkit.batching.store import Lengths, Tokens, store_writer, token_dtype

KEYED_ROW = np.dtype([("key", np.uint64), ("row", np.uint32), ("position", np.uint32)])
"""A hash of a pair, its row in the store, and its position among all pairs of the part, from 0."""
BITS_AFTER_FIRST_BYTE = 56
"""Of the 64 bits of a key."""
BUCKETS = 256
"""One for each value of the first byte of a key."""


@contextmanager
def part_writer(folder: Path, name: str, vocab: int) -> Iterator[Callable[[Encoded], None]]:
    """Yield a function that appends the kept pairs of a chunk to the store `name` of a part.

    `vocab`: size of the larger vocabulary.
    """
    chunks_of_keys: list[NDArray[Any]] = [np.empty(0, KEYED_ROW)]
    written_rows = 0
    read_pairs = 0
    with store_writer(folder, name, vocab) as append_to_store:

        def append(chunk: Encoded) -> None:
            nonlocal written_rows, read_pairs
            corpora = np.array([pair.corpus for pair in chunk.kept], np.uint16)
            append_to_store(chunk.tokens, chunk.lengths, corpora)
            keys = np.empty(len(chunk.kept), KEYED_ROW)
            keys["key"] = [key_of_pair(pair) for pair in chunk.kept]
            keys["row"] = np.arange(written_rows, written_rows + len(keys))
            keys["position"] = [read_pairs + position for position in chunk.positions]
            chunks_of_keys.append(keys)
            written_rows += len(keys)
            read_pairs += chunk.pairs

        yield append
    keys = np.concatenate(chunks_of_keys)
    # Stable, so that equal keys stay in the order of the rows.
    keys = keys[np.argsort(keys["key"], kind="stable")]
    keys.tofile(folder / f"{name}.keys")
    first_bytes = keys["key"] >> np.uint64(BITS_AFTER_FIRST_BYTE)
    buckets = np.searchsorted(first_bytes, np.arange(BUCKETS + 1))
    buckets.astype(np.int64).tofile(folder / f"{name}.buckets")


class PartRows(NamedTuple):
    """Rows of a part, as `store_writer` appends them."""

    tokens: Tokens
    lengths: Lengths
    """(k, 2)"""
    corpora: NDArray[np.uint16]
    """(k,)"""


class PartStore:
    """The store `name` of a part."""

    def __init__(self, part: Artifact, name: str) -> None:
        self._part = part
        self._name = name
        self._buckets = np.fromfile(self._file("buckets"), np.int64)

    def __len__(self) -> int:
        return int(self._buckets[-1])

    def _file(self, suffix: str) -> Path:
        return self._part.file(f"{self._name}.{suffix}")

    def read_keys(self, bucket: int) -> NDArray[Any]:
        """Return the KEYED_ROWs whose keys have the first byte `bucket`, sorted by key."""
        start, end = self._buckets[bucket : bucket + 2].tolist()
        offset = start * KEYED_ROW.itemsize
        return np.fromfile(self._file("keys"), KEYED_ROW, count=end - start, offset=offset)

    def find_positions(self, rows: NDArray[np.integer[Any]]) -> list[int]:
        """Return the positions of some rows among all pairs of the part, in order."""
        keys = np.fromfile(self._file("keys"), KEYED_ROW)
        is_wanted = np.isin(keys["row"], rows)
        return sorted(keys["position"][is_wanted].tolist())

    def read(self, vocab: int, is_kept: NDArray[np.bool_]) -> PartRows:
        """Return the rows that are kept.

        `vocab`: size of the larger vocabulary; `is_kept`: a value for each row of the part.
        """
        dtype = token_dtype(vocab)
        tokens = np.fromfile(self._file(dtype.name), dtype)
        lengths = np.fromfile(self._file("lengths"), np.uint16).reshape(-1, 2)
        corpora = np.fromfile(self._file("corpora"), np.uint16)
        ids_of_row = lengths.sum(axis=1, dtype=np.int64)
        is_kept_token = np.repeat(is_kept, ids_of_row)
        return PartRows(tokens[is_kept_token], lengths[is_kept], corpora[is_kept])


def find_repeated(stores: Sequence[PartStore]) -> list[NDArray[np.bool_]]:
    """Return for each row of each store whether a row with an equal key comes before it.

    Memory holds one byte per row, and one bucket of keys.
    """
    sizes = [len(store) for store in stores]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    is_repeated = np.zeros(sum(sizes), np.bool_)
    for bucket in range(BUCKETS):
        entries = [store.read_keys(bucket) for store in stores]
        keys = np.concatenate([own["key"] for own in entries])
        # Rows are numbered across all stores.
        rows = np.concatenate(
            [own["row"] + start for own, start in zip(entries, starts, strict=True)]
        )
        # Stable, so that of rows with equal keys the first one comes first.
        order = np.argsort(keys, kind="stable")
        keys, rows = keys[order], rows[order]
        # Equal keys are neighbours now; all but the first of them are repeated.
        has_equal_before = keys[1:] == keys[:-1]
        later_rows = rows[1:]
        is_repeated[later_rows[has_equal_before]] = True
    return np.split(is_repeated, ends[:-1])
