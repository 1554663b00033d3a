"""Columns of tables and records: recognise names of columns, and find the text of a record."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from mtkit.config.language_codes import is_language_code, is_language_name
from mtkit.errors import UserError

SIDES = ("source", "target", "src", "tgt", "trg", "text", "translation", "original", "reference")
"""Words that name a column of text; names of languages do so, too."""
MAX_NAMED_COLUMNS = 20
"""Number of columns that a message lists at most."""

Columns = tuple[str | int, str | int]
"""The columns of source and target: numbers from 0, names, or letters such as C."""

_FORMULA = re.compile(r"\s*[=@]|\s*[+-](?![\d.,]*(?:[eE][+-]?\d+)?\Z)")
_CODE = re.compile(r"[a-z]{2,3}([-_][a-z0-9]{2,4})*")
_WORD = re.compile(r"[^\W\d_]+")
_BRACKETS = re.compile(r"\([^()]*\)")


def name_cells(cells: Iterable[str]) -> str:
    """Return the cells that are not blank, for messages; of many, the first."""
    filled = (cell.strip() for cell in cells if cell.strip())
    return ", ".join(islice(filled, MAX_NAMED_COLUMNS)) or "none"


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


def explain_missing_column(where: str, column: str | int, columns: Iterable[str]) -> UserError:
    """Return the error for a column that does not exist; `columns`: the names of those that do."""
    return UserError(f"{where}: no column {column!r}; choose from {name_cells(columns)}")


def disarm_formula(cell: str) -> str:
    """Return a cell that no spreadsheet program runs: with ' before the start of a formula.

    For cells of a file that mtkit itself makes; a number stays as it is.
    """
    return f"'{cell}" if _FORMULA.match(cell) else cell


def text_at(record: Any, column: str, where: str) -> str:
    """Return the text of a record's column, as one line; a dot leads into a nested record."""
    is_one_key = isinstance(record, Mapping) and column in record  # a name may contain a dot
    keys = [column] if is_one_key else column.split(".")
    value = record
    for key in keys:
        if value is None:
            break
        if not isinstance(value, Mapping) or key not in value:
            raise explain_missing_column(where, column, values_by_column(record))
        value = value[key]
    if value is None:  # an empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {str(value)[:40]!r}, not text")
    # JSON can spell half of a surrogate pair, which UTF-8 cannot encode.
    encodable = value.encode(errors="replace").decode()
    return encodable.rstrip("\r\n").replace("\n", " ")


def values_by_column(record: Any) -> dict[str, Any]:
    """Return the values of a record; a column of a nested record has a dot in its name."""
    values: dict[str, Any] = {}
    if isinstance(record, Mapping):
        for name, value in record.items():
            if isinstance(value, Mapping):
                values |= {f"{name}.{inner}": value[inner] for inner in value}
            else:
                values[name] = value
    return values
