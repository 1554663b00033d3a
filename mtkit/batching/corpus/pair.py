"""A sentence pair, and how its text is taken out of a record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import PurePath
from typing import Any, NamedTuple

from mtkit.errors import UserError

COLUMNS_NAMED = 20
"""Number of columns that an error names."""


class Pair(NamedTuple):
    """A sentence and its translation, and where they come from."""

    source: str
    target: str
    corpus: int
    """Place of its corpus in the list of corpora."""
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


def text_at(record: Any, column: str, where: str) -> str:
    """The text of a record at a column, inside records with dots, as one line."""
    value = record
    for key in column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            known = ", ".join(islice(_columns(record), COLUMNS_NAMED)) or "none"
            raise UserError(f"{where}: no column {column!r}; there are: {known}")
        value = value[key]
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {type(value).__name__}, not text")
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
