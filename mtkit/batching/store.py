"""Token ids of sentence pairs on disk, memory-mapped: any row at once, whatever the size.

`NAME.uint16` (or `.int32`) holds source then target ids, pair after pair, without BOS and EOS;
`NAME.lengths.npy` holds the (n, 2) lengths, whose running sum says where a pair starts;
`NAME.corpus.npy`, where there are several corpora, says which one a pair came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError

Tokens = NDArray[np.uint16] | NDArray[np.int32]
Lengths = NDArray[np.uint16]
DTYPES = (np.dtype(np.uint16), np.dtype(np.int32))


def token_dtype(vocab: int) -> np.dtype[Any]:
    """The smallest type that holds all ids of a vocabulary."""
    return DTYPES[0] if vocab <= 1 << 16 else DTYPES[1]


class StoreWriter:
    """Appends chunks of pairs; the store is complete when the `with` block ends."""

    def __init__(self, folder: Path, name: str, dtype: np.dtype[Any]) -> None:
        self._folder, self._name = folder, name
        self._tokens = (folder / f"{name}.{dtype.name}").open("wb")
        self._lengths: list[Lengths] = []
        self._corpora: list[NDArray[np.uint16]] = []

    def append(self, tokens: Tokens, lengths: Lengths, corpora: NDArray[np.uint16]) -> None:
        """Ids of some pairs laid end to end, their (k, 2) lengths, their k corpora."""
        self._tokens.write(tokens.data)
        self._lengths.append(lengths)
        self._corpora.append(corpora)

    def __enter__(self) -> StoreWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._tokens.close()
        if error is None:
            corpora = np.concatenate([np.empty(0, np.uint16), *self._corpora])
            lengths = np.concatenate([np.empty((0, 2), np.uint16), *self._lengths])
            np.save(self._folder / f"{self._name}.lengths.npy", lengths)
            if corpora.any():
                np.save(self._folder / f"{self._name}.corpus.npy", corpora)


@dataclass(frozen=True)
class Store:
    """Read-only pairs; row numbers count from 0 in the order of the corpus."""

    tokens: Tokens
    lengths: Lengths
    """(n, 2): source and target, without EOS."""
    starts: NDArray[np.int64]
    """(n,): where the source of a row starts in `tokens`; its target follows."""
    corpora: NDArray[np.uint16] | None
    """(n,): index of the corpus a row came from, where there are several."""

    @classmethod
    def open(cls, folder: Path, name: str) -> Store:
        """The store `name` in `folder`; UserError where its files do not fit together."""
        path = next((p for d in DTYPES if (p := folder / f"{name}.{d.name}").exists()), None)
        if path is None:
            raise UserError(f"{folder}: no token store {name!r} here: remake it with `mtkit batch`")
        lengths: Lengths = np.load(folder / f"{name}.lengths.npy", allow_pickle=False)
        ends = lengths.sum(axis=1, dtype=np.int64).cumsum()
        dtype = np.dtype(path.suffix.removeprefix("."))
        if path.stat().st_size != int(ends[-1]) * dtype.itemsize:
            raise UserError(f"{path}: does not fit its lengths: remake it with `mtkit batch`")
        corpora = folder / f"{name}.corpus.npy"
        return cls(
            tokens=np.memmap(path, dtype, mode="r"),
            lengths=lengths,
            starts=np.concatenate([[0], ends[:-1]]),
            corpora=np.load(corpora, allow_pickle=False) if corpora.exists() else None,
        )

    def __len__(self) -> int:
        return len(self.lengths)

    def side(
        self, rows: NDArray[np.integer[Any]], *, target: bool
    ) -> tuple[Tokens, NDArray[np.int64]]:
        """Ids of one side of `rows`, laid end to end, and the length of each."""
        lengths = self.lengths[rows].astype(np.int64)
        wanted = lengths[:, int(target)]
        starts = self.starts[rows] + (lengths[:, 0] if target else 0)
        shifts = starts - (wanted.cumsum() - wanted)
        return self.tokens[np.repeat(shifts, wanted) + np.arange(wanted.sum())], wanted
