"""Read rows of `.csv` and `.tsv` files, each with its cells and with its text in the file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain, islice
from typing import NamedTuple

from mtkit.corpus.files import OLD_LINE_ENDS_WARNING, is_utf16
from mtkit.corpus.importers import place_of, suffix_of
from mtkit.errors import UserError

SAMPLE_ROWS = 100
"""Number of rows from which delimiter, header and columns are recognised."""
MAX_ROW_CELLS = 1 << 14
"""Largest number of cells in a row, as in a spreadsheet."""
MAX_ROW_CHARACTERS = 1 << 22
"""Largest row, whose quoted cells may have many lines."""
DELIMITERS = ",\t;|"
"""Delimiters of a .csv; of those that fit equally well, the first is taken."""
_NAMES_DELIMITER = re.compile(r"sep=.?\s*")
"""The first row of a .csv for Excel."""

ADVICE = {
    "new-line": OLD_LINE_ENDS_WARNING,
    "field larger": "shorten the cell, or look for a quote that is missing before it",
}
"""What to do about an error of `csv`, by its start."""


class Row(NamedTuple):
    """A row of a table."""

    number: int
    """Number of the row from 1, as a spreadsheet counts: cells may have several lines."""
    cells: list[str]
    """The cells; none if the line is empty or, such as `sep=;`, names the delimiter."""
    raw: str = ""
    """The row as the file has it, with its line end; blank in a spreadsheet."""

    @property
    def is_blank(self) -> bool:
        """Whether no cell has text."""
        return not any(map(str.strip, self.cells))


def has_quotes(path: str) -> bool:
    """Return whether quotes enclose cells. In a .tsv only in UTF-16, which Excel writes."""
    return suffix_of(path) != ".tsv" or is_utf16(path)


def read_rows(path: str, lines: Iterable[str]) -> Iterator[Row]:
    """Yield the rows of a .csv or .tsv; `lines`: its lines with their ends.

    Raises:
        UserError: a row cannot be read, or has more cells than the first.
    """
    lines = iter(lines)
    sample = list(islice(lines, SAMPLE_ROWS))
    delimiter = find_delimiter(path, sample)
    lines = chain(sample, lines)
    rows = _quoted_rows(path, lines, delimiter) if has_quotes(path) else _tab_rows(lines)
    for row in rows:
        if len(row.cells) > MAX_ROW_CELLS:
            cells = f"{len(row.cells):,} cells; a table has at most {MAX_ROW_CELLS:,}"
            raise UserError(f"{place_of(path, row.number)}: the row has {cells}")
        yield row


def _tab_rows(lines: Iterable[str]) -> Iterator[Row]:
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip("\r\n")
        cells = line.split("\t") if line else []
        yield Row(number, cells, raw)


def find_delimiter(path: str, lines: Iterable[str]) -> str:
    """Return the delimiter of a table that begins with these lines."""
    if not has_quotes(path):
        return "\t"
    sample = list(islice(lines, SAMPLE_ROWS))
    return max(DELIMITERS, key=lambda delimiter: _fit(sample, delimiter))


def _quoted_rows(path: str, lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """Yield rows as `read_rows` does; a quoted cell may contain delimiters and line breaks."""
    taken: list[str] = []
    """The lines of the row that is being read."""

    def take_lines() -> Iterator[str]:
        characters = 0
        for line in lines:
            characters = len(line) + (characters if taken else 0)
            taken.append(line)
            if characters > MAX_ROW_CHARACTERS:
                raise UserError(f"{where}: the row is over 4 MiB; is a quote missing?")
            yield line

    reader = csv.reader(take_lines(), delimiter=delimiter, strict=True, skipinitialspace=True)
    width = 0
    where = f"{path}:1"
    try:
        for number, cells in enumerate(reader, 1):
            raw = "".join(taken)
            if number == 1 and _NAMES_DELIMITER.fullmatch(raw):
                cells.clear()
            width = width or len(cells)  # blank lines above the first row have no cells
            if any(map(str.strip, cells[width:])):
                raise UserError(
                    f"{where}: the row has {len(cells)} cells, but the first has {width}; put "
                    f"quotes around cells that contain {delimiter!r}"
                )
            yield Row(number, cells, raw)
            taken.clear()
            where = f"{path}:{1 + reader.line_num}"
    except csv.Error as error:
        advice = "quotes inside a cell must be doubled"
        for start, other_advice in ADVICE.items():
            if str(error).startswith(start):
                advice = other_advice
        raise UserError(f"{where}: this row cannot be read ({error}); {advice}") from None


def _fit(lines: list[str], delimiter: str) -> tuple[int, int, int]:
    """Return how well a delimiter fits the lines; the largest of these tuples fits best.

    First: how many rows have as many cells as the first. Then: how few cells begin with a space; a
    comma in a sentence has a space behind it, a delimiter rarely. Last, if the delimiter fits no
    row: how often it occurs.
    """
    width = 0
    fitting_rows = 0
    spaces = 0
    with suppress(csv.Error):  # the last row may be incomplete
        for row in csv.reader(lines, delimiter=delimiter, strict=True):
            width = width or len(row)
            fitting_rows += len(row) == width > 1
            spaces += sum(cell.startswith(" ") for cell in row[1:])
    occurrences = 0
    if not fitting_rows:
        occurrences = "".join(lines).count(delimiter)
    return fitting_rows, -spaces, occurrences
