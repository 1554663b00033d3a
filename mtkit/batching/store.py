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


def token_dtype(vocab: int) -> np.dtype[Any]:
    """Return the smallest type that holds all ids of a vocabulary."""
    return TOKEN_DTYPES[0] if vocab <= 1 << 16 else TOKEN_DTYPES[1]


@contextmanager
def store_writer(
    folder: Path, name: str, vocab: int
) -> Iterator[Callable[[Tokens, Lengths, NDArray[np.uint16]], None]]:
    """Yield a function that appends k pairs: their concatenated ids, (k, 2) lengths, (k,) corpora.

    The store is complete when the `with` block ends. `vocab`: size of the larger vocabulary.

    Raises:
        TypeError: the ids have a larger type than the vocabulary needs.
    """
    dtype = token_dtype(vocab)
    end = 0  # number of ids that are written
    with (
        (folder / f"{name}.{dtype.name}").open("wb") as all_tokens,
        (folder / f"{name}.lengths").open("wb") as all_lengths,
        (folder / f"{name}.starts").open("wb") as all_starts,
        (folder / f"{name}.corpora").open("wb") as all_corpora,
    ):

        def append(tokens: Tokens, lengths: Lengths, corpora: NDArray[np.uint16]) -> None:
            nonlocal end
            sizes = lengths.sum(axis=1, dtype=np.int64)
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
        again = "rebuild the batches with `mtkit batch`"
        small, large = TOKEN_DTYPES
        dtype = small if f"{name}.{small.name}" in files else large
        try:
            tokens = np.memmap(files[f"{name}.{dtype.name}"], dtype, "r")
            lengths = np.memmap(files[f"{name}.lengths"], np.uint16, "r").reshape(-1, 2)
            starts = np.memmap(files[f"{name}.starts"], np.int64, "r")
            corpora = np.memmap(files[f"{name}.corpora"], np.uint16, "r")
        except (KeyError, FileNotFoundError):
            raise UserError(f"a file of the token store {name!r} is missing; {again}") from None
        except ValueError:  # a size that is no multiple of the type's
            raise UserError(f"a file of the token store {name!r} is damaged; {again}") from None
        if not len(lengths) == len(starts) == len(corpora):
            raise UserError(
                f"{name}.lengths has {plural(len(lengths), 'row')}, but {name}.starts "
                f"{len(starts):,} and {name}.corpora {len(corpora):,}; {again}"
            )
        end = int(starts[-1] + lengths[-1].sum(dtype=np.int64))
        if len(tokens) != end:
            raise UserError(
                f"{name}.{dtype.name} has {len(tokens):,} ids, but should have {end:,}; {again}"
            )
        # Indexing a memmap takes twice as long as indexing a plain array of the same memory.
        return cls(
            tokens=tokens,
            lengths=np.asarray(lengths),
            starts=np.asarray(starts),
            corpora=corpora,
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
        # Place p of the result belongs to row r; its id is at p + (start of r in the store)
        # - (start of r in the result).
        shifts = starts - (lengths.cumsum() - lengths)
        places = np.repeat(shifts, lengths) + np.arange(lengths.sum())
        return self.tokens[places], lengths
