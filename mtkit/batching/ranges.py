"""Encoded ranges of the training rows, which stay on disk until the batches are complete.

So a command that was killed resumes where it stopped. Each range is an artifact in
`RUN/.batches.ranges`, with the settings and inputs of the batches. A corpus of one range is never
written there, because encoding it takes seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np

from mtkit.artifacts.manifest import VERSION, kind_at
from mtkit.artifacts.replacement import recover_all, remove
from mtkit.artifacts.runs import locked
from mtkit.artifacts.stage import Stage
from mtkit.batching.encode import KEPT, Encoded, RowEncoder, key_of_tag
from mtkit.batching.processes import encode_ranges
from mtkit.corpus.store import BLANK_KEY, CorpusRows, find_repeated
from mtkit.errors import UserError
from mtkit.progress import progress
from mtkit.report import say

RANGE_CHUNKS = 32
"""Number of chunks of the corpus store in a range."""
ENCODED = "encoded.npz"

EncodedRanges = Iterable[tuple[range, Encoded]]
"""Ranges that have all rows in order, each with its encoded rows."""


def encode_train(stage: Stage, encoder: RowEncoder, cluster: str | None) -> EncodedRanges:
    """Encode the training set, except for ranges that an earlier command has left on disk.

    Return all ranges, which can be read repeatedly. `stage`: that of the batches; the caller holds
    the lock of the run. Errors are as in `encode_ranges`.
    """
    rows = encoder.rows
    ranges = list(rows.split(range(len(rows)), RANGE_CHUNKS))
    with progress("encoding train", len(rows), "pairs") as bar:
        if len(ranges) == 1 and cluster is None:
            return [(numbers, encoder.encode(numbers)) for numbers in ranges]
        finished = _FinishedRanges(stage, ranges)
        missing = [numbers for numbers in ranges if not finished.has(numbers)]
        count = len(rows) - sum(map(len, missing))
        if count:
            say(f"batches: {count:,} of {len(rows):,} pairs were encoded before")
            bar.advance(count)
        with closing(encode_ranges(encoder, missing, cluster)) as results:
            for numbers, encoded in zip(missing, results, strict=True):
                finished.save(numbers, encoded)
                bar.advance(len(numbers))
        return finished


def remove_ranges(batches: Stage) -> None:
    """Remove all ranges on disk, unless another command uses the run or it is write-protected."""
    folder = _folder_of(batches)
    if not folder.exists():
        return
    with suppress(UserError, OSError), locked(batches.path.parent):
        recover_all(folder, "*")
        for path in folder.iterdir():
            if kind_at(path) == "range":
                remove(path)
        folder.rmdir()  # unless it holds files of the user


@dataclass(frozen=True)
class _FinishedRanges:
    """Encoded ranges on disk, which the holder of the run's lock writes and reads."""

    batches: Stage
    ranges: Sequence[range]

    def __iter__(self) -> Iterator[tuple[range, Encoded]]:
        for rows in self.ranges:
            folder = self._stage_of(rows).path
            with np.load(folder / ENCODED) as arrays:
                yield rows, Encoded(**arrays)

    def has(self, rows: range) -> bool:
        """Return whether a range is on disk, and was encoded with the same settings and inputs."""
        return self._stage_of(rows).current() is not None

    def save(self, rows: range, encoded: Encoded) -> None:
        """Write a range."""
        with self._stage_of(rows).write() as draft:
            np.savez(draft.folder / ENCODED, **encoded._asdict())

    def _stage_of(self, rows: range) -> Stage:
        name = f"{rows.start}-{rows.stop}"
        # Another version of mtkit may encode otherwise.
        inputs = {**self.batches.inputs, "rows": name, "mtkit": VERSION}
        path = _folder_of(self.batches) / name
        return replace(self.batches, kind="range", path=path, inputs=inputs)


def _folder_of(batches: Stage) -> Path:
    return batches.path.with_name(".batches.ranges")


def drop_repeated(rows: CorpusRows, ranges: EncodedRanges, folder: Path) -> EncodedRanges:
    """Yield the ranges without pairs that occur before; `folder`: for a temporary file."""
    tag_keys = np.array([key_of_tag(corpus.target_tag) for corpus in rows.corpora], np.uint64)
    # Memory is for a byte per pair, so the keys are in a file.
    with TemporaryFile(dir=folder) as file:
        for numbers, encoded in ranges:
            is_kept = encoded.faults == KEPT
            keys = rows.keys[numbers]  # a copy
            keys[is_kept] ^= tag_keys[encoded.corpora]
            keys[~is_kept] = BLANK_KEY
            file.write(keys.tobytes())
        file.flush()
        all_keys = np.memmap(file, np.uint64, "r")
        is_repeated = find_repeated(all_keys)
    for numbers, encoded in ranges:
        yield numbers, encoded.drop_repeated(is_repeated[numbers])
