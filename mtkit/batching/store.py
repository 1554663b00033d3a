"""Token ids of sentence pairs on disk, memory-mapped: any row at once, whatever the size.

`NAME.uint16` (or `.int32`) holds source then target ids, pair after pair, without BOS and EOS;
`NAME.lengths.npy` holds the (n, 2) lengths, whose running sum says where a pair starts;
`NAME.corpus.npy`, where there are several corpora, says which one a pair came from.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import BytesIO
from math import prod
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError

Tokens = NDArray[np.uint16] | NDArray[np.int32]
Lengths = NDArray[np.uint16]
Corpora = NDArray[np.uint16]
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
    """What `_Column` wrote; UserError for anything else.

    The header is compared with what it has to be: NumPy's reader would evaluate and believe it.
    """
    start = len(_header((0, *width)))
    try:
        with path.open("rb") as file:
            rows = (os.fstat(file.fileno()).st_size - start) // (2 * prod(width))
            sound = rows > 0 and file.read(start) == _header((rows, *width))
    except FileNotFoundError:
        sound = False
    if not sound:
        raise UserError(f"{path}: no column of a token store: remake it with `mtkit batch`")
    return np.asarray(np.memmap(path, np.uint16, "r", start, (rows, *width)))


def _header(shape: tuple[int, ...]) -> bytes:
    """NumPy's header of an array of 16-bit numbers; it leaves room for any number of rows."""
    header = BytesIO()
    facts = {"descr": np.dtype(np.uint16).str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, facts)
    return header.getvalue()


class StoreWriter:
    """Appends chunks of pairs; the store is complete when the `with` block ends."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any]) -> None:
        self._tokens = (folder / f"{name}.{dtype.name}").open("wb")
        self._lengths = _Column(folder / f"{name}.lengths.npy", width=(2,))
        self._corpora = _Column(folder / f"{name}.corpus.npy", width=())
        self._several = False

    def append(self, tokens: Tokens, lengths: Lengths, corpora: Corpora) -> None:
        """Ids of some pairs laid end to end, their (k, 2) lengths, their k corpora."""
        self._tokens.write(tokens.data)
        self._lengths.append(lengths)
        self._corpora.append(corpora)
        self._several |= bool(corpora.any())

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tokens.close()
        self._lengths.close()
        self._corpora.close()
        if not self._several:
            self._corpora.path.unlink()


class _Column:
    """A .npy file of 16-bit numbers that grows row by row, so that memory does not."""

    def __init__(self, path: Path, width: tuple[int, ...]) -> None:
        self.path, self._width, self._rows = path, width, 0
        self._file = path.open("wb")
        self._write_header()

    def append(self, rows: NDArray[np.uint16]) -> None:
        self._file.write(rows.tobytes())
        self._rows += len(rows)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        self._file.write(_header((self._rows, *self._width)))


@dataclass(frozen=True)
class Store:
    """Read-only pairs; row numbers count from 0 in the order of the corpus."""

    tokens: Tokens
    lengths: Lengths
    """(n, 2): source and target, without EOS."""
    ends: NDArray[np.int64]
    """(n,): where a row ends in `tokens`: its target, which follows its source."""
    corpora: Corpora | None
    """(n,): index of the corpus a row came from, where there are several."""

    @classmethod
    def open(cls, folder: Path, name: str) -> Store:
        """The store `name` in `folder`; UserError where its files do not fit together."""
        path = next((p for d in DTYPES if (p := folder / f"{name}.{d.name}").is_file()), None)
        if path is None:
            raise UserError(f"{folder}: no token store {name!r} here: remake it with `mtkit batch`")
        lengths = open_lengths(folder, name)
        ends = lengths.sum(axis=1, dtype=np.int64)
        ends.cumsum(out=ends)
        dtype = np.dtype(path.suffix.removeprefix("."))
        if not 0 < path.stat().st_size == int(ends[-1]) * dtype.itemsize:
            raise UserError(f"{path}: does not fit its lengths: remake it with `mtkit batch`")
        corpora = open_corpora(folder, name)
        if corpora is not None and len(corpora) != len(lengths):
            raise UserError(f"{folder}: {name} does not fit its corpora: remake with `mtkit batch`")
        return cls(np.memmap(path, dtype, mode="r"), lengths, ends, corpora)

    def __len__(self) -> int:
        return len(self.lengths)

    def side(
        self, rows: NDArray[np.integer[Any]], *, target: bool
    ) -> tuple[Tokens, NDArray[np.int64]]:
        """Ids of one side of `rows`, laid end to end, and the length of each."""
        lengths = self.lengths[rows].astype(np.int64)
        wanted, after = lengths[:, int(target)], 0 if target else lengths[:, 1]
        shifts = self.ends[rows] - after - wanted.cumsum()
        return self.tokens[np.repeat(shifts, wanted) + np.arange(wanted.sum())], wanted
