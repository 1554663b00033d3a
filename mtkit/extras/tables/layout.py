"""Where a table has its texts: titles above it, its header, and its columns of text.

A header has names of languages or sides, a word above numbers, or no name above an index. Any other
first row is a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import islice, product
from pathlib import PurePath
from typing import NamedTuple

from mtkit.corpus.characters import has_letters
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

_INDEX_NAMES = ("", "#", "№")
_INTEGER = re.compile(r"\d+")
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
        self.filled = [row for row in self.rows if not row.is_blank]
        self.cells: SampleRows = [[cell.strip() for cell in row.cells] for row in self.filled]
        self.top = 0
        """The index in `cells` of the first row below the titles."""
        # A title fills one cell. The table begins at the first row with two filled cells.
        for index, cells in enumerate(self.cells):
            if sum(map(bool, cells)) > 1:
                self.top = index
                break
        self.table = self.cells[self.top :]

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
        texts = find_texts(self.table)
        named = [column for column in texts if is_column_name(first[column])]
        if len(named) == 2:
            texts = named
        elif len(texts) > 2 and has_header(self.table, texts):
            names = name_cells(first)
            raise UserError(f"{self.path}: choose two of its columns with --columns S T: {names}")
        if len(texts) < 2:
            texts = [0, 1]
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


class TextColumns(NamedTuple):
    """Where a table has its texts."""

    columns: Sequence[int]
    """The numbers of the columns, from 0."""
    header: int = 0
    """The number of the row of the header, from 1; 0 if there is none."""
    first_text: int = 1
    """The number of the first row of texts; titles, blank rows and the header stand above it."""

    def texts_of(self, path: str, row: Row) -> Sequence[str]:
        """Return the cells of these columns; those of a blank row are blank.

        Raises:
            UserError: the row has too few cells.
        """
        if row.is_blank:
            return [""] * len(self.columns)
        if max(self.columns) < len(row.cells):
            return [row.cells[column] for column in self.columns]
        names = " and ".join(map(name_column, self.columns))
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
    if not sample.cells:
        return TextColumns(range(len(columns)))
    numbers, start = _find_numbers(sample, columns)
    if len(set(numbers)) < len(numbers):
        name = name_column(numbers[0])
        problem = f"source and target are both column {name}; choose two columns"
        raise UserError(f"{sample.path}: {problem}")
    is_named = start is not None
    can_have_titles = has_quotes(sample.path)
    if start is None:
        start = _find_start(sample, numbers) if can_have_titles else 0
        _check_texts(sample.path, columns, numbers, sample.cells[start:])
    number = sample.filled[start].number
    is_header = is_named or has_header(sample.cells[start:], numbers)
    if is_header:
        layout = TextColumns(numbers, header=number, first_text=number + 1)
    elif can_have_titles:
        layout = TextColumns(numbers, first_text=number)
    else:  # each line of a .tsv is a pair, also a blank one
        layout = TextColumns(numbers)
    _tell_layout(sample.path, layout, sample.cells[start], is_named=is_named)
    return layout


def _find_numbers(sample: Sample, columns: Sequence[str | int]) -> tuple[list[int], int | None]:
    """Return the numbers of columns, and the index of the row that has their names, if any.

    Raises:
        UserError: the table has no such columns, or several of one name.
    """
    path = sample.path
    width = max(map(len, sample.cells))
    places: dict[str | int, int] = {}
    for number, letter in enumerate(column_letters()[:width]):
        places[number] = number
        places[letter] = number
        places[letter.lower()] = number
    names: list[str | int] = []
    for column in columns:
        is_in_top = column in sample.table[0]
        if is_in_top or column not in places:  # a name goes before a letter
            names.append(column)
    header = sample.find_names(names)
    first = sample.top if header is None else header
    numbers: list[int] = []
    for column in columns:
        if column in names:
            same = [number for number, cell in enumerate(sample.cells[first]) if cell == column]
        else:
            same = [places[column]]
        if not same:
            where = place_of(path, sample.filled[first].number)
            raise explain_missing_column(where, column, sample.known_columns())
        if len(same) > 1:
            choice = " or ".join(map(name_column, same))
            raise UserError(f"{path}: several columns are named {column!r}; choose {choice}")
        numbers += same
    return numbers, header


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
    number = layout.header or layout.first_text
    if number > 1:
        what = "header" if layout.header else f"first {unit}"
        tell_once(say, f"{path}: skipped {plural(number - 1, 'row')} above the {what}")
    if is_named:
        return
    if layout.header:
        names = name_cells(first)
        tell_once(say, f"{path}: row {number} is a header, not a {unit}: {names}")
        return
    if max(layout.columns) >= len(first):  # an error, which the reader of the rows reports
        return
    shown: list[str] = []
    for column in layout.columns:
        start = fitted(printable(first[column]), MAX_SHOWN_CELLS)
        shown.append(f"'{start}'")
    advice = "if it is a header, give its names with --columns or in the config"
    tell_once(say, f"{path}: row {number} is read as a {unit}, {' and '.join(shown)}; {advice}")


def find_texts(rows: SampleRows) -> list[int]:
    """Return the columns, from 0, that hold text rather than numbers, identifiers or labels."""
    width = len(rows[0]) if rows else 0
    texts: list[int] = []
    for column in range(width):
        if _is_text(_cells_below(rows, column)):
            texts.append(column)
    return texts


def has_header(rows: SampleRows, columns: Sequence[int]) -> bool:
    """Return whether the first row is a header; `columns`: the columns of source and target."""
    header = rows[0]
    cells = [header[column] for column in columns if column < len(header)]
    if len(cells) == len(columns) and all(map(is_column_name, cells)):
        return True
    if header[0] in _INDEX_NAMES and _is_index(rows):
        return True
    for column, cell in enumerate(header):
        below = _cells_below(rows, column)
        is_word = has_letters(cell) and re.search(r"\d", cell) is None
        # A word names a column of numbers, dates, identifiers or labels.
        if below and is_word and cell not in below and not _is_text(below):
            return True
    return False


def _is_index(rows: SampleRows) -> bool:
    """Return whether the first column numbers the rows below the first, as pandas and R do."""
    distinct = set(_cells_below(rows, 0))
    has_all = len(distinct) == len(rows) - 1 > 1
    return has_all and all(map(_INTEGER.fullmatch, distinct))


def _cells_below(rows: SampleRows, column: int) -> list[str]:
    """Return the cells of a column below the first row; leave out blank cells."""
    cells: list[str] = []
    for row in rows[1:]:
        if column < len(row) and row[column]:
            cells.append(row[column])
    return cells


def _is_text(cells: list[str]) -> bool:
    """Return whether cells are text: not numbers, dates, identifiers, or a few repeated labels."""
    if len(cells) == 1:  # one cell says nothing about its column, so it counts as text
        return True
    if not any(map(has_letters, cells)) or all(map(_DATE.fullmatch, cells)):
        return False
    distinct = len(set(cells))
    are_identifiers = all(map(_IDENTIFIER.fullmatch, cells))
    if are_identifiers and distinct == len(cells):
        return False
    max_labels = max(1, len(cells) // ROWS_PER_LABEL)
    are_labels = len(cells) >= MIN_LABEL_ROWS and distinct <= max_labels
    return not are_labels
