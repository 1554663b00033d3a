"""Columns of tables and records: recognise headers and texts in a sample of rows, and find a text.

A header has names of languages or sides, or a word above numbers. Any other first row is a pair.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from mtkit.config.language_codes import is_language_code, is_language_name
from mtkit.corpus.characters import is_letter
from mtkit.errors import UserError

SIDES = ("source", "target", "src", "tgt", "trg", "text", "translation", "original", "reference")
"""Words that name a column of text; names of languages do so, too."""
MIN_LABEL_ROWS, ROWS_PER_LABEL = 3, 10
"""A column is one of labels if it has at least so many rows, and each label so many on average."""
MAX_NAMED_COLUMNS = 20
"""Number of columns that a message lists at most."""

Columns = tuple[str | int, str | int]
"""The columns of source and target: numbers from 0, or names."""
SampleRows = Sequence[Sequence[str]]
"""Rows of cells; blank rows are left out."""

_CODE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,4})*")
_WORD = re.compile(r"[^\W\d_]+")
_IDENTIFIER = re.compile(r"[!-/:-~]*\d[!-~]*")  # printable ASCII with a digit, such as s12-a
_BRACKETS = re.compile(r"\([^()]*\)")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b[\s\w:.+-]{0,30}")


def name_cells(cells: Iterable[str]) -> str:
    """Return the cells that are not blank, for messages; of many, the first."""
    filled = (cell.strip() for cell in cells if cell.strip())
    return ", ".join(islice(filled, MAX_NAMED_COLUMNS)) or "none"


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


def is_column_name(cell: str) -> bool:
    """Return whether a cell is a language code such as pt-BR, or words such as "English text"."""
    name = _BRACKETS.sub("", cell).strip().lower()
    if _CODE.fullmatch(name) and is_language_code(name):
        return True
    words = _WORD.findall(name)
    return bool(words) and all(_names_text(word) for word in words)


def _names_text(word: str) -> bool:
    """Return whether a word is the name of a language or a side."""
    # Short words are left out, because many are also codes: "is" is Icelandic, "no" Norwegian.
    return word in SIDES or (len(word) > 3 and is_language_name(word))


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


def explain_missing_column(where: str, column: str | int, columns: Iterable[str]) -> UserError:
    """Return the error for a column that does not exist; `columns`: the names of those that do."""
    return UserError(f"{where}: no column {column!r}; choose from {name_cells(columns)}")


def text_at(record: Any, column: str, where: str) -> str:
    """Return the text of a record's column, as one line; a dot leads into a nested record."""
    is_one_key = isinstance(record, Mapping) and column in record  # a name may contain a dot
    keys = [column] if is_one_key else column.split(".")
    value = record
    for key in keys:
        if value is None:
            break
        if not isinstance(value, Mapping) or key not in value:
            raise explain_missing_column(where, column, names_of_columns(record))
        value = value[key]
    if value is None:  # an empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {str(value)[:40]!r}, not text")
    # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
    encodable = value.encode(errors="replace").decode()
    return encodable.rstrip("\r\n").replace("\n", " ")


def names_of_columns(record: Any) -> Iterator[str]:
    """Yield the names of the columns; a column of a nested record has a dot in its name."""
    if not isinstance(record, Mapping):
        return
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from (f"{name}.{inner}" for inner in value)
        else:
            yield name
