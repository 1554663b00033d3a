"""Parse lines of tables and records of datasets."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Any

from mtkit.errors import UserError

MAX_NAMED_COLUMNS = 20
"""Columns that an error lists."""

Columns = tuple[str | int, str | int]
NumberedLines = Iterator[tuple[int, str]]


def pair_parser(
    path: str, columns: Columns, lines: NumberedLines
) -> Callable[[str, str], tuple[str, str]]:
    """Return a function from a line and its place to source and target; consume a header line."""
    match PurePath(path.removesuffix(".gz")).suffix, columns:
        case ".tsv", (int(source), int(target)) if min(source, target) >= 0:
            return partial(_parse_tsv, (source, target))
        case ".tsv", (str(), str()):
            names = [name.strip() for _, line in islice(lines, 1) for name in line.split("\t")]
            if unknown := [column for column in columns if column not in names]:
                raise _no_column(f"{path}:1", unknown[0], names)
            return partial(_parse_tsv, (names.index(columns[0]), names.index(columns[1])))
        case ".jsonl", (str(source), str(target)):
            return partial(_parse_jsonl, (source, target))
        case ".tsv", _:
            raise UserError(
                f"{path}: the columns of a .tsv are numbers from 0 or the names in its first line, "
                f"not {columns}"
            )
        case ".jsonl", _:
            raise UserError(
                f"{path}: the columns of a .jsonl are keys of its records, not {columns}"
            )
        case other, _:
            raise UserError(
                f"{path}: the name of a table ends in .tsv or .jsonl (or .gz after it), "
                f"not {other!r}"
            )


def _parse_tsv(columns: tuple[int, int], line: str, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    try:
        return cells[columns[0]], cells[columns[1]]
    except IndexError:
        raise UserError(
            f"{where}: columns {columns[0]} and {columns[1]} (numbered from 0) are read, but the "
            f"line has only {len(cells)}; correct it, or choose columns with --columns or "
            "source_column and target_column"
        ) from None


def _parse_jsonl(columns: tuple[str, str], line: str, where: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}); each line must be a JSON object") from None
    return text_at(record, columns[0], where), text_at(record, columns[1], where)


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
    """Yield the names of all columns, with dots for those of nested records."""
    pending = [("", record)]
    while pending:
        name, value = pending.pop()
        if isinstance(value, Mapping):
            nested = [(f"{name}.{key}" if name else str(key), value[key]) for key in value]
            pending += reversed(nested)
        elif name:
            yield name
