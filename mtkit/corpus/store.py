"""Corpus store: the pairs of corpora as rows on disk, which are written once.

`text` holds the normalised texts as UTF-8: source and target of one row after the other. `ends`
says where each of them ends, and `keys` holds a hash of each row. `place_rows` and `places` say
from which lines the rows come, and `files.json` names the files. All are memory-mapped, so any row
can be read, and all processes on a machine share one copy in memory.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from mmap import ACCESS_READ, mmap
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.corpora import Corpus, listed
from mtkit.corpus.read import (
    CHUNK_CHARACTERS,
    CHUNK_PAIRS,
    Pair,
    UnequalSidesError,
    chunks,
    hash_texts,
    read_corpus,
    read_pairs,
)
from mtkit.errors import MtkitError, UserError
from mtkit.progress import progress

TEXT, TEXT_ENDS, KEYS, FACTS = "text", "ends", "keys", "files.json"
PLACE_ROWS, PLACES = "place_rows", "places"
PLACE = np.dtype([("file", np.int64), ("line", np.int64)])
"""Where a row comes from, if it is not the line after that of the row before."""
BLANK_KEY = (1 << 64) - 1
"""The key of all rows with a blank side."""
KEY_BLOCK = 1 << 22
"""Number of keys that are compared at a time."""
MAX_DRAWN_BYTES = 1 << 29
"""Largest size of the texts of a sample in UTF-8, to limit memory."""

RowNumbers = Sequence[int] | NDArray[np.int64]


def write_rows(folder: Path, pairs: Iterable[Pair], unequal: Sequence[str] = ()) -> None:
    """Write pairs to a folder; `CorpusRows` reads them.

    `unequal`: how long the files of a corpus are, if their lengths differ. `pairs` may add to it.
    """
    places = _Places()
    end = 0
    with (
        (folder / TEXT).open("wb") as text_file,
        (folder / TEXT_ENDS).open("wb") as ends_file,
        (folder / KEYS).open("wb") as keys_file,
        (folder / PLACE_ROWS).open("wb") as place_rows_file,
        (folder / PLACES).open("wb") as places_file,
        progress("reading", unit="pairs") as bar,
    ):
        for chunk in chunks(pairs):
            texts: list[bytes] = []
            keys: list[int] = []
            for pair in chunk:
                # As in `hash_of`: half of a surrogate pair has no UTF-8.
                source = pair.source.encode(errors="replace")
                target = pair.target.encode(errors="replace")
                texts += (source, target)
                keys.append(BLANK_KEY if pair.blank else hash_texts(source, target))
            ends = end + np.cumsum([len(text) for text in texts], dtype=np.int64)
            end = int(ends[-1])
            text_file.write(b"".join(texts))
            ends_file.write(ends.tobytes())
            keys_file.write(np.array(keys, np.uint64).tobytes())
            new_places = places.find(chunk)
            place_rows_file.write(np.array([*new_places], np.int64).tobytes())
            places_file.write(np.array([*new_places.values()], PLACE).tobytes())
            bar.advance(len(chunk))
    write_json(folder / FACTS, {"files": places.files, "unequal": unequal})


@dataclass
class _Places:
    """Finds the rows that do not come from the line after that of the row before."""

    files: list[tuple[str, int]] = field(default_factory=list)
    """The path and the corpus of each file."""
    _count: int = 0
    """The number of rows so far."""
    _expected: tuple[str, int, int] = ("", 0, 0)
    """The file, corpus and line of the next row unless a new place begins."""

    def find(self, pairs: Sequence[Pair]) -> dict[int, tuple[int, int]]:
        """Return the file and line of each new place among the next pairs, by its row."""
        places: dict[int, tuple[int, int]] = {}
        for pair in pairs:
            file = (pair.file, pair.corpus)
            if (*file, pair.line) != self._expected:
                if file != self._expected[:2]:
                    self.files.append(file)
                places[self._count] = (len(self.files) - 1, pair.line)
            self._expected = (*file, pair.line + 1)
            self._count += 1
        return places


class CorpusRows:
    """The opened rows of corpora, numbered from 0 across all files and corpora."""

    def __init__(self, folder: Path, corpora: Corpus | list[Corpus]) -> None:
        """Open the rows that `write_rows` has written from the corpora.

        Raises:
            UserError: the files do not fit together.
        """
        self.folder = folder
        self.corpora = listed(corpora)
        facts = read_json(folder / FACTS)
        self.unequal: list[str] = facts["unequal"]
        """How long the files of a corpus are, if their lengths differ."""
        self._files: list[tuple[str, int]] = facts["files"]
        self._ends = _map_numbers(folder / TEXT_ENDS, (np.int64, 2))
        self.keys: NDArray[np.uint64] = _map_numbers(folder / KEYS, np.uint64)
        """(n,): the hash of each row, as `hash_of`; BLANK_KEY if a side is blank."""
        self._place_rows = _map_numbers(folder / PLACE_ROWS, np.int64)
        self._places = _map_numbers(folder / PLACES, PLACE)
        self._text = _map_text(folder / TEXT)
        end = int(self._ends[-1, 1]) if len(self._ends) else 0
        are_equally_long = len(self._ends) == len(self.keys) and len(self._text) == end
        if not are_equally_long or len(self._place_rows) != len(self._places):
            raise UserError(f"{folder} is damaged; delete it, and run the same command again")

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, row: int) -> Pair:
        return next(self.read([row]))

    def __reduce__(self) -> tuple[type[CorpusRows], tuple[Path, list[Corpus]]]:
        """Pickle only the name of the folder, for other processes and machines."""
        return CorpusRows, (self.folder.absolute(), self.corpora)

    def __iter__(self) -> Iterator[Pair]:
        return self.read(range(len(self)))

    def read(self, rows: RowNumbers) -> Iterator[Pair]:
        """Yield the pairs of some rows, in the order given."""
        for start in range(0, len(rows), CHUNK_PAIRS):
            yield from self._read_block(np.asarray(rows[start : start + CHUNK_PAIRS]))

    def split(self, rows: range, chunks: int = 1) -> Iterator[range]:
        """Divide rows into ranges of up to some chunks.

        A chunk has up to CHUNK_PAIRS rows and about CHUNK_CHARACTERS bytes.
        """
        start = rows.start
        while start < rows.stop:
            stop = min(start + chunks * CHUNK_PAIRS, rows.stop)
            text_start = self._ends[start - 1, 1] if start else 0
            text_limit = text_start + chunks * CHUNK_CHARACTERS
            ends = self._ends[start:stop, 1]
            fitting = int(ends.searchsorted(text_limit, side="right"))
            stop = start + max(1, fitting)  # a row may be longer than the limit
            yield range(start, stop)
            start = stop

    def rows_of(self, corpus: int) -> range:
        """Return the rows of a corpus, by its index."""
        corpora = np.array([index for _, index in self._files])[self._places["file"]]
        # A new corpus always begins a new place.
        starts = np.append(self._place_rows, len(self))
        start, stop = starts[corpora.searchsorted([corpus, corpus + 1])].tolist()
        return range(start, stop)

    def sample_of(self, corpus: int, count: int) -> list[Pair]:
        """Return up to `count` distinct pairs of a corpus without blank sides, by its index.

        They are those with the smallest hashes, so the order of the pairs does not matter.
        """
        rows = self.rows_of(corpus)
        smallest = find_smallest(self.keys[rows.start : rows.stop], count)
        return list(self.read(rows.start + smallest))

    def draw(
        self,
        count: int,
        seed: int,
        max_bytes: int = MAX_DRAWN_BYTES,
        among: RowNumbers | None = None,
    ) -> NDArray[np.int64]:
        """Return up to `count` rows, each with the same probability, in order.

        Their texts have at most `max_bytes` bytes. `among`: rows to draw from; None: all.
        """
        available = range(len(self)) if among is None else among
        # In random order, so that the first of them are a sample, too.
        places = Random(seed).sample(range(len(available)), min(count, len(available)))
        rows = np.array([available[place] for place in places], np.int64)
        starts, ends = self._find_bytes(rows)
        sizes = (ends[:, 1] - starts).cumsum()
        return np.sort(rows[: sizes.searchsorted(max_bytes, side="right")])

    def _find_bytes(self, rows: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return where the texts of k rows start, (k,), and end, (k, 2)."""
        # For row 0, the index is -1, and the value is not used.
        starts = np.where(rows > 0, self._ends[rows - 1, 1], 0)
        return starts, self._ends[rows]

    def _read_block(self, rows: NDArray[np.int64]) -> Iterator[Pair]:
        starts, ends = self._find_bytes(rows)
        numbers = self._place_rows.searchsorted(rows, side="right") - 1
        places = self._places[numbers]
        rows_after_place = rows - self._place_rows[numbers]
        lines = places["line"] + rows_after_place
        for start, (middle, end), file, line in zip(
            starts.tolist(),
            ends.tolist(),
            places["file"].tolist(),
            lines.tolist(),
            strict=True,
        ):
            # Texts are decoded one at a time, because a line may have 1 MiB.
            path, index = self._files[file]
            corpus = self.corpora[index]
            yield Pair(
                source=self._text[start:middle].decode(),
                target=self._text[middle:end].decode(),
                corpus=index,
                file=path,
                line=line,
                tag=corpus.tag,
                target_tag=corpus.target_tag,
            )


@contextmanager
def temporary_rows(
    corpora: Corpus | list[Corpus], *, allow_unequal: bool = False
) -> Iterator[CorpusRows]:
    """Read corpora to a temporary folder, and yield their rows.

    `allow_unequal`: the files of a corpus may have different lengths; `CorpusRows.unequal` says so.

    Raises:
        UserError: a corpus cannot be read or is empty, or its sides have different lengths.
        MtkitError: the disk is full.
    """
    unequal: list[str] = []
    pairs = _read_unequal(listed(corpora), unequal) if allow_unequal else read_pairs(corpora)
    with TemporaryDirectory(prefix="mtkit-") as name:
        folder = Path(name)
        try:
            write_rows(folder, pairs, unequal)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise MtkitError(
                f"{folder.parent} has no space for the text; set TMPDIR to a folder on another disk"
            ) from error
        yield CorpusRows(folder, corpora)


def _read_unequal(corpora: Sequence[Corpus], unequal: list[str]) -> Iterator[Pair]:
    """Yield all pairs; `unequal` gets the lengths of files whose lengths differ."""
    for index, corpus in enumerate(corpora):
        try:
            yield from read_corpus(corpus, index)
        except UnequalSidesError as error:
            unequal.append(error.lengths)


def find_repeated(keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Return for each of n keys whether an equal one comes before it; BLANK_KEY never repeats.

    Memory holds a byte per key, and about KEY_BLOCK keys: those of one range of values at a time.
    """
    is_repeated = np.zeros(len(keys), np.bool_)
    ranges = 1 + len(keys) // KEY_BLOCK
    # Keys are hashes, so equal ranges of values hold about equally many. The last one ends before
    # BLANK_KEY, the largest value.
    bounds = [*range(0, BLANK_KEY, 1 + BLANK_KEY // ranges), BLANK_KEY]
    for lowest, end in pairwise(bounds):
        rows = _find_rows(keys, lowest, end)
        # Of equal keys, `unique` returns the first index.
        _, firsts = np.unique(keys[rows], return_index=True)
        is_repeated[rows] = True
        is_repeated[rows[firsts]] = False
    return is_repeated


def find_smallest(keys: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """Return the rows of the smallest keys, in their order; of equal keys, the first row.

    Return up to `count` rows, and none of BLANK_KEY.
    """
    smallest = np.empty(0, np.int64)
    for start in range(0, len(keys), KEY_BLOCK):
        block = np.arange(start, min(start + KEY_BLOCK, len(keys)))
        # Earlier rows come first, so that they stay if a later key is equal.
        rows = np.concatenate([smallest, block])
        distinct, firsts = np.unique(keys[rows], return_index=True)
        smallest = rows[firsts[distinct < BLANK_KEY][:count]]
    return smallest


def _find_rows(keys: NDArray[np.uint64], lowest: int, end: int) -> NDArray[np.int64]:
    """Return the rows of the keys from `lowest` to below `end`."""
    found = [np.empty(0, np.int64)]
    for start in range(0, len(keys), KEY_BLOCK):
        block = keys[start : start + KEY_BLOCK]
        is_inside = (block >= np.uint64(lowest)) & (block < np.uint64(end))
        found.append(start + np.flatnonzero(is_inside))
    return np.concatenate(found)


def _map_numbers(path: Path, dtype: DTypeLike) -> NDArray[Any]:
    """Map a file of numbers to memory; a plain array is indexed twice as fast as a memmap."""
    if not path.stat().st_size:  # an empty file cannot be mapped
        return np.empty(0, dtype)
    return np.asarray(np.memmap(path, dtype, "r"))


def _map_text(path: Path) -> mmap | bytes:
    with path.open("rb") as file:
        return mmap(file.fileno(), 0, access=ACCESS_READ) if path.stat().st_size else b""
