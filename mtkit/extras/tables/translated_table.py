"""Translate one column of a table: each row is written as it is, with its translation at the end.

The bytes of a row are kept: quotes, byte order marks, line ends, and cells with line breaks.
"""

from __future__ import annotations

import codecs
import io
import json
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any, ClassVar, NamedTuple, TypeVar

from mtkit.corpus.columns import disarm_formula, text_at
from mtkit.corpus.files import MAX_LINE_BYTES, open_existing, tell_once, text_blocks, unpack
from mtkit.corpus.importers import place_of
from mtkit.corpus.text import in_one_line
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import Input
from mtkit.errors import UserError
from mtkit.extras.tables.layout import Sample, TextColumns, find_layout
from mtkit.extras.tables.records import parse_record
from mtkit.extras.tables.rows import SAMPLE_ROWS, Row, find_delimiter, has_quotes, read_rows
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
        with closing(self._entries()) as entries:
            for number, entry in islice(enumerate(entries), done, None):
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
        with closing(self._entries()) as entries:
            for entry in entries:
                written = entry.before + entry.after
                line_count = written.count("\n")
                if not written.endswith("\n"):  # the last row may have no line end
                    line_count += 1
                yield line_count

    @abstractmethod
    def _entries(self) -> Generator[Entry]:
        """Read the table again, and yield its rows."""

    @abstractmethod
    def _cell(self, text: str) -> str:
        """Return a text as the file writes it in a cell."""


@dataclass
class CellTable(Table):
    """A `.csv` or `.tsv`."""

    open_rows: Callable[[], Generator[Row]]
    """Yields the rows, with the exact text of each."""
    layout: TextColumns
    """Where the text is that is translated."""
    width: int
    """Largest number of cells in a row; the new cell comes after so many."""
    delimiter: str
    has_quotes: bool
    """Whether quotes may enclose a cell."""
    is_all_quoted: bool
    """Whether the first rows begin and end with a quote, so probably each cell has quotes."""

    def _entries(self) -> Generator[Entry]:
        (column,) = self.layout.columns
        with closing(self.open_rows()) as rows:
            for row in rows:
                if row.width == 0:  # an empty line stays empty
                    yield Entry(row.raw)
                    continue
                content, end = self._content_of(row)
                # A short row gets empty cells, so that the new cell stands in the new column.
                padding = (self.width - row.width) * self.delimiter
                before = content + padding + self.delimiter
                if self.layout.is_above_texts(row):
                    name = self.name if self.layout.is_header(row) else ""
                    yield Entry(before + self._cell(name) + end)
                    continue
                text = ""
                if column < len(row.cells):
                    text = in_one_line(_readable(row.cells[column]))
                yield Entry(before, end, text)

    def _content_of(self, row: Row) -> tuple[str, str]:
        """Return a row as it is written, and its line end."""
        content = row.raw.rstrip("\r\n")
        return content, row.raw[len(content) :]

    def _cell(self, text: str) -> str:
        if not self.has_quotes:
            return text.replace(self.delimiter, " ")
        needs_quotes = any(sign in text for sign in (self.delimiter, '"', "\r", "\n"))
        if needs_quotes or self.is_all_quoted:
            return '"' + text.replace('"', '""') + '"'
        return text


@dataclass
class SheetTable(CellTable):
    """A sheet of a workbook, which is written as a `.csv`."""

    def __post_init__(self) -> None:
        self.mark = codecs.BOM_UTF8  # tells spreadsheet programs the encoding
        self.delimiter = ","
        self.is_all_quoted = True

    def _content_of(self, row: Row) -> tuple[str, str]:
        cells = row.cells or [""] * row.width
        return ",".join(map(self._cell, cells)), "\r\n"

    def _cell(self, text: str) -> str:
        return super()._cell(disarm_formula(text))


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
        text = ""
        if entry.text:
            text = translation.text
        elif self.layout.has_header and number == self.layout.first_row:
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


AnyCellTable = TypeVar("AnyCellTable", bound=CellTable)


@dataclass
class RecordTable(Table):
    """A `.jsonl`."""

    key: str
    """The key whose text is translated."""

    def _entries(self) -> Generator[Entry]:
        with closing(_read_records(self.path, self.key)) as records:
            for line, record, text in records:
                if record is None:
                    yield Entry(line)
                    continue
                # The new key comes before the last brace. Everything else keeps its bytes.
                content = line.rstrip().removesuffix("}")
                yield Entry(
                    before=f"{content}, {json.dumps(self.name)}: ",
                    after=line[len(content) :],
                    text=in_one_line(_readable(text)),
                )

    def _cell(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)


def open_cells(
    kind: type[AnyCellTable],
    path: str,
    column: str | int,
    open_rows: Callable[[], Generator[Row]],
) -> AnyCellTable:
    """Read a .csv, .tsv or spreadsheet to its end; return a table of this kind, to be read again.

    `column`: the column to translate, as a number from 0, a name or a letter.

    Raises:
        UserError: the table has no such column, a row cannot be read, or a line is too long.
    """
    row_count = 0
    width = 0
    with closing(open_rows()) as rows:
        sample = Sample(path, rows)
        for row in chain(sample.rows, rows):
            row_count += 1
            width = max(width, row.width)
            if not row.raw.isascii() and _readable(row.raw) != row.raw:
                tell_once(
                    warn, f"{path}: has text that is not UTF-8, which is translated as U+FFFD"
                )
    layout = find_layout(sample, [column])
    if not width:
        raise UserError(f"{path}: no column {column}; it is empty")
    header: list[str] = []
    for row in sample.rows:
        if layout.is_header(row):
            header = row.cells
    can_quote = has_quotes(path)
    delimiter = "\t"
    if can_quote:
        lines = io.StringIO("".join(row.raw for row in sample.rows), newline="\n")
        delimiter = find_delimiter(list(islice(lines, SAMPLE_ROWS)))
    return kind(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(header),
        open_rows=open_rows,
        layout=layout,
        width=width,
        delimiter=delimiter,
        has_quotes=can_quote,
        is_all_quoted=can_quote and all(map(_is_in_quotes, sample.rows)),
    )


def _is_in_quotes(row: Row) -> bool:
    """Return whether a row begins and ends with a quote; a blank row counts, too."""
    text = row.raw.strip("\r\n")
    return not row.cells or text[:1] == text[-1:] == '"'


def open_records(path: str, column: str) -> RecordTable:
    """Read a .jsonl to its end; return it as a table. Errors are as in `open_cells`."""
    keys: set[str] = set()
    row_count = 0
    for _, record, _ in _read_records(path, column):
        row_count += 1
        keys.update(record or ())
    return RecordTable(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(keys),
        key=column,
    )


def _read_records(path: str, key: str) -> Generator[tuple[str, Any, str]]:
    """Yield the lines of a .jsonl, with their objects and the texts of these."""
    with closing(exact_lines(path)) as lines:
        for number, line in enumerate(lines, 1):
            where = place_of(path, number)
            record = parse_record(line, where)
            yield line, record, text_at(record, key, where)


def _new_name(names: Iterable[str]) -> str:
    """Return a name for the new column that the table does not have."""
    taken = {name.strip() for name in names}
    name = NEW_COLUMN
    number = 1
    while name in taken:
        number += 1
        name = f"{NEW_COLUMN} {number}"
    return name


def read_exactly(path: str) -> Generator[Row]:
    """Yield the rows of a .csv or .tsv, with the exact text of each row."""
    with closing(exact_lines(path)) as lines:
        yield from read_rows(path, lines)


def exact_lines(path: str) -> Generator[str]:
    """Yield the lines of a file with their ends, without the byte order mark.

    Bytes that are not UTF-8 become surrogates, from which `Table.output` restores them.

    Raises:
        UserError: the file cannot be read, or a line is longer than 1 MiB.
    """
    unended = ""
    with open_existing(path) as file:
        blocks = text_blocks(file, path)
        for block in codecs.iterdecode(blocks, "utf-8-sig", errors="surrogateescape"):
            *ended, unended = (unended + block).split("\n")
            if max(map(len, [*ended, unended])) > MAX_LINE_BYTES:
                raise UserError(f"{path}: a line is longer than 1 MiB, which is no table")
            yield from (f"{line}\n" for line in ended)
    if unended:
        yield unended


def _readable(text: str) -> str:
    """Return the text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _byte_order_mark(path: str) -> bytes:
    """Return the byte order mark at the start of a file, if any."""
    with open_existing(path) as file:
        _, reader = unpack(file, path)
        start = reader.read(4)
    for mark in MARKS:
        if start.startswith(mark):
            return mark
    return b""
