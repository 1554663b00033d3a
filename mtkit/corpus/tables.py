"""Lines of tables, and records of datasets, as pairs of texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import PurePath
from typing import Any

from mtkit.errors import UserError

COLUMNS_NAMED = 20
"""Number of columns that an error names."""

Columns = tuple[str | int, str | int]
Lines = Iterator[tuple[int, str]]


def pair_reader(path: str, columns: Columns, lines: Lines) -> Callable[[str, str], tuple[str, str]]:
    """What makes a pair of a line, given where that is; takes the line that names columns."""
    match PurePath(path.removesuffix(".gz")).suffix, columns:
        case ".tsv", (int(source), int(target)) if min(source, target) >= 0:
            return partial(_pair_in_tsv, (source, target))
        case ".tsv", (str(), str()):
            names = [name.strip() for _, line in islice(lines, 1) for name in line.split("\t")]
            if unknown := [column for column in columns if column not in names]:
                raise _no_column(f"{path}:1", unknown[0], names)
            return partial(_pair_in_tsv, (names.index(columns[0]), names.index(columns[1])))
        case ".jsonl", (str(source), str(target)):
            return partial(_pair_in_jsonl, (source, target))
        case ".tsv", _:
            raise UserError(
                f"{path}: columns of a .tsv are numbers counted from 0, or names that its first "
                f"line has, not {columns}"
            )
        case ".jsonl", _:
            raise UserError(f"{path}: columns of a .jsonl are keys, not {columns}")
        case other, _:
            raise UserError(f"{path}: a table is .tsv or .jsonl, plain or .gz, not {other!r}")


def _pair_in_tsv(columns: tuple[int, int], line: str, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    try:
        return cells[columns[0]], cells[columns[1]]
    except IndexError:
        wanted = f"columns {columns[0]} and {columns[1]} (counted from 0)"
        names = "--columns, or source_column and target_column"
        raise UserError(
            f"{where}: {wanted} are wanted, the line has {len(cells)}: mend the line, or, if all "
            f"are like it, name others by {names}"
        ) from None


def _pair_in_jsonl(columns: tuple[str, str], line: str, where: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}): a line must be an object") from None
    return text_at(record, columns[0], where), text_at(record, columns[1], where)


def _no_column(where: str, column: str | int, there: Iterable[str]) -> UserError:
    known = ", ".join(islice(there, COLUMNS_NAMED)) or "none"
    return UserError(f"{where}: no column {column!r}; there are: {known}")


def text_at(record: Any, column: str, where: str) -> str:
    """The text of a record at a column, as one line; a dot leads into a record in it."""
    value = record
    is_one_key = isinstance(record, Mapping) and column in record
    for key in [column] if is_one_key else column.split("."):
        if value is None:
            break
        if not isinstance(value, Mapping) or key not in value:
            raise _no_column(where, column, _columns(record))
        value = value[key]
    if value is None:  # nothing is there, as in an empty cell
        return ""
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {str(value)[:40]!r}, not text")
    # JSON can spell half of a surrogate pair, which no UTF-8 file can hold.
    return value.encode(errors="replace").decode().rstrip("\r\n").replace("\n", " ")


def _columns(record: Any) -> Iterator[str]:
    """Names of all columns, those inside records with dots."""
    ahead = [("", record)]
    while ahead:
        name, value = ahead.pop()
        if isinstance(value, Mapping):
            inside = [(f"{name}.{key}" if name else str(key), value[key]) for key in value]
            ahead += reversed(inside)
        elif name:
            yield name
