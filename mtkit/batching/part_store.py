"""The token store of a part, with a key of each row by which repeated pairs are found.

Besides the files of a token store there are `NAME.keys`, sorted by key, and `NAME.buckets`, which
says where the keys of each first byte begin. So the keys of all parts can be compared bucket by
bucket, and memory holds a 256th of them.
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

BUCKETS = 256
KEY_BITS = 64
KEYED_ROW = np.dtype([("key", np.uint64), ("row", np.uint32), ("place", np.uint32)])
"""A hash of a pair, its row in the store, and its place among all pairs of the part, from 0."""


@contextmanager
def part_writer(folder: Path, name: str, vocab: int) -> Iterator[Callable[[Encoded], None]]:
    """Yield a function that appends the kept pairs of a chunk to the store `name` of a part."""
    chunks_of_keys: list[NDArray[Any]] = [np.empty(0, KEYED_ROW)]
    rows = 0
    with store_writer(folder, name, vocab) as append_to_store:

        def append(chunk: Encoded) -> None:
            nonlocal rows
            corpora = np.array([pair.corpus for pair in chunk.kept], np.uint16)
            append_to_store(chunk.tokens, chunk.lengths, corpora)
            keys = np.empty(len(chunk.kept), KEYED_ROW)
            keys["key"] = [key_of_pair(pair) for pair in chunk.kept]
            keys["row"] = np.arange(rows, rows + len(keys))
            keys["place"] = chunk.places
            chunks_of_keys.append(keys)
            rows += len(keys)

        yield append
    keys = np.concatenate(chunks_of_keys)
    # Stable, so that equal keys stay in the order of the rows.
    keys = keys[np.argsort(keys["key"], kind="stable")]
    keys.tofile(folder / f"{name}.keys")
    first_bytes = keys["key"] >> np.uint64(KEY_BITS - 8)
    buckets = np.searchsorted(first_bytes, np.arange(BUCKETS + 1))
    buckets.astype(np.int64).tofile(folder / f"{name}.buckets")


class PartRows(NamedTuple):
    """Rows of a part: what a token store appends."""

    tokens: Tokens
    lengths: Lengths
    """(k, 2)"""
    corpora: NDArray[np.uint16]
    """(k,)"""

    def select(self, is_selected: NDArray[np.bool_]) -> PartRows:
        """Return some of the rows; `is_selected`: (k,)."""
        if is_selected.all():
            return self
        sizes = self.lengths.sum(axis=1, dtype=np.int64)  # ids of each row
        return PartRows(
            tokens=self.tokens[np.repeat(is_selected, sizes)],
            lengths=self.lengths[is_selected],
            corpora=self.corpora[is_selected],
        )


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

    def read_bucket(self, bucket: int) -> NDArray[Any]:
        """Return the KEYED_ROWs whose keys have the first byte `bucket`, sorted by key."""
        start, end = self._buckets[bucket : bucket + 2].tolist()
        offset = start * KEYED_ROW.itemsize
        return np.fromfile(self._file("keys"), KEYED_ROW, count=end - start, offset=offset)

    def find_places(self, rows: NDArray[np.integer[Any]]) -> list[int]:
        """Return the places of some rows among all pairs of the part, in order."""
        keys = np.fromfile(self._file("keys"), KEYED_ROW)
        return sorted(keys["place"][np.isin(keys["row"], rows)].tolist())

    def read(self, vocab: int) -> PartRows:
        """Return all rows; `vocab`: size of the larger vocabulary."""
        dtype = token_dtype(vocab)
        return PartRows(
            tokens=np.fromfile(self._file(dtype.name), dtype),
            lengths=np.fromfile(self._file("lengths"), np.uint16).reshape(-1, 2),
            corpora=np.fromfile(self._file("corpora"), np.uint16),
        )


def find_repeated(stores: Sequence[PartStore]) -> list[NDArray[np.bool_]]:
    """Return for each row of each store whether an equal pair comes before it.

    Memory holds one byte per row, and one bucket of keys.
    """
    ends = np.cumsum([len(store) for store in stores])
    starts = ends - [len(store) for store in stores]
    is_repeated = np.zeros(ends[-1], np.bool_)
    for bucket in range(BUCKETS):
        keys: list[NDArray[Any]] = []
        rows: list[NDArray[Any]] = []
        for store, start in zip(stores, starts, strict=True):
            entries = store.read_bucket(bucket)
            keys.append(entries["key"])
            rows.append(entries["row"] + start)  # numbered across all stores
        all_keys, all_rows = np.concatenate(keys), np.concatenate(rows)
        # Stable, so that the first of equal pairs comes first.
        order = np.argsort(all_keys, kind="stable")
        sorted_keys = all_keys[order]
        has_equal_before = sorted_keys[1:] == sorted_keys[:-1]
        is_repeated[all_rows[order[1:][has_equal_before]]] = True
    return np.split(is_repeated, ends[:-1])
