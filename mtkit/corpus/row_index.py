"""Row index: how many rows each file has, so that a process can read any part of the corpora."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mtkit.config.corpora import Corpus
from mtkit.corpus.read import EmptyCorpusError, Pair, count_files, count_rows, read_file
from mtkit.progress import progress


@dataclass(frozen=True)
class RowIndex:
    """The number of rows of each file; rows are numbered from 0, across all files and corpora."""

    corpora: list[Corpus]
    counts: Sequence[Sequence[int]]
    """For each corpus, the number of rows of each of its files."""

    @classmethod
    def count(cls, corpora: list[Corpus]) -> RowIndex:
        """Count the rows of all files.

        Raises:
            UserError: a corpus cannot be read or is empty, or its sides have different lengths.
        """
        counts: list[list[int]] = []
        with progress("counting", unit="pairs") as bar:
            for index, corpus in enumerate(corpora):
                counts.append([])
                for file in range(count_files(corpus)):
                    rows = count_rows(corpus, file)
                    counts[index].append(rows)
                    bar.advance(rows)
                if not any(counts[index]):
                    raise EmptyCorpusError(corpus)
        return cls(corpora, counts)

    @property
    def total(self) -> int:
        """The number of rows of all corpora."""
        return sum(map(sum, self.counts))

    def rows_of(self, corpus: int) -> range:
        """Return the rows of a corpus."""
        first = sum(map(sum, self.counts[:corpus]))
        return range(first, first + sum(self.counts[corpus]))

    def read(self, rows: range) -> Iterator[Pair]:
        """Yield the pairs of some rows.

        Lines before them are skipped, which is fast; rows of a table or dataset are read.

        Raises:
            UserError: a file cannot be read.
        """
        file_start = 0
        for index, corpus in enumerate(self.corpora):
            for file, count in enumerate(self.counts[index]):
                file_rows = range(file_start, file_start + count)
                wanted = _overlap(rows, file_rows)
                if wanted == file_rows:
                    yield from read_file(corpus, index, file)
                elif wanted:
                    start, stop = wanted.start - file_start, wanted.stop - file_start
                    yield from read_file(corpus, index, file, slice(start, stop, wanted.step))
                file_start += count


def _overlap(rows: range, file: range) -> range:
    """Return those of `rows` that a file has."""
    start = max(rows.start, file.start)
    # `rows` has every step-th row, so the first of them in the file may be later.
    start += (rows.start - start) % rows.step
    return range(start, min(rows.stop, file.stop), rows.step)
