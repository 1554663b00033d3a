"""Where a table has its texts: titles above it, its header, and its columns of text.

A header has names of languages or sides, or a word above numbers. Any other first row is a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, islice, product
from pathlib import PurePath

from mtkit.corpus.characters import is_letter
from mtkit.corpus.columns import Columns, explain_missing_column, is_column_name, name_cells
from mtkit.corpus.files import tell_once, without_packing
from mtkit.corpus.importers import place_of, suffix_of
from mtkit.errors import UserError
from mtkit.extras.tables.rows import MAX_ROW_CELLS, SAMPLE_ROWS, Row, has_quotes
from mtkit.report import fitted, plural, printable, say

MAX_SHOWN_CELLS = 40
"""Width of the text of a first pair in a message, in terminal cells."""
MIN_LABEL_ROWS, ROWS_PER_LABEL = 3, 10
"""A column is one of labels if it has at least so many rows, and each label so many on average."""

SampleRows = Sequence[Sequence[str]]
"""Rows of cells; blank rows are left out."""

_IDENTIFIER = re.compile(r"[!-/:-~]*\d[!-~]*")  # printable ASCII with a digit, such as s12-a
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b[\s\w:.+-]{0,30}")


@cache
def column_letters() -> list[str]:
    """Return the letters of all columns, as a spreadsheet program shows them: A to XFD."""
    letters: list[str] = []
    for length in (1, 2, 3):
        letters += map("".join, product("ABCDEFGHIJKLMNOPQRSTUVWXYZ", repeat=length))
    return letters[:MAX_ROW_CELLS]


def name_column(number: int, header: Sequence[str] = ()) -> str:
    """Return a column for messages: its name in quotes; without a name, its letter."""
    name = header[number] if number < len(header) else ""
    return f"'{name}'" if name else column_letters()[number]


def parse_column(name: str) -> int | str:
    """Return the number that the user has given for a column, or the name."""
    return int(name) if re.fullmatch(r"[0-9]+", name) else name


class Sample:
    """The first rows of a table."""

    def __init__(self, path: str, rows: Iterable[Row]) -> None:
        self.path = path
        self.rows = list(islice(rows, SAMPLE_ROWS))
        self.filled = [row for row in self.rows if row.cells]
        # The cells of rows that are not blank.
        self.cells = [[cell.strip() for cell in row.cells] for row in self.filled]
        # The index in `cells` of the first row below the titles. A title is one cell, also if it is
        # merged with others; a table has rows with several.
        self.top = 0
        for index, cells in enumerate(self.cells):
            if sum(map(bool, cells)) > 1:
                self.top = index
                break

    @property
    def table(self) -> SampleRows:
        """The cells of the rows below the titles."""
        return self.cells[self.top :]

    def find_texts(self) -> list[int]:
        """Return the columns that hold text."""
        return find_texts(self.table)

    def find_names(self, names: Iterable[str | int]) -> int | None:
        """Return the index in `cells` of the first row that has all names; None without names."""
        wanted = {*names}
        for index, cells in enumerate(self.cells):
            if wanted and wanted.issubset(cells):
                return index
        return None

    def find_columns(self) -> Columns:
        """Return the columns of source and target; raise UserError if the choice is not clear."""
        if not self.table:
            return 0, 1
        first = self.table[0]
        texts = self.find_texts()
        named = [column for column in texts if is_column_name(first[column])]
        if len(named) == 2:
            texts = named
        elif len(texts) > 2 and has_header(self.table, texts):
            names = name_cells(first)
            raise UserError(f"{self.path}: choose two of its columns with --columns S T: {names}")
        source = 0
        target = 1
        if len(texts) > 1:
            source, target, *_ = texts
        if len(first) > 2:
            header = first if has_header(self.table, (source, target)) else []
            source_name = name_column(source, header)
            target_name = name_column(target, header)
            say(f"{self.path}: reading columns {source_name} and {target_name}")
        return source, target

    def known_columns(self) -> list[str]:
        """Return the cells that may name columns, and what else may do so, for messages.

        Raises:
            UserError: the first row of a .tsv has no tabs, but another delimiter.
        """
        if not self.table:
            return []
        first = self.rows[0].raw
        delimiter = max(";,|", key=first.count)
        if delimiter in first and "\t" not in first and suffix_of(self.path) == ".tsv":
            name = PurePath(without_packing(self.path)).with_suffix(".csv").name
            problem = f"no tabs, but {delimiter!r}; if it separates cells, name it {name}"
            raise UserError(f"{self.path}:1: {problem}")
        return [*self.table[0], "or letters or numbers from 0"]


@dataclass(frozen=True)
class TextColumns:
    """Where a table has its texts."""

    columns: list[int]
    """The numbers of the columns, from 0."""
    first_row: int
    """The number of the first row of the table, from 1; titles and blank rows stand above it."""
    has_header: bool

    def is_above_texts(self, row: Row) -> bool:
        """Return whether a row is the header, or stands above it."""
        return row.number < self.first_row + self.has_header

    def is_header(self, row: Row) -> bool:
        """Return whether a row is the header."""
        return self.has_header and row.number == self.first_row


def texts_of(path: str, row: Row, columns: Sequence[int]) -> list[str]:
    """Return the cells of these columns; those of a blank row are blank.

    Raises:
        UserError: the row has too few cells.
    """
    if not row.cells:
        return [""] * len(columns)
    if max(columns) < len(row.cells):
        return [row.cells[column] for column in columns]
    names = " and ".join(map(name_column, columns))
    raise UserError(
        f"{place_of(path, row.number)}: columns {names} are read, but the row has only "
        f"{len(row.cells)}; correct it, or choose columns with --columns or source_column and "
        "target_column"
    )


def find_layout(sample: Sample, columns: Sequence[str | int]) -> TextColumns:
    """Return where a table has the given columns, and say what stands above its texts.

    `columns`: numbers from 0, names or letters.

    Raises:
        UserError: the table has no such columns, or a column holds no text.
    """
    path = sample.path
    rows = sample.cells
    if not rows:
        return TextColumns(
            columns=list(range(len(columns))),
            first_row=1,
            has_header=False,
        )
    numbers, header = _find_numbers(sample, columns)
    if len(set(numbers)) < len(numbers):
        name = name_column(numbers[0])
        raise UserError(f"{path}: source and target are both column {name}; choose two columns")
    is_named = header is not None
    is_header = is_named
    can_have_titles = has_quotes(path)
    start = 0
    if header is not None:
        start = header
    elif can_have_titles:
        start = _find_start(sample, numbers)
    if not is_named:
        _check_texts(path, columns, numbers, rows[start:])
        is_header = has_header(rows[start:], numbers)
    first_row = sample.filled[start].number
    if not is_header and not can_have_titles:  # each line of a .tsv is a pair, also a blank one
        first_row = 1
    layout = TextColumns(
        columns=numbers,
        first_row=first_row,
        has_header=is_header,
    )
    _tell_layout(path, layout, rows[start], is_named=is_named)
    return layout


def _find_numbers(sample: Sample, columns: Sequence[str | int]) -> tuple[list[int], int | None]:
    """Return the numbers of columns, and the index of the row that has their names, if any.

    Raises:
        UserError: the table has no such columns, or several of one name.
    """
    path = sample.path
    width = max(map(len, sample.cells))
    numbers: dict[str | int, int] = {}
    for number, letter in enumerate(column_letters()[:width]):
        numbers[number] = number
        numbers[letter] = number
        numbers[letter.lower()] = number
    top = sample.cells[sample.top]
    names: list[str | int] = []
    for column in columns:
        if column in top or column not in numbers:
            names.append(column)
    header = sample.find_names(names)
    first = sample.top if header is None else header
    cells = sample.cells[first]
    if names:  # which go before letters
        numbers.update(zip(cells, count()))
    for column in columns:
        if column not in numbers:
            where = place_of(path, sample.filled[first].number)
            raise explain_missing_column(where, column, sample.known_columns())
        if column in names and cells.count(str(column)) > 1:
            same = [number for number, cell in enumerate(cells) if cell == column]
            choice = " or ".join(map(name_column, same))
            raise UserError(f"{path}: several columns are named {column!r}; choose {choice}")
    return [numbers[column] for column in columns], header


def _find_start(sample: Sample, columns: Sequence[int]) -> int:
    """Return the index of the first row of a table whose header has not been named."""
    if len(columns) == 1:  # above a header are titles, but without a header any row may be a text
        return sample.top if has_header(sample.table, columns) else 0
    width = max(columns) + 1
    for start, row in enumerate(sample.cells):
        if len(row) >= width and all(row[column] for column in columns):
            return start
    return sample.top


def _check_texts(
    path: str, columns: Sequence[str | int], numbers: Sequence[int], rows: SampleRows
) -> None:
    """Raise UserError if a column holds no text, but others do."""
    texts = find_texts(rows)
    have_others_text = len(texts) >= len(columns)
    for column, number in zip(columns, numbers, strict=True):
        holds_text = number in texts or number >= len(rows[0])
        if have_others_text and not holds_text:
            others = " ".join(map(name_column, texts[: len(columns)]))
            raise UserError(
                f"{path}: column {column} holds no text (numbers, identifiers, labels or blanks); "
                f"choose others, such as --columns {others}"
            )


def _tell_layout(path: str, layout: TextColumns, first: Sequence[str], *, is_named: bool) -> None:
    """Say what stands above the texts of a table; `first`: the cells of its first row.

    `is_named`: whether the user has given names of the header.
    """
    unit = "pair" if len(layout.columns) > 1 else "text"
    row = "the first row"
    skipped = layout.first_row - 1
    if skipped:
        row = f"row {layout.first_row}"
        what = "header" if layout.has_header else f"first {unit}"
        tell_once(say, f"{path}: skipped {plural(skipped, 'row')} above the {what}")
    if is_named:
        return
    if layout.has_header:
        tell_once(say, f"{path}: {row} is a header, not a {unit}: {name_cells(first)}")
        return
    if max(layout.columns) >= len(first):  # an error, which the reader of the rows reports
        return
    shown: list[str] = []
    for column in layout.columns:
        start = fitted(printable(first[column]), MAX_SHOWN_CELLS)
        shown.append(f"'{start}'")
    advice = "if it is a header, give its names with --columns or in the config"
    tell_once(say, f"{path}: {row} is read as a {unit}, {' and '.join(shown)}; {advice}")


def find_texts(rows: SampleRows) -> list[int]:
    """Return the columns, from 0, that hold text rather than numbers, identifiers or labels."""
    width = len(rows[0]) if rows else 0
    return [column for column in range(width) if _is_text(_cells_below(rows, column))]


def has_header(rows: SampleRows, columns: Iterable[int]) -> bool:
    """Return whether the first row is a header; `columns`: the columns of source and target."""
    header = rows[0]
    if all(column < len(header) and is_column_name(header[column]) for column in columns):
        return True
    texts = set(find_texts(rows))  # a row may have a hundred thousand cells
    for column, cell in enumerate(header):
        if column in texts:
            continue
        below = _cells_below(rows, column)
        has_digits = re.search(r"\d", cell) is not None
        # A word names a column of numbers, dates, identifiers or labels.
        if below and not has_digits and cell not in below:
            return True
    return False


def _cells_below(rows: SampleRows, column: int) -> list[str]:
    """Return the cells of a column below the first row; leave out blank cells."""
    cells: list[str] = []
    for row in rows[1:]:
        if column < len(row) and row[column].strip():
            cells.append(row[column].strip())
    return cells


def _is_text(cells: list[str]) -> bool:
    """Return whether cells are text: not numbers, dates, identifiers, or a few repeated labels."""
    if len(cells) == 1:  # one cell says nothing about its column, so it counts as text
        return True
    has_letters = any(map(is_letter, "".join(cells)))
    if not has_letters or all(map(_DATE.fullmatch, cells)):
        return False
    distinct = len(set(cells))
    are_identifiers = all(map(_IDENTIFIER.fullmatch, cells))
    if are_identifiers and distinct == len(cells):
        return False
    max_labels = max(1, len(cells) // ROWS_PER_LABEL)
    are_labels = len(cells) >= MIN_LABEL_ROWS and distinct <= max_labels
    return not are_labels
