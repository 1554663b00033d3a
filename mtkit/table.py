"""Rows of text as aligned columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def table(rows: Iterable[list[str]]) -> Iterator[str]:
    """A line for each row: the first column to the left, the others to the right."""
    rows = list(rows)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for name, *values in rows:
        yield "  ".join([name.ljust(widths[0]), *map(str.rjust, values, widths[1:])]).rstrip()
