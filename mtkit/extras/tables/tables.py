"""Read tables: `.tsv`, `.jsonl`, spreadsheets, and `.csv` as spreadsheets write it."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from mtkit.corpus.columns import (
    Columns,
    SampleRows,
    explain_missing_column,
    find_texts,
    has_header,
    is_column_name,
    name_cells,
    names_of_columns,
    text_at,
)
from mtkit.corpus.files import read_lines, tell_once
from mtkit.corpus.importers import Texts, place_of, suffix_of
from mtkit.errors import UserError
from mtkit.extras.tables.rows import DELIMITER_NAMES, SAMPLE_ROWS, Row, read_rows
from mtkit.extras.tables.sheets import is_sheet, read_sheet
from mtkit.report import fitted, plural, printable, say

MAX_SHOWN_CELLS = 40
"""Width of the text of a first pair in a message, in terminal cells."""


def parse_column(name: str) -> int | str:
    """Return the number that the user has given for a column, or the name."""
    return int(name) if re.fullmatch(r"[0-9]+", name) else name


def read_table(path: str, columns: Columns) -> Generator[tuple[str, int, str, str]]:
    """Yield the texts of each row except a header; a blank row is a blank pair.

    Raises:
        UserError: the table has no such columns, or a row cannot be read.
    """
    if suffix_of(path) == ".jsonl":
        with closing(read_lines(path)) as lines:
            yield from _read_records(path, columns, lines)
    else:
        with closing(open_rows(path, columns)) as rows:
            yield from _read_rows(path, columns, rows)


def open_rows(path: str, columns: Iterable[str | int] = ()) -> Generator[Row]:
    """Yield the rows of a table other than a .jsonl; errors are as in `read_rows`.

    Of a spreadsheet, read the sheet that has the given columns.
    """
    if is_sheet(path):
        with closing(read_sheet(path, columns)) as lines:
            yield from read_rows(path, lines)
        return
    with closing(read_lines(path)) as lines:
        yield from read_rows(path, (f"{line}\n" for line in lines))


def find_columns(path: str) -> Columns:
    """Return the columns of source and target; raise UserError if the choice is not clear."""
    if suffix_of(path) == ".jsonl":
        return _find_keys(path)
    with closing(open_rows(path)) as all_rows:
        rows = sample_cells(islice(all_rows, SAMPLE_ROWS))
    if not rows:
        return 0, 1
    first = rows[0]
    text_columns = find_texts(rows)
    named = [column for column in text_columns if is_column_name(first[column])]
    if len(named) == 2:
        source, target = named
    elif len(text_columns) > 2 and has_header(rows, text_columns):
        raise UserError(
            f"{path}: choose two of its columns with --columns S T: {name_cells(first)}"
        )
    elif len(text_columns) > 1:
        source, target = text_columns[:2]
    else:
        source, target = 0, 1
    if len(first) > 2:
        if has_header(rows, (source, target)) and first[source].strip() and first[target].strip():
            say(f"{path}: reading columns '{first[source]}' and '{first[target]}'")
        else:
            say(f"{path}: reading columns {source} and {target}, numbered from 0")
    return source, target


def has_several_texts(path: str) -> bool:
    """Return whether a row of a .csv, .tsv or .jsonl holds several texts."""
    if suffix_of(path) == ".jsonl":
        return True
    with closing(open_rows(path)) as rows:
        sample = sample_cells(islice(rows, SAMPLE_ROWS))
    return len(find_texts(sample)) > 1


def _find_keys(path: str) -> tuple[str, str]:
    """Return the only two keys of a .jsonl with texts; raise UserError if it has others."""
    record = _first_record(path)
    keys = list(names_of_columns(record))
    texts = [key for key in keys if _holds_text(record, key)]
    if len(texts) == 2:
        source, target = texts
        say(f"{path}: reading keys '{source}' and '{target}'")
        return source, target
    raise UserError(
        f"{path}: give the keys of source and target with --columns S T: {name_cells(keys)}"
    )


def _holds_text(record: Any, key: str) -> bool:
    try:
        return bool(text_at(record, key, "").strip())
    except UserError:  # a number, for example
        return False


def describe_columns(path: str) -> str:
    """Return the names of the columns, for messages; without a header, their numbers.

    A table without text has none.
    """
    if suffix_of(path) == ".jsonl":
        return name_cells(names_of_columns(_first_record(path)))
    with closing(open_rows(path)) as all_rows:
        sample = list(islice(all_rows, SAMPLE_ROWS))
    for row in sample[:1]:
        _refuse_other_delimiter(path, row)
    rows = sample_cells(sample)
    first = rows[0] if rows else []
    texts = find_texts(rows)
    if has_header(rows, texts):
        return name_cells(first)
    if not first:
        return "none"
    # `has_header` is a guess: the user may know that the first row has names.
    return f"0 to {len(first) - 1}, or a name in the first row"


def sample_cells(rows: Iterable[Row]) -> list[list[str]]:
    """Return the cells of the rows that are not blank."""
    return [row.cells for row in rows if row.cells]


def _read_records(path: str, columns: Columns, lines: Iterable[str]) -> Texts:
    source, target = columns
    if not (isinstance(source, str) and isinstance(target, str)):
        raise UserError(f"{path}: the columns of a .jsonl are keys of its objects, not {columns}")
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        record = parse_record(line, where)
        source_text = text_at(record, source, where)
        target_text = text_at(record, target, where)
        yield path, number, source_text, target_text


def parse_record(line: str, where: str) -> Any:
    """Return the object of a line of a .jsonl; None if the line is blank."""
    if not line.strip():
        return None
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); each line must be a JSON object") from None


def read_keys_and_values(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the keys of the first object of a .jsonl if they name languages, then all values.

    Each comes with the number of its line. A list becomes a cell with a line for each item.
    """
    names: list[str] = []
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            record = parse_record(line, f"{path}:{number}")
            if record is None:
                continue
            if not names:
                names = list(names_of_columns(record))
                keys = [name.rpartition(".")[2] for name in names]
                if sum(map(is_column_name, keys)) > 1:
                    yield number, keys
            yield number, [_cell_at(record, name) for name in names]


def _cell_at(record: Any, name: str) -> str:
    """Return a value as the text of a cell; of a missing key, a blank one."""
    value = record
    for key in name.split("."):
        if not isinstance(value, Mapping):
            return ""
        value = value.get(key)
    if value is None:
        return ""
    if not isinstance(value, list):
        return str(value)
    return "\n".join(map(str, value))


def _first_record(path: str) -> Any:
    """Return the first object of a .jsonl; None if all lines are blank."""
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            record = parse_record(line, f"{path}:{number}")
            if record is not None:
                return record
    return None


def _read_rows(path: str, columns: Columns, rows: Iterator[Row]) -> Texts:
    sample = list(islice(rows, SAMPLE_ROWS))
    layout = find_layout(path, columns, sample_cells(sample))
    source, target = layout.columns
    is_header = layout.has_header
    for row in chain(sample, rows):
        if not row.cells:
            yield path, row.number, "", ""
        elif is_header:
            is_header = False
        elif max(source, target) < len(row.cells):
            yield path, row.number, row.cells[source], row.cells[target]
        else:
            _refuse_other_delimiter(path, row)
            raise _too_few_cells(path, row, columns)


def _refuse_other_delimiter(path: str, row: Row) -> None:
    """Raise UserError if a row of a .tsv has no tabs, but another delimiter."""
    delimiter = max(DELIMITER_NAMES, key=row.raw.count)
    count = row.raw.count(delimiter)
    if len(row.cells) == 1 and count and suffix_of(path) == ".tsv":
        where = place_of(path, row.number)
        found = plural(count, DELIMITER_NAMES[delimiter])
        unpacked = PurePath(path.removesuffix(".gz"))
        name = unpacked.with_suffix(".csv").name
        raise UserError(f"{where}: no tabs, but {found}; if they separate cells, name it {name}")


def _too_few_cells(path: str, row: Row, columns: Columns) -> UserError:
    where = place_of(path, row.number)
    source, target = columns
    return UserError(
        f"{where}: columns {source} and {target} (numbered from 0) are read, but the row has only "
        f"{len(row.cells)}; correct it, or choose columns with --columns or source_column and "
        "target_column"
    )


@dataclass(frozen=True)
class TextColumns:
    """Where a table has its texts."""

    columns: list[int]
    """The numbers of the columns, from 0."""
    has_header: bool


def find_layout(path: str, columns: Sequence[str | int], rows: SampleRows) -> TextColumns:
    """Return where the first rows have the given columns, and whether the first is a header.

    Say which it is, if no column is named.

    Raises:
        UserError: the table has no such columns, or a column holds no text.
    """
    if not rows:
        return TextColumns(columns=list(range(len(columns))), has_header=False)
    first = [cell.strip() for cell in rows[0]]
    numbers = [_number_of(column, path, first) for column in columns]
    if len(set(numbers)) < len(numbers):
        raise UserError(
            f"{path}: source and target are both column {numbers[0]}; choose two columns"
        )
    has_names = any(isinstance(column, str) for column in columns)
    if has_names:
        return TextColumns(numbers, has_header=True)
    texts = find_texts(rows)
    for column in numbers:
        if column < len(first) and column not in texts and len(texts) >= len(columns):
            others = " ".join(map(str, texts[: len(columns)]))
            raise UserError(
                f"{path}: column {column} holds no text (numbers, identifiers, labels or blanks); "
                f"choose others, such as --columns {others}"
            )
    layout = TextColumns(numbers, has_header(rows, numbers))
    _tell_layout(path, layout, first)
    return layout


def _tell_layout(path: str, layout: TextColumns, first: Sequence[str]) -> None:
    """Say whether the first row is a header; `first`: its cells."""
    if layout.has_header:
        tell_once(say, f"{path}: the first row is a header, not a pair: {name_cells(first)}")
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
    tell_once(say, f"{path}: the first row is read as {what}, {texts}; {advice}")


def _number_of(column: str | int, path: str, names: list[str]) -> int:
    """Return the number of a column; `names`: the cells of the first row."""
    exists = column >= 0 if isinstance(column, int) else column in names
    if not exists:
        raise explain_missing_column(f"{path}:1", column, [*names, "or numbers from 0"])
    if isinstance(column, int):
        return column
    if names.count(column) > 1:
        raise UserError(f"{path}:1: several columns are named {column!r}; give their numbers")
    return names.index(column)


def _start_of(cell: str) -> str:
    return fitted(printable(cell), MAX_SHOWN_CELLS)
