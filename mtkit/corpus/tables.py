"""Read tables (`.tsv`, `.jsonl`, and `.csv` as spreadsheets write it) and records of datasets."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from mtkit.corpus.columns import SampleRows, find_texts, has_header, is_column_name
from mtkit.corpus.files import OLD_LINE_ENDS, is_utf16, read_lines, tell_once
from mtkit.errors import UserError
from mtkit.report import fitted, printable, say

MAX_NAMED_COLUMNS = 20
"""Number of columns that an error lists at most."""
MAX_SHOWN_CELLS = 40
"""Width of the text of a first pair in a message, in terminal cells."""
SAMPLE_ROWS = 100
"""Number of rows from which delimiter, header and columns are recognised."""
DELIMITERS = "\t;,|"
"""Delimiters of a .csv; of those that fit equally well, the first is taken."""

Columns = tuple[str | int, str | int]
Lines = Iterator[tuple[int, str]]
Texts = Iterator[tuple[str, int, str, str]]
"""The file, line, source and target of each pair."""


def is_table(path: str) -> bool:
    """Return whether the name of a file is that of a table."""
    return _suffix(path) in (".tsv", ".csv", ".jsonl")


def _suffix(path: str) -> str:
    return PurePath(path.lower().removesuffix(".gz")).suffix


def read_table(path: str, columns: Columns) -> Generator[tuple[str, int, str, str]]:
    """Yield the texts of each row except a header; a blank row is a blank pair.

    Raises:
        UserError: the table has no such columns, or a row cannot be read.
    """
    if not is_table(path):
        raise UserError(f"{path}: the name of a table ends in .tsv, .csv or .jsonl (or .gz after)")
    read = _read_records if _suffix(path) == ".jsonl" else _read_rows
    with closing(read_lines(path)) as lines:
        yield from read(path, columns, enumerate(lines, 1))


def find_columns(path: str) -> tuple[int, int]:
    """Return the columns of source and target; raise UserError if the choice is not clear."""
    if _suffix(path) == ".jsonl":
        raise UserError(f"{path}: give the keys of source and target with --columns S T")
    with closing(read_lines(path)) as lines:
        sample = islice(_rows(path, enumerate(lines, 1)), SAMPLE_ROWS)
        rows = [cells for _, cells in sample if cells]
    if not rows:
        return 0, 1
    first = rows[0]
    texts = find_texts(rows)
    named = [column for column in texts if is_column_name(first[column])]
    if len(named) == 2:
        source, target = named
    elif len(texts) > 2 and has_header(rows, texts):
        names = ", ".join(first[:MAX_NAMED_COLUMNS])
        raise UserError(f"{path}: choose two of its columns with --columns S T: {names}")
    elif len(texts) > 1:
        source, target = texts[:2]
    else:
        source, target = 0, 1
    if len(first) > 2:
        say(f"{path}: reading columns {source} and {target}, numbered from 0")
    return source, target


def _read_records(path: str, columns: Columns, lines: Lines) -> Texts:
    source, target = columns
    if not (isinstance(source, str) and isinstance(target, str)):
        raise UserError(f"{path}: the columns of a .jsonl are keys of its objects, not {columns}")
    for number, line in lines:
        where = f"{path}:{number}"
        record = None  # a blank line is a blank pair
        if line.strip():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UserError(
                    f"{where}: not JSON ({error}); each line must be a JSON object"
                ) from None
        yield path, number, text_at(record, source, where), text_at(record, target, where)


def _read_rows(path: str, columns: Columns, lines: Lines) -> Texts:
    rows = _rows(path, lines)
    sample = list(islice(rows, SAMPLE_ROWS))
    layout = _find_layout(path, columns, [cells for _, cells in sample if cells])
    source, target, is_header = layout.source, layout.target, layout.has_header
    for number, cells in chain(sample, rows):
        if not cells:
            yield path, number, "", ""
        elif is_header:
            is_header = False
        elif max(source, target) < len(cells):
            yield path, number, cells[source], cells[target]
        else:
            raise UserError(
                f"{path}:{number}: columns {source} and {target} (numbered from 0) are read, but "
                f"the row has only {len(cells)}; correct it, or choose columns with --columns or "
                "source_column and target_column"
            )


@dataclass(frozen=True)
class _Layout:
    """Where a table has its texts."""

    source: int
    """Number of the column, from 0."""
    target: int
    has_header: bool


def _find_layout(path: str, columns: Columns, rows: SampleRows) -> _Layout:
    """Return the numbers of the columns, and whether the first row is a header; say which it is.

    Raises:
        UserError: the table has no such columns, or a column holds no text.
    """
    if not rows:
        return _Layout(source=0, target=1, has_header=False)
    first = [cell.strip() for cell in rows[0]]
    source, target = (_number_of(column, path, first) for column in columns)
    if source == target:
        raise UserError(f"{path}: source and target are both column {source}; choose two columns")
    has_names = any(isinstance(column, str) for column in columns)
    if has_names:
        return _Layout(source, target, has_header=True)
    texts = find_texts(rows)
    for column in (source, target):
        if column < len(first) and column not in texts and len(texts) > 1:
            raise UserError(
                f"{path}: column {column} holds no text (numbers, identifiers, labels or blanks); "
                f"choose others, such as --columns {texts[0]} {texts[1]}"
            )
    is_header = has_header(rows, (source, target))
    if is_header:
        tell_once(say, f"{path}: the first row is a header, not a pair: {', '.join(first)}")
    elif max(source, target) < len(first):
        tell_once(
            say,
            f"{path}: the first row is read as a pair, '{_start_of(first[source])}' and "
            f"'{_start_of(first[target])}'; if these are names of columns, give them with "
            "--columns, or as source_column and target_column",
        )
    return _Layout(source, target, is_header)


def _number_of(column: str | int, path: str, names: list[str]) -> int:
    """Return the number of a column; `names`: the cells of the first row."""
    exists = column >= 0 if isinstance(column, int) else column in names
    if not exists:
        raise _no_column(f"{path}:1", column, [*names, "or numbers from 0"])
    if isinstance(column, int):
        return column
    if names.count(column) > 1:
        raise UserError(f"{path}:1: several columns are named {column!r}; give their numbers")
    return names.index(column)


def _start_of(cell: str) -> str:
    return fitted(printable(cell), MAX_SHOWN_CELLS)


def _rows(path: str, lines: Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each row begins, and its cells; a blank row has no cells.

    In a .tsv quotes are part of the text, except in UTF-16, which Excel writes.
    """
    if _suffix(path) != ".tsv" or is_utf16(path):
        yield from _csv_rows(path, (line for _, line in lines))
        return
    for number, line in lines:
        yield number, line.split("\t") if line.strip() else []


def _csv_rows(path: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows as `_rows` does; a quoted cell may contain delimiters and line breaks."""
    sample = list(islice(lines, SAMPLE_ROWS))
    delimiter = max(DELIMITERS, key=lambda delimiter: _fit(sample, delimiter))
    rows = csv.reader(
        (f"{line}\n" for line in chain(sample, lines)),
        delimiter=delimiter,
        strict=True,
        skipinitialspace=True,
    )
    number = 1
    width = 0
    try:
        for cells in rows:
            if width == 0:  # blank lines above the first row have no cells
                width = len(cells)
            has_extra_text = any(cell.strip() for cell in cells[width:])
            if has_extra_text:
                raise UserError(
                    f"{path}:{number}: the row has {len(cells)} cells, but the first has {width}; "
                    f"put quotes around cells that contain {delimiter!r}"
                )
            is_blank = not any(cell.strip() for cell in cells)
            yield number, [] if is_blank else cells
            number = 1 + rows.line_num  # the row may have had several lines
    except csv.Error as error:
        has_old_line_ends = str(error).startswith("new-line")
        advice = OLD_LINE_ENDS if has_old_line_ends else "quotes inside a cell must be doubled"
        raise UserError(f"{path}:{number}: this row cannot be read ({error}); {advice}") from None


def _fit(lines: list[str], delimiter: str) -> tuple[int, int, int]:
    """Return how well a delimiter fits the lines; the largest of these tuples fits best.

    First: how many rows have as many cells as the first. Then: how few cells begin with a space; a
    comma in a sentence has a space behind it, a delimiter rarely. Last, if the delimiter fits no
    row: how often it occurs.
    """
    rows: list[list[str]] = []
    text = (f"{line}\n" for line in lines)
    with suppress(csv.Error):  # the last row may be incomplete
        for row in csv.reader(text, delimiter=delimiter, strict=True):
            if row:
                rows.append(row)
    fitting_rows = sum(len(row) == len(rows[0]) > 1 for row in rows)
    spaces = sum(cell.startswith(" ") for row in rows for cell in row[1:])
    occurrences = 0
    if not fitting_rows:
        occurrences = "".join(lines).count(delimiter)
    return fitting_rows, -spaces, occurrences


def _no_column(where: str, column: str | int, columns: Iterable[str]) -> UserError:
    known = ", ".join(islice(columns, MAX_NAMED_COLUMNS)) or "none"
    return UserError(f"{where}: no column {column!r}; choose from {known}")


def text_at(record: Any, column: str, where: str) -> str:
    """Return the text of a record's column, as one line; a dot leads into a nested record."""
    is_one_key = isinstance(record, Mapping) and column in record  # a name may contain a dot
    keys = [column] if is_one_key else column.split(".")
    value = record
    for key in keys:
        if value is None:
            break
        if not isinstance(value, Mapping) or key not in value:
            raise _no_column(where, column, _column_names(record))
        value = value[key]
    if value is None:  # an empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {str(value)[:40]!r}, not text")
    # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
    encodable = value.encode(errors="replace").decode()
    return encodable.rstrip("\r\n").replace("\n", " ")


def _column_names(record: Any) -> Iterator[str]:
    """Yield the names of the columns; a column of a nested record has a dot in its name."""
    if not isinstance(record, Mapping):
        return
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name
