"""Translate one column of a table: each row is written as it is, with its translation at the end.

The bytes of a row are kept: quotes, byte order marks, line ends, and cells with line breaks.
"""

from __future__ import annotations

import codecs
import io
import json
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import ClassVar, NamedTuple

from mtkit.corpus.columns import disarm_formula
from mtkit.corpus.files import MAX_LINE_BYTES, open_existing, tell_once, text_blocks, unpack
from mtkit.corpus.text import in_one_line
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import Input
from mtkit.errors import UserError
from mtkit.extras.tables.layout import Sample, TextColumns, find_layout
from mtkit.extras.tables.rows import Row, find_delimiter, has_quotes
from mtkit.extras.tables.sheets import run_reader
from mtkit.report import warn

NEW_COLUMN = "translation"
"""Name of the new column; a number is added if the table has such a column."""
MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # before UTF-16, whose mark begins with the same bytes
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
"""Encodings, by the byte order mark at the start of a file."""


class Entry(NamedTuple):
    """A row on its way through the model."""

    before: str
    """What is written before the translation."""
    after: str = ""
    text: str | None = None
    """The text to translate; None if the row gets no translation."""


@dataclass(frozen=True)
class RowLine(Line):
    """The text of a row, which waits until its text is translated."""

    row_characters: int = 0

    @property
    def characters(self) -> int:
        """Number of characters that are in memory until the line is translated."""
        return self.row_characters + len(self.text)


@dataclass
class Table(Input):
    """A table of which one column is translated."""

    unit: ClassVar[str] = "row"

    path: str
    mark: bytes
    """The byte order mark at the start of the output: that of the file, if any."""
    rows: int
    name: str
    """Name of the new column."""
    _waiting: deque[Entry] = field(default_factory=deque, init=False)
    """Rows that are being translated, in order; another thread appends them."""

    @property
    def encoding(self) -> str:
        """The encoding of the file, which the output has, too."""
        return MARKS.get(self.mark, "utf-8")

    @property
    def is_resumable(self) -> bool:
        return self.encoding == "utf-8"

    def count(self) -> int:
        """Return the number of rows."""
        return self.rows

    def lines(self, done: int) -> Iterator[Line]:
        """Yield the texts of all rows after the first `done`, and keep the rows for `output`.

        A row without a translation is a blank line.
        """
        for number, entry in islice(enumerate(self._entries()), done, None):
            self._waiting.append(entry)
            yield RowLine(
                text=entry.text or "",
                id=number,
                row_characters=len(entry.before) + len(entry.after),
            )

    def output(self, number: int, translation: Translation) -> bytes:
        """Return row `number`, from 1, with its translation; call it for each row in order."""
        entry = self._waiting.popleft()
        written = entry.before
        if entry.text is not None:
            written += self._cell(translation.text) + entry.after
        encoded = written.encode(self.encoding, errors="surrogateescape")
        if number == 1:
            return self.mark + encoded
        return encoded

    def line_counts(self) -> Iterator[int]:
        """Yield the number of output lines of each row, so that complete rows can be counted."""
        for entry in self._entries():
            written = entry.before + entry.after
            is_unended = not written.endswith("\n")  # the last row may have no line end
            yield written.count("\n") + is_unended

    @abstractmethod
    def _entries(self) -> Iterator[Entry]:
        """Read the table again, and yield its rows."""

    @abstractmethod
    def _cell(self, text: str) -> str:
        """Return a text as the file writes it in a cell."""


@dataclass
class CellTable(Table):
    """A `.csv` or `.tsv`."""

    open_rows: Callable[[], Iterable[Row]]
    """Yields the rows, with the exact text of each."""
    layout: TextColumns
    """Where the text is that is translated."""
    width: int
    """Largest number of cells in a row; the new cell comes after so many."""
    delimiter: str
    has_quotes: bool
    """Whether quotes may enclose a cell."""
    is_all_quoted: bool
    """Whether the first rows begin with a quote, so probably each cell has quotes."""

    def _entries(self) -> Iterator[Entry]:
        (column,) = self.layout.columns
        for row in self.open_rows():
            if not row.cells:
                yield Entry(row.raw)
                continue
            raw = self._raw_of(row)
            content = raw.rstrip("\r\n")
            end = raw.removeprefix(content)
            is_quoted = content.lstrip().startswith('"')
            if self.width == 1 and self.delimiter in content and not is_quoted:
                content = _in_quotes(content)
            # A short row gets empty cells, so that the new cell stands in the new column.
            missing = self.width - len(row.cells)
            before = content + missing * self.delimiter + self.delimiter
            if row.number < self.layout.first_text:
                name = self.name if row.number == self.layout.header else ""
                yield Entry(before + self._cell(name) + end)
            else:
                text = row.cells[column] if column < len(row.cells) else ""
                yield Entry(before, end, in_one_line(readable(text)))

    def _raw_of(self, row: Row) -> str:
        """Return a row as it is written, with its line end."""
        return row.raw

    def _cell(self, text: str) -> str:
        if not self.has_quotes:
            return text.replace(self.delimiter, " ")
        needs_quotes = any(sign in text for sign in (self.delimiter, '"', "\r", "\n"))
        if needs_quotes or self.is_all_quoted:
            return _in_quotes(text)
        return text


def _in_quotes(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@dataclass
class SheetTable(CellTable):
    """A sheet of a workbook, which is written as a `.csv`."""

    def __post_init__(self) -> None:
        self.mark = codecs.BOM_UTF8  # tells spreadsheet programs the encoding

    def _raw_of(self, row: Row) -> str:
        return self.delimiter.join(map(self._cell, row.cells)) + "\r\n"

    def _cell(self, text: str) -> str:
        return _in_quotes(disarm_formula(text))


@dataclass
class WorkbookTable(CellTable):
    """A sheet that is translated in a copy of its workbook, which openpyxl writes."""

    sheet: str = ""
    _cells: list[str] = field(default_factory=list, init=False)
    """The rows and texts of the new column, as lines of JSON."""

    @property
    def is_resumable(self) -> bool:
        return False

    def output(self, number: int, translation: Translation) -> bytes:
        """Return the workbook at the last row, and nothing before."""
        entry = self._waiting.popleft()
        text = translation.text if entry.text else ""
        if number == self.layout.header:
            text = self.name
        if text:
            self._cells.append(json.dumps([number, text]) + "\n")
        return self.write() if number == self.rows else b""

    def write(self) -> bytes:
        """Return the copy of the workbook with the translations up to now.

        Raises:
            UserError: the workbook cannot be copied.
        """
        (column,) = self.layout.columns
        arguments = (self.sheet, str(column + 1), str(self.width))
        return run_reader(self.path, "add", *arguments, lines=self._cells)[:]


def open_cells(
    kind: type[CellTable],
    path: str,
    column: str | int,
    open_rows: Callable[[], Iterator[Row]],
) -> CellTable:
    """Read a .csv, .tsv or spreadsheet to its end; return a table of this kind, to be read again.

    `column`: the column to translate, as a number from 0, a name or a letter.

    Raises:
        UserError: the table has no such column, a row cannot be read, or a line is too long.
    """
    row_count = 0
    width = 0
    rows = open_rows()
    sample = Sample(path, rows)
    for row in chain(sample.rows, rows):
        row_count += 1
        width = max(width, len(row.cells))
        if readable(row.raw) != row.raw:
            tell_once(warn, f"{path}: has text that is not UTF-8, which is translated as U+FFFD")
    layout = find_layout(sample, [column])
    if not width:
        raise UserError(f"{path}: no column {column}; it is empty")
    header = next((row.cells for row in sample.rows if row.number == layout.header), [])
    lines = io.StringIO("".join(row.raw for row in sample.rows), newline="\n")
    delimiter = find_delimiter(path, lines)
    if width == 1 and has_quotes(path):  # a comma may be part of the text
        delimiter = ","
    return kind(
        path=path,
        mark=byte_order_mark(path),
        rows=row_count,
        name=name_new_column(header),
        open_rows=open_rows,
        layout=layout,
        width=width,
        delimiter=delimiter,
        has_quotes=has_quotes(path),
        is_all_quoted=all(row.raw.startswith('"') for row in sample.filled),
    )


def name_new_column(names: Iterable[str]) -> str:
    """Return a name for the new column that the table does not have."""
    taken = {name.strip() for name in names}
    name = NEW_COLUMN
    number = 1
    while name in taken:
        number += 1
        name = f"{NEW_COLUMN} {number}"
    return name


def exact_lines(path: str) -> Iterator[str]:
    """Yield the lines of a file with their ends, without the byte order mark.

    Bytes that are not UTF-8 become surrogates, from which `Table.output` restores them.

    Raises:
        UserError: the file cannot be read, or a line is longer than 1 MiB.
    """
    rest = ""
    with open_existing(path) as file:
        blocks = text_blocks(file, path)
        for block in codecs.iterdecode(blocks, "utf-8-sig", errors="surrogateescape"):
            *lines, rest = (rest + block).split("\n")
            if max(map(len, [*lines, rest])) > MAX_LINE_BYTES:
                raise UserError(f"{path}: a line is longer than 1 MiB, which is no table")
            yield from (f"{line}\n" for line in lines)
    if rest:
        yield rest


def readable(text: str) -> str:
    """Return the text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def byte_order_mark(path: str) -> bytes:
    """Return the byte order mark at the start of a file, if any."""
    with open_existing(path) as file:
        _, reader = unpack(file, path)
        start = reader.read(4)
    return next((mark for mark in MARKS if start.startswith(mark)), b"")
