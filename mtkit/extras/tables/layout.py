"""Where a table has its texts: titles above it, its header, and its columns of text.

A header has names of languages or sides, or a word above numbers. Any other first row is a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mtkit.corpus.characters import is_letter
from mtkit.corpus.columns import explain_missing_column, is_column_name, name_cells
from mtkit.corpus.files import tell_once
from mtkit.corpus.importers import place_of
from mtkit.errors import UserError
from mtkit.extras.tables.rows import Row, has_quotes
from mtkit.report import fitted, plural, printable, say

MAX_SHOWN_CELLS = 40
"""Width of the text of a first pair in a message, in terminal cells."""
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
MIN_LABEL_ROWS, ROWS_PER_LABEL = 3, 10
"""A column is one of labels if it has at least so many rows, and each label so many on average."""

SampleRows = Sequence[Sequence[str]]
"""Rows of cells; blank rows are left out."""

_LETTERS = re.compile("[A-Za-z]{1,3}")
_IDENTIFIER = re.compile(r"[!-/:-~]*\d[!-~]*")  # printable ASCII with a digit, such as s12-a
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b[\s\w:.+-]{0,30}")


@dataclass(frozen=True)
class TextColumns:
    """Where a table has its texts."""

    columns: list[int]
    """The numbers of the columns, from 0."""
    first_row: int
    """The number of the first row of the table, from 1; titles and blank rows stand above it."""
    has_header: bool

    @property
    def first_text_row(self) -> int:
        """The number of the first row below the header, from 1."""
        return self.first_row + self.has_header


def parse_column(name: str) -> int | str:
    """Return the number that the user has given for a column, or the name."""
    return int(name) if re.fullmatch(r"[0-9]+", name) else name


def are_letters(columns: Iterable[str | int]) -> bool:
    """Return whether names may be letters of columns, as a spreadsheet program shows them."""
    return all(_LETTERS.fullmatch(str(column)) for column in columns)


def name_column(number: int, header: Sequence[str] = ()) -> str:
    """Return a column for messages: its name in quotes; without a name, its letter."""
    name = header[number].strip() if number < len(header) else ""
    if name:
        return f"'{name}'"
    letters = ""
    number += 1
    while number:
        number, letter = divmod(number - 1, len(LETTERS))
        letters = LETTERS[letter] + letters
    return letters


def sample_cells(rows: Iterable[Row]) -> list[list[str]]:
    """Return the cells of the rows that are not blank."""
    return [row.cells for row in rows if row.cells]


def below_titles(rows: SampleRows) -> SampleRows:
    """Return the rows without the titles above a table.

    A title is one cell, also if it is merged with others; a table has rows with several.
    """
    for start, row in enumerate(rows):
        if sum(bool(cell.strip()) for cell in row) > 1:
            return rows[start:]
    return rows


def find_names(names: Iterable[str | int], rows: SampleRows) -> int | None:
    """Return the index of the first row that has all names in its cells."""
    wanted = {*names}
    for index, row in enumerate(rows):
        if wanted <= {cell.strip() for cell in row}:
            return index
    return None


def find_layout(path: str, columns: Sequence[str | int], sample: Iterable[Row]) -> TextColumns:
    """Return where a table has the given columns, and say what stands above its texts.

    `columns`: numbers from 0, names or letters. `sample`: the first rows.

    Raises:
        UserError: the table has no such columns, or a column holds no text.
    """
    filled = [row for row in sample if row.cells]
    if not filled:
        return TextColumns(
            columns=list(range(len(columns))),
            first_row=1,
            has_header=False,
        )
    rows = [[cell.strip() for cell in row.cells] for row in filled]
    top = len(rows) - len(below_titles(rows))
    names = _names_among(columns, rows, rows[top])
    header = find_names(names, rows) if names else None
    first = top if header is None else header
    where = place_of(path, filled[first].number)
    numbers: list[int] = []
    for column in columns:
        if column in names:
            number = _find_name(column, where, rows[first])
        else:
            number = _number_of(column, rows)
        if number is None or number < 0:
            known = [*rows[top], "or letters or numbers from 0"]
            raise explain_missing_column(where, column, known)
        numbers.append(number)
    if len(set(numbers)) < len(numbers):
        column = name_column(numbers[0])
        raise UserError(f"{path}: source and target are both column {column}; choose two columns")
    if header is not None:
        layout = TextColumns(
            columns=numbers,
            first_row=filled[header].number,
            has_header=True,
        )
    else:
        # In a plain .tsv, each line without a header is a pair, whatever it lacks.
        start = 0
        if has_quotes(path):
            start = _find_start(rows, numbers, top)
        rows = rows[start:]
        _check_texts(path, columns, numbers, rows)
        is_header = has_header(rows, numbers)
        first_row = 1
        if is_header or has_quotes(path):
            first_row = filled[start].number
        layout = TextColumns(
            columns=numbers,
            first_row=first_row,
            has_header=is_header,
        )
        _tell_first_row(path, layout, rows[0])
    _tell_titles(path, layout)
    return layout


def _names_among(
    columns: Sequence[str | int], rows: SampleRows, first: Sequence[str]
) -> list[str | int]:
    """Return the columns that are given by name; `first`: the first row with several cells.

    A letter is a name only if this row has it.
    """
    names: list[str | int] = []
    for column in columns:
        is_name = _number_of(column, rows) is None
        if is_name or (isinstance(column, str) and column in first):
            names.append(column)
    return names


def _number_of(column: str | int, rows: SampleRows) -> int | None:
    """Return the number of a column whose number or letter is given; None if it is a name."""
    if isinstance(column, int):
        return column
    if not are_letters([column]):
        return None
    number = 0
    for letter in column.upper():
        number = number * len(LETTERS) + LETTERS.index(letter) + 1
    width = max(map(len, rows))
    return number - 1 if number <= width else None


def _find_name(name: str | int, where: str, header: Sequence[str]) -> int | None:
    """Return the number of the column that has a name; None if there is none."""
    numbers = [number for number, cell in enumerate(header) if cell == name]
    if len(numbers) > 1:
        letters = " or ".join(map(name_column, numbers))
        raise UserError(f"{where}: several columns are named {name!r}; choose {letters}")
    return numbers[0] if numbers else None


def _find_start(rows: SampleRows, columns: Sequence[int], top: int) -> int:
    """Return the index of the first row of a table; `top`: of the first with several cells."""
    if len(columns) == 1:  # above a header are titles, but without a header any row may be a text
        return top if has_header(rows[top:], columns) else 0
    for start, row in enumerate(rows):
        cells = [row[column] for column in columns if column < len(row)]
        if len(cells) == len(columns) and all(cells):
            return start
    return top


def _check_texts(
    path: str, columns: Sequence[str | int], numbers: Sequence[int], rows: SampleRows
) -> None:
    """Raise UserError if a column holds no text, but others do."""
    texts = find_texts(rows)
    for column, number in zip(columns, numbers, strict=True):
        holds_text = number in texts or number >= len(rows[0])
        have_others_text = len(texts) >= len(columns)
        if have_others_text and not holds_text:
            others = " ".join(map(name_column, texts[: len(columns)]))
            raise UserError(
                f"{path}: column {column} holds no text (numbers, identifiers, labels or blanks); "
                f"choose others, such as --columns {others}"
            )


def _tell_titles(path: str, layout: TextColumns) -> None:
    """Say how many rows above the table are skipped."""
    skipped = layout.first_row - 1
    if skipped:
        what = "first pair" if len(layout.columns) > 1 else "first text"
        if layout.has_header:
            what = "header"
        tell_once(say, f"{path}: skipped {plural(skipped, 'row')} above the {what}")


def _tell_first_row(path: str, layout: TextColumns, first: Sequence[str]) -> None:
    """Say whether the first row is a header; `first`: its cells."""
    row = "the first row" if layout.first_row == 1 else f"row {layout.first_row}"
    if layout.has_header:
        tell_once(say, f"{path}: {row} is a header, not a pair: {name_cells(first)}")
        return
    if max(layout.columns) >= len(first):  # an error, which the reader of the rows reports
        return
    texts = " and ".join(f"'{_start_of(first[column])}'" for column in layout.columns)
    if len(layout.columns) > 1:
        what = "a pair"
        advice = (
            "if these are names of columns, give them with --columns, or as source_column and "
            "target_column"
        )
    else:
        what = "text"
        advice = "if this is the name of the column, give it with --columns"
    tell_once(say, f"{path}: {row} is read as {what}, {texts}; {advice}")


def _start_of(cell: str) -> str:
    return fitted(printable(cell), MAX_SHOWN_CELLS)


def find_texts(rows: SampleRows) -> list[int]:
    """Return the columns, from 0, that hold text rather than numbers, identifiers or labels."""
    if not rows:
        return []
    columns = range(len(rows[0]))
    return [column for column in columns if _is_text(_cells_below(rows, column))]


def has_header(rows: SampleRows, columns: Iterable[int]) -> bool:
    """Return whether the first row is a header; `columns`: the columns of source and target."""
    if not rows:
        return False
    header = [cell.strip() for cell in rows[0]]
    names = [header[column] if column < len(header) else "" for column in columns]
    if all(is_column_name(name) for name in names):
        return True
    texts = set(find_texts(rows))  # a row may have a hundred thousand cells
    for column, cell in enumerate(header):
        if column not in texts and _is_above_numbers(cell, _cells_below(rows, column)):
            return True
    return False


def _is_above_numbers(cell: str, below: list[str]) -> bool:
    """Return whether a cell names a column of numbers, dates, identifiers or labels."""
    has_digits = re.search(r"\d", cell) is not None
    return bool(below) and not has_digits and cell not in below


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
    if distinct == len(cells) and all(map(_IDENTIFIER.fullmatch, cells)):
        return False
    max_labels = max(1, len(cells) // ROWS_PER_LABEL)
    are_labels = len(cells) >= MIN_LABEL_ROWS and distinct <= max_labels
    return not are_labels
