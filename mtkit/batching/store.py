"""Token stores: ids of sentence pairs in memory-mapped files, with random access to any pair.

`NAME.uint16` (or `.int32`) holds the ids, pair after pair, source before target, without BOS and
EOS. `NAME.lengths` holds the (n, 2) lengths as uint16, `NAME.starts` the index of each pair's first
id as int64, `NAME.corpora` the number of each pair's corpus as uint16.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import UserError
from mtkit.report import plural

Tokens = NDArray[np.uint16] | NDArray[np.int32]
Lengths = NDArray[np.uint16]
TOKEN_DTYPES = (np.dtype(np.uint16), np.dtype(np.int32))
"""The types in which a store may hold ids; the name of the file says which."""
Appender = Callable[[Tokens, Lengths, NDArray[np.uint16]], None]
"""Appends k pairs to a store: their concatenated ids, (k, 2) lengths, (k,) corpora."""
HOW_TO_REBUILD = "rebuild the batches with `mtkit batch`"


def token_dtype(vocab: int) -> np.dtype[Any]:
    """Return the smallest type that holds all ids of a vocabulary."""
    return TOKEN_DTYPES[0] if vocab <= 1 << 16 else TOKEN_DTYPES[1]


@contextmanager
def store_writer(folder: Path, name: str, vocab: int) -> Iterator[Appender]:
    """Yield a function that appends pairs.

    The store is complete when the `with` block ends. `vocab`: size of the larger vocabulary.

    Raises:
        TypeError: the ids have a larger type than the vocabulary needs.
    """
    dtype = token_dtype(vocab)
    end = 0
    with (
        (folder / f"{name}.{dtype.name}").open("wb") as all_tokens,
        (folder / f"{name}.lengths").open("wb") as all_lengths,
        (folder / f"{name}.starts").open("wb") as all_starts,
        (folder / f"{name}.corpora").open("wb") as all_corpora,
    ):

        def append(tokens: Tokens, lengths: Lengths, corpora: NDArray[np.uint16]) -> None:
            """Write k pairs to all files; `end` counts the ids before them."""
            nonlocal end
            sizes = lengths.sum(axis=1, dtype=np.int64)  # ids of each pair
            starts = end + sizes.cumsum() - sizes
            end += int(sizes.sum())
            all_starts.write(starts.tobytes())
            all_tokens.write(tokens.astype(dtype, casting="safe", copy=False).data)
            all_lengths.write(lengths.tobytes())
            all_corpora.write(corpora.tobytes())

        yield append


@dataclass(frozen=True)
class Store:
    """An opened token store, with one row for each pair in the order of the corpus."""

    tokens: Tokens
    lengths: Lengths
    """(n, 2): lengths of source and target, without EOS."""
    starts: NDArray[np.int64]
    """(n,): where the source of each row starts in `tokens`."""
    corpora: NDArray[np.uint16]
    """(n,): the number of each row's corpus."""

    @classmethod
    def open(cls, files: Mapping[str, Path], name: str) -> Store:
        """Open the store `name`; `files`: the paths of all files of the batches, by name.

        Raises:
            UserError: a file is missing, or the files do not fit together.
            OSError: a file cannot be opened.
        """
        small, large = TOKEN_DTYPES
        dtype = small if f"{name}.{small.name}" in files else large
        try:
            tokens = np.memmap(files[f"{name}.{dtype.name}"], dtype, "r")
            lengths = np.memmap(files[f"{name}.lengths"], np.uint16, "r").reshape(-1, 2)
            starts = np.memmap(files[f"{name}.starts"], np.int64, "r")
            corpora = np.memmap(files[f"{name}.corpora"], np.uint16, "r")
        except (KeyError, FileNotFoundError):
            raise UserError(
                f"a file of the token store {name!r} is missing; {HOW_TO_REBUILD}"
            ) from None
        except ValueError:  # the size of a file is no multiple of the size of its numbers
            raise UserError(
                f"a file of the token store {name!r} is damaged; {HOW_TO_REBUILD}"
            ) from None
        # Plain arrays of the same memory, because indexing a memmap takes twice as long.
        store = cls(
            tokens=tokens,
            lengths=np.asarray(lengths),
            starts=np.asarray(starts),
            corpora=corpora,
        )
        store._check_sizes(name)
        return store

    def _check_sizes(self, name: str) -> None:
        """Raise UserError if the files of the store `name` do not fit together."""
        if not len(self.lengths) == len(self.starts) == len(self.corpora):
            raise UserError(
                f"{name}.lengths has {plural(len(self.lengths), 'row')}, but {name}.starts "
                f"{len(self.starts):,} and {name}.corpora {len(self.corpora):,}; {HOW_TO_REBUILD}"
            )
        end = int(self.starts[-1] + self.lengths[-1].sum(dtype=np.int64))  # of the last pair
        if len(self.tokens) != end:
            raise UserError(
                f"{name}.{self.tokens.dtype.name} has {len(self.tokens):,} ids, but should have "
                f"{end:,}; {HOW_TO_REBUILD}"
            )

    def __len__(self) -> int:
        return len(self.lengths)

    def side(
        self, rows: NDArray[np.integer[Any]], *, target: bool
    ) -> tuple[Tokens, NDArray[np.int64]]:
        """Return the concatenated ids of one side of `rows`, and their (k,) lengths."""
        source_lengths, target_lengths = self.lengths[rows].astype(np.int64).T
        starts = self.starts[rows]
        lengths = source_lengths
        if target:  # the target of a pair follows its source
            starts = starts + source_lengths
            lengths = target_lengths
        # All ids by one indexing. The id at place p of the result belongs to some row r, and is in
        # `tokens` at p + (start of r in the store) - (start of r in the result).
        starts_in_result = lengths.cumsum() - lengths
        shifts = starts - starts_in_result
        places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        return self.tokens[places], lengths
