"""Token ids of sentence pairs on disk, memory-mapped: any row at once, whatever the size.

`NAME.uint16` (or `.int32`) holds source then target ids, pair after pair, without BOS and EOS;
`NAME.lengths.npy` holds the (n, 2) lengths, whose running sum says where a pair starts;
`NAME.corpus.npy`, where there are several corpora, says which one a pair came from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError

Tokens = NDArray[np.uint16] | NDArray[np.int32]
Lengths = NDArray[np.uint16]
Corpora = NDArray[np.uint16]
STRIDE = 64
"""Number of rows between those whose place in the ids is kept in memory."""
DTYPES = (np.dtype(np.uint16), np.dtype(np.int32))


def token_dtype(vocab: int) -> np.dtype[Any]:
    """The smallest type that holds all ids of a vocabulary."""
    return DTYPES[0] if vocab <= 1 << 16 else DTYPES[1]


def open_lengths(folder: Path, name: str) -> Lengths:
    """The (n, 2) lengths of the store `name`."""
    return _mapped(folder / f"{name}.lengths.npy", width=(2,))


def open_corpora(folder: Path, name: str) -> Corpora | None:
    """Which corpus each row came from; None where there is one only."""
    path = folder / f"{name}.corpus.npy"
    return _mapped(path, width=()) if path.is_file() else None


def _mapped(path: Path, width: tuple[int, ...]) -> NDArray[np.uint16]:
    """What `_column` wrote; UserError for anything else.

    The header is compared with what it has to be: NumPy's reader would evaluate and believe it.
    """
    start = len(_header((0, *width)))
    sound = False
    with suppress(FileNotFoundError), path.open("rb") as file:
        rows = (os.fstat(file.fileno()).st_size - start) // (2 * prod(width))
        sound = rows > 0 and file.read(start) == _header((rows, *width))
    if not sound:
        raise UserError(f"{path}: no column of a token store: remake it with `mtkit batch`")
    return np.asarray(np.memmap(path, np.uint16, "r", start, (rows, *width)))


def _header(shape: tuple[int, ...]) -> bytes:
    """NumPy's header of an array of 16-bit numbers; it leaves room for any number of rows."""
    header = BytesIO()
    facts = {"descr": np.dtype(np.uint16).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue()


@contextmanager
def store_writer(
    folder: Path, name: str, vocab: int
) -> Iterator[Callable[[Tokens, Lengths, Corpora], None]]:
    """Yields what appends pairs: their ids laid end to end, (k, 2) lengths and k corpora.

    `vocab`: of the larger vocabulary; ids of a type that holds more than these are a TypeError. The
    store is complete when the `with` block ends.
    """
    dtype, several = token_dtype(vocab), False
    corpus = folder / f"{name}.corpus.npy"
    with (
        (folder / f"{name}.{dtype.name}").open("wb") as ids,
        _column(folder / f"{name}.lengths.npy", width=(2,)) as all_lengths,
        _column(corpus, width=()) as all_corpora,
    ):

        def append(tokens: Tokens, lengths: Lengths, corpora: Corpora) -> None:
            nonlocal several
            ids.write(tokens.astype(dtype, casting="safe", copy=False).data)
            all_lengths.write(lengths.tobytes())
            all_corpora.write(corpora.tobytes())
            several |= bool(corpora.any())

        yield append
    if not several:
        corpus.unlink()


@contextmanager
def _column(path: Path, width: tuple[int, ...]) -> Iterator[BinaryIO]:
    """A .npy file of 16-bit numbers that grows row by row, so that memory does not."""
    with path.open("wb") as file:
        start = file.write(_header((0, *width)))
        yield file
        rows = (file.tell() - start) // (2 * prod(width))
        file.seek(0)
        file.write(_header((rows, *width)))


@dataclass(frozen=True)
class Store:
    """Read-only pairs; row numbers count from 0 in the order of the corpus."""

    tokens: Tokens
    lengths: Lengths
    """(n, 2): source and target, without EOS."""
    starts: NDArray[np.int64]
    """(⌊n / STRIDE⌋ + 1,): where each STRIDE-th row starts in `tokens`, with its source."""
    corpora: Corpora | None
    """(n,): index of the corpus a row came from, where there are several."""

    @classmethod
    def open(cls, folder: Path, name: str) -> Store:
        """The store `name` in `folder`; UserError where its files do not fit together."""
        path = next((p for d in DTYPES if (p := folder / f"{name}.{d.name}").is_file()), None)
        if path is None:
            raise UserError(f"{folder}: no token store {name!r} here: remake it with `mtkit batch`")
        lengths = open_lengths(folder, name)
        strides = len(lengths) // STRIDE
        sums = lengths[: strides * STRIDE].reshape(strides, 2 * STRIDE).sum(1, np.int64)
        starts = np.append(0, sums.cumsum())
        end = int(starts[-1]) + int(lengths[strides * STRIDE :].sum(dtype=np.int64))
        dtype = np.dtype(path.suffix.removeprefix("."))
        if not 0 < path.stat().st_size == end * dtype.itemsize:
            raise UserError(f"{path}: does not fit its lengths: remake it with `mtkit batch`")
        corpora = open_corpora(folder, name)
        if corpora is not None and len(corpora) != len(lengths):
            raise UserError(f"{folder}: {name} does not fit its corpora: remake with `mtkit batch`")
        return cls(np.memmap(path, dtype, mode="r"), lengths, starts, corpora)

    def __len__(self) -> int:
        return len(self.lengths)

    def side(
        self, rows: NDArray[np.integer[Any]], *, target: bool
    ) -> tuple[Tokens, NDArray[np.int64]]:
        """Ids of one side of `rows`, laid end to end, and the length of each."""
        lengths = self.lengths[rows].astype(np.int64)
        wanted, before = lengths[:, int(target)], lengths[:, 0] if target else 0
        shifts = self._starts_of(rows) + before + wanted - wanted.cumsum()
        return self.tokens[np.repeat(shifts, wanted) + np.arange(wanted.sum())], wanted

    def _starts_of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """(k,): where each of `rows` starts in `tokens`."""
        known, after = np.divmod(rows, STRIDE)
        # Of up to 63 rows before each, both lengths are fetched as one number.
        between = (known * STRIDE)[:, None] + np.arange(STRIDE - 1)
        both = self.lengths.view(np.uint32)[np.minimum(between, rows[:, None]), 0]
        both = np.where(np.arange(STRIDE - 1) < after[:, None], both, 0)
        passed = ((both & 0xFFFF) + (both >> 16)).sum(axis=1, dtype=np.int64)
        return np.asarray(self.starts[known] + passed)
