"""Token stores: ids of sentence pairs on disk, memory-mapped, with random access to any row.

`NAME.uint16` (or `.int32`) holds source then target ids, pair after pair, without BOS and EOS;
`NAME.lengths.npy` holds the (n, 2) lengths, whose running sum says where a pair starts;
`NAME.corpus.npy` holds the place of each pair's corpus, if there are several.
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
STRIDE = 64
"""Only the place of every row of this many is kept in memory."""
DTYPES = (np.dtype(np.uint16), np.dtype(np.int32))


def token_dtype(vocab: int) -> np.dtype[Any]:
    """Return the smallest type that holds all ids of a vocabulary."""
    return DTYPES[0] if vocab <= 1 << 16 else DTYPES[1]


def _open_column(path: Path, width: tuple[int, ...]) -> NDArray[np.uint16]:
    """Map a file that `_column` wrote; UserError for any other.

    The header is compared with the expected one, as NumPy's reader would evaluate it.
    """
    start = len(_header((0, *width)))
    is_sound = False
    with suppress(FileNotFoundError), path.open("rb") as file:
        rows = (os.fstat(file.fileno()).st_size - start) // (2 * prod(width))
        is_sound = rows > 0 and file.read(start) == _header((rows, *width))
    if not is_sound:
        raise UserError(f"{path}: not a column of a token store: rebuild it with `mtkit batch`")
    return np.asarray(np.memmap(path, np.uint16, "r", start, (rows, *width)))


def _header(shape: tuple[int, ...]) -> bytes:
    """Return NumPy's header of a 16-bit array, whose size does not depend on the number of rows."""
    header = BytesIO()
    facts = {"descr": np.dtype(np.uint16).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue()


@contextmanager
def store_writer(
    folder: Path, name: str, vocab: int
) -> Iterator[Callable[[Tokens, Lengths, NDArray[np.uint16]], None]]:
    """Yield a function that appends k pairs: their ids end to end, (k, 2) lengths, (k,) corpora.

    The store is complete when the `with` block ends. `vocab`: size of the larger vocabulary.

    Raises:
        TypeError: ids have a type that holds larger vocabularies.
    """
    dtype, several = token_dtype(vocab), False
    corpus = folder / f"{name}.corpus.npy"
    with (
        (folder / f"{name}.{dtype.name}").open("wb") as ids,
        _column(folder / f"{name}.lengths.npy", width=(2,)) as all_lengths,
        _column(corpus, width=()) as all_corpora,
    ):

        def append(tokens: Tokens, lengths: Lengths, corpora: NDArray[np.uint16]) -> None:
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
    """Open a .npy file of 16-bit numbers for appending rows."""
    with path.open("wb") as file:
        start = file.write(_header((0, *width)))
        yield file
        rows = (file.tell() - start) // (2 * prod(width))
        file.seek(0)
        file.write(_header((rows, *width)))


@dataclass(frozen=True)
class Store:
    """An opened token store; rows count from 0 in the order of the corpus."""

    tokens: Tokens
    lengths: Lengths
    """(n, 2): source and target, without end of sentence."""
    starts: NDArray[np.int64]
    """(⌊n / STRIDE⌋ + 1,): where every STRIDE-th row starts in `tokens`, with its source."""
    corpora: NDArray[np.uint16] | None
    """(n,): the place of each row's corpus, if there are several."""

    @classmethod
    def open(cls, folder: Path, name: str) -> Store:
        """Open the store `name` in `folder`.

        Raises:
            UserError: there is none, or its files do not fit together.
        """
        path = next((p for d in DTYPES if (p := folder / f"{name}.{d.name}").is_file()), None)
        if path is None:
            raise UserError(f"{folder}: no token store {name!r}: rebuild it with `mtkit batch`")
        lengths = _open_column(folder / f"{name}.lengths.npy", width=(2,))
        strides = len(lengths) // STRIDE
        sums = lengths[: strides * STRIDE].reshape(strides, 2 * STRIDE).sum(1, np.int64)
        starts = np.append(0, sums.cumsum())
        end = int(starts[-1]) + int(lengths[strides * STRIDE :].sum(dtype=np.int64))
        dtype = np.dtype(path.suffix.removeprefix("."))
        if not 0 < path.stat().st_size == end * dtype.itemsize:
            raise UserError(f"{path}: does not fit its lengths: rebuild it with `mtkit batch`")
        corpus_path, corpora = folder / f"{name}.corpus.npy", None
        if corpus_path.is_file():
            corpora = _open_column(corpus_path, width=())
            if len(corpora) != len(lengths):
                raise UserError(f"{corpus_path}: does not fit: rebuild it with `mtkit batch`")
        return cls(np.memmap(path, dtype, mode="r"), lengths, starts, corpora)

    def __len__(self) -> int:
        return len(self.lengths)

    def side(
        self, rows: NDArray[np.integer[Any]], *, target: bool
    ) -> tuple[Tokens, NDArray[np.int64]]:
        """Return the ids of one side of `rows`, end to end, and the (k,) lengths."""
        lengths = self.lengths[rows].astype(np.int64)
        own, before = lengths[:, int(target)], lengths[:, 0] if target else 0
        shifts = self._starts_of(rows) + before + own - own.cumsum()
        return self.tokens[np.repeat(shifts, own) + np.arange(own.sum())], own

    def _starts_of(self, rows: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """(k,) where each of `rows` starts in `tokens`."""
        known, after = np.divmod(rows, STRIDE)
        # Both lengths of up to 63 rows before each are fetched as one number.
        between = (known * STRIDE)[:, None] + np.arange(STRIDE - 1)
        both = self.lengths.view(np.uint32)[np.minimum(between, rows[:, None]), 0]
        both = np.where(np.arange(STRIDE - 1) < after[:, None], both, 0)
        passed = ((both & 0xFFFF) + (both >> 16)).sum(axis=1, dtype=np.int64)
        return np.asarray(self.starts[known] + passed)
