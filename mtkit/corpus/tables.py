"""Read tables (`.tsv`, `.jsonl`, and `.csv` as spreadsheets write it) and records of datasets."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from functools import partial
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from mtkit.corpus.columns import SampleRows, find_texts, has_header, is_column_name
from mtkit.corpus.files import OLD_LINE_ENDS, is_utf16, read_lines, tell_once
from mtkit.errors import UserError
from mtkit.report import say

MAX_NAMED_COLUMNS = 20
"""Number of columns that an error lists at most."""
SAMPLE_ROWS = 100
"""Number of rows from which delimiter, header and columns are recognised."""
DELIMITERS = "\t;,|"

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
        rows = [cells for _, cells in sample if cells] or [[]]
    texts = find_texts(rows)
    named = [at for at in texts if is_column_name(rows[0][at])]
    if len(texts) > 2 and len(named) != 2 and has_header(rows, texts):
        listed = ", ".join(rows[0][:MAX_NAMED_COLUMNS])
        raise UserError(f"{path}: choose two of its columns with --columns S T: {listed}")
    source, target = named if len(named) == 2 else texts[:2] if len(texts) > 1 else (0, 1)
    if len(rows[0]) > 2:
        say(f"{path}: reading columns {source} and {target}, numbered from 0")
    return source, target


def _read_records(path: str, columns: Columns, lines: Lines) -> Texts:
    source, target = columns
    if not (isinstance(source, str) and isinstance(target, str)):
        raise UserError(f"{path}: the columns of a .jsonl are keys of its objects, not {columns}")
    for number, line in lines:
        where, record = f"{path}:{number}", None
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
    source, target, is_header = _locate(path, columns, [cells for _, cells in sample if cells])
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


def _locate(path: str, columns: Columns, rows: SampleRows) -> tuple[int, int, bool]:
    """Return the numbers of the columns, and whether the first row is a header."""
    if not rows:
        return 0, 1, False
    first = [cell.strip() for cell in rows[0]]
    for column in columns:
        if column < 0 if isinstance(column, int) else column not in first:
            raise _no_column(f"{path}:1", column, [*first, "or numbers from 0"])
        if isinstance(column, str) and first.count(column) > 1:
            raise UserError(f"{path}:1: several columns are named {column!r}; give their numbers")
    source, target = (it if isinstance(it, int) else first.index(it) for it in columns)
    if source == target:
        raise UserError(f"{path}: source and target are both column {source}; choose two columns")
    if (source, target) != columns:
        return source, target, True
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
    return source, target, is_header


def _rows(path: str, lines: Lines) -> Iterator[tuple[int, list[str]]]:
    """Yield the line on which each row begins, and its cells; a blank row has no cells.

    In a .tsv quotes are part of the text, except in UTF-16, which Excel writes.
    """
    if _suffix(path) == ".tsv" and not is_utf16(path):
        return ((number, line.split("\t") if line.strip() else []) for number, line in lines)
    return _csv_rows(path, (line for _, line in lines))


def _csv_rows(path: str, lines: Iterator[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield rows as `_rows` does; a quoted cell may contain delimiters and line breaks."""
    head = list(islice(lines, SAMPLE_ROWS))
    delimiter = max(DELIMITERS, key=partial(_fit, head))
    text = (f"{line}\n" for line in chain(head, lines))
    rows = csv.reader(text, delimiter=delimiter, strict=True, skipinitialspace=True)
    number, width = 1, 0
    try:
        for cells in rows:
            width = width or len(cells)
            if any(map(str.strip, cells[width:])):
                raise UserError(
                    f"{path}:{number}: the row has {len(cells)} cells, but the first has {width}; "
                    f"put quotes around cells that contain {delimiter!r}"
                )
            yield number, cells if any(map(str.strip, cells)) else []
            number = 1 + rows.line_num
    except csv.Error as error:
        is_old = str(error).startswith("new-line")
        advice = OLD_LINE_ENDS if is_old else "quotes inside a cell must be doubled"
        raise UserError(f"{path}:{number}: this row cannot be read ({error}); {advice}") from None


def _fit(lines: list[str], delimiter: str) -> tuple[int, int, int]:
    """Return how many rows have as many cells as the first, and how few cells begin with a space.

    A comma in a sentence has a space behind it, a delimiter rarely. The last number is how often
    the delimiter occurs, if it fits no row.
    """
    rows: list[list[str]] = []
    text = (f"{line}\n" for line in lines)
    with suppress(csv.Error):  # the last row may be incomplete
        rows.extend(filter(None, csv.reader(text, delimiter=delimiter, strict=True)))
    alike = sum(len(row) == len(rows[0]) > 1 for row in rows)
    spaces = sum(cell.startswith(" ") for row in rows for cell in row[1:])
    return alike, -spaces, 0 if alike else "".join(lines).count(delimiter)


def _no_column(where: str, column: str | int, columns: Iterable[str]) -> UserError:
    known = ", ".join(islice(columns, MAX_NAMED_COLUMNS)) or "none"
    return UserError(f"{where}: no column {column!r}; choose from {known}")


def text_at(record: Any, column: str, where: str) -> str:
    """Return the text of a record's column, as one line; a dot leads into a nested record."""
    value = record
    is_one_key = isinstance(record, Mapping) and column in record
    for key in [column] if is_one_key else column.split("."):
        if value is None:
            break
        if not isinstance(value, Mapping) or key not in value:
            raise _no_column(where, column, _columns(record))
        value = value[key]
    if value is None:  # an empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {str(value)[:40]!r}, not text")
    # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
    return value.encode(errors="replace").decode().rstrip("\r\n").replace("\n", " ")


def _columns(record: Any) -> Iterator[str]:
    """Yield the names of the columns; a column of a nested record has a dot in its name."""
    for key, value in record.items() if isinstance(record, Mapping) else ():
        yield from (f"{key}.{inner}" for inner in value) if isinstance(value, Mapping) else [key]
