"""Read tables: `.tsv`, `.jsonl`, spreadsheets, and `.csv` as spreadsheets write it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain, islice
from pathlib import PurePath
from typing import Any

from mtkit.corpus.columns import Columns, is_column_name, name_cells, names_of_columns, text_at
from mtkit.corpus.files import read_lines, without_packing
from mtkit.corpus.importers import Texts, place_of, suffix_of
from mtkit.errors import UserError
from mtkit.extras.tables.layout import (
    below_titles,
    find_layout,
    find_texts,
    has_header,
    name_column,
    sample_cells,
)
from mtkit.extras.tables.rows import DELIMITER_NAMES, SAMPLE_ROWS, Row
from mtkit.report import plural, say


def read_table(path: str, columns: Columns, rows: Iterator[Row]) -> Texts:
    """Yield the texts of each row below the header; a blank row is a blank pair.

    Raises:
        UserError: the table has no such columns, or a row cannot be read.
    """
    sample = list(islice(rows, SAMPLE_ROWS))
    layout = find_layout(path, columns, sample)
    source, target = layout.columns
    for row in chain(sample, rows):
        if row.number < layout.first_text_row:
            continue
        if not row.cells:
            yield path, row.number, "", ""
        elif max(source, target) < len(row.cells):
            yield path, row.number, row.cells[source], row.cells[target]
        else:
            _refuse_other_delimiter(path, row)
            raise _too_few_cells(path, row, layout.columns)


def find_columns(path: str, rows: Iterator[Row]) -> Columns:
    """Return the columns of source and target; raise UserError if the choice is not clear."""
    cells = below_titles(sample_cells(islice(rows, SAMPLE_ROWS)))
    if not cells:
        return 0, 1
    first = cells[0]
    text_columns = find_texts(cells)
    named = [column for column in text_columns if is_column_name(first[column])]
    if len(named) == 2:
        source, target = named
    elif len(text_columns) > 2 and has_header(cells, text_columns):
        raise UserError(
            f"{path}: choose two of its columns with --columns S T: {name_cells(first)}"
        )
    elif len(text_columns) > 1:
        source, target = text_columns[:2]
    else:
        source, target = 0, 1
    if len(first) > 2:
        header = first if has_header(cells, (source, target)) else []
        names = f"{name_column(source, header)} and {name_column(target, header)}"
        say(f"{path}: reading columns {names}")
    return source, target


def has_several_texts(rows: Iterator[Row]) -> bool:
    """Return whether a row holds several texts."""
    return len(find_texts(below_titles(sample_cells(islice(rows, SAMPLE_ROWS))))) > 1


def find_keys(path: str) -> tuple[str, str]:
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


def describe_keys(path: str) -> str:
    """Return the keys of the first object of a .jsonl, for messages."""
    return name_cells(names_of_columns(_first_record(path)))


def describe_columns(path: str, rows: Iterator[Row]) -> str:
    """Return the names of the columns, for messages; without a header, their letters and numbers.

    A table without text has none.
    """
    sample = list(islice(rows, SAMPLE_ROWS))
    for row in sample[:1]:
        _refuse_other_delimiter(path, row)
    cells = below_titles(sample_cells(sample))
    if has_header(cells, find_texts(cells)):
        return name_cells(cells[0])
    if not cells:
        return "none"
    last = len(cells[0]) - 1
    # `has_header` is a guess: the user may know that the first row has names.
    return f"A to {name_column(last)}, 0 to {last}, or a name in the first row"


def read_records(path: str, columns: Columns) -> Texts:
    """Yield the texts of each object of a .jsonl; errors are as in `read_table`."""
    source, target = columns
    if not (isinstance(source, str) and isinstance(target, str)):
        raise UserError(f"{path}: the columns of a .jsonl are keys of its objects, not {columns}")
    with closing(read_lines(path)) as lines:
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
    """Yield the keys of the objects of a .jsonl if they name languages, then all values.

    Each comes with the number of its line; the keys are those of the first SAMPLE_ROWS objects. A
    list becomes a cell with a line for each item.

    Raises:
        UserError: a line is no object, or a value neither a text, a number nor a list of these.
    """
    with closing(read_lines(path)) as lines:
        records = _read_objects(path, lines)
        sample = list(islice(records, SAMPLE_ROWS))
        columns = chain.from_iterable(names_of_columns(record) for _, record in sample)
        names = list(dict.fromkeys(columns))
        keys = [name.rpartition(".")[2] for name in names]
        if sum(map(is_column_name, keys)) > 1:
            yield sample[0][0], keys
        for number, record in chain(sample, records):
            where = f"{path}:{number}"
            yield number, [_cell_at(record, name, where) for name in names]


def _read_objects(path: str, lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield the number and the object of each line that is not blank."""
    for number, line in enumerate(lines, 1):
        where = f"{path}:{number}"
        record = parse_record(line, where)
        if record is None:
            continue
        if not isinstance(record, Mapping):
            raise UserError(f'{where}: not an object, such as {{"en": "dog", "de": "Hund"}}')
        yield number, record


def _cell_at(record: Any, name: str, where: str) -> str:
    """Return a value as the text of a cell; of a missing key, a blank one."""
    value = record
    for key in name.split("."):
        if not isinstance(value, Mapping):
            return ""
        value = value.get(key)
    if value is None:
        return ""
    items = value if isinstance(value, list) else [value]
    for item in items:
        if not isinstance(item, str | int | float):
            raise UserError(f"{where}: {name} is neither a text nor a list of texts")
    return "\n".join(map(str, items))


def _first_record(path: str) -> Any:
    """Return the first object of a .jsonl; None if all lines are blank."""
    with closing(read_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            record = parse_record(line, f"{path}:{number}")
            if record is not None:
                return record
    return None


def _refuse_other_delimiter(path: str, row: Row) -> None:
    """Raise UserError if a row of a .tsv has no tabs, but another delimiter."""
    delimiter = max(DELIMITER_NAMES, key=row.raw.count)
    count = row.raw.count(delimiter)
    if len(row.cells) == 1 and count and suffix_of(path) == ".tsv":
        where = place_of(path, row.number)
        found = plural(count, DELIMITER_NAMES[delimiter])
        unpacked = PurePath(without_packing(path))
        name = unpacked.with_suffix(".csv").name
        raise UserError(f"{where}: no tabs, but {found}; if they separate cells, name it {name}")


def _too_few_cells(path: str, row: Row, columns: Sequence[int]) -> UserError:
    names = " and ".join(map(name_column, columns))
    return UserError(
        f"{place_of(path, row.number)}: columns {names} are read, but the row has only "
        f"{len(row.cells)}; correct it, or choose columns with --columns or source_column and "
        "target_column"
    )
