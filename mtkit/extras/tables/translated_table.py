"""Translate one column of a table: each row is written as it is, with its translation at the end.

The bytes of a row are kept: quotes, byte order marks, line ends, and cells with line breaks.
"""

from __future__ import annotations

import codecs
import json
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, islice
from typing import ClassVar, NamedTuple, TypeVar

from mtkit.corpus.columns import disarm_formula, text_at
from mtkit.corpus.files import MAX_LINE_BYTES, existing_file, tell_once, text_blocks, unpack
from mtkit.corpus.importers import place_of
from mtkit.corpus.text import in_one_line, is_blank
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.translate import Input
from mtkit.errors import UserError
from mtkit.extras.tables.layout import TextColumns, find_layout
from mtkit.extras.tables.rows import SAMPLE_ROWS, Row, find_delimiter, has_quotes, read_rows
from mtkit.extras.tables.sheets import is_sheet, run_reader
from mtkit.extras.tables.tables import parse_record
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
    """What is written before the translation; the whole output if there is nothing to translate."""
    after: str = ""
    text: str = ""
    """The text to translate; blank if there is none."""


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

        A header or blank row is a blank line.
        """
        with closing(self._entries()) as entries:
            for number, entry in islice(enumerate(entries), done, None):
                self._waiting.append(entry)
                size = len(entry.before) + len(entry.after)
                yield RowLine(entry.text, id=number, row_characters=size)

    def output(self, number: int, translation: Translation) -> bytes:
        """Return row `number`, from 1, with its translation; call it for each row in order."""
        entry = self._waiting.popleft()
        written = entry.before
        if entry.text:
            written += self._cell(translation.text) + entry.after
        mark = self.mark if number == 1 else b""
        return mark + _encode(written, self.encoding)

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
    """A `.csv` or `.tsv`, or a sheet that is written as a `.csv`."""

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
                content = row.raw.rstrip("\r\n")
                end = row.raw[len(content) :]
                if is_sheet(self.path):  # in which text that looks like a formula was text
                    content = self.delimiter.join(map(self._cell, row.cells)) or content
                # A short row gets empty cells, so that the new cell stands in the new column.
                padding = (self.width - row.width) * self.delimiter
                before = content + padding + self.delimiter
                # `row.cells` is empty if all cells are blank.
                text = row.cells[column] if column < len(row.cells) else ""
                if row.number < self.layout.first_text_row or is_blank(text):
                    is_header = self.layout.has_header and row.number == self.layout.first_row
                    yield Entry(before + self._cell(self.name if is_header else "") + end)
                else:
                    yield Entry(before, end, in_one_line(_readable(text)))

    def _cell(self, text: str) -> str:
        if is_sheet(self.path):
            text = disarm_formula(text)
        if not self.has_quotes:
            return text.replace(self.delimiter, " ")
        needs_quotes = any(sign in text for sign in (self.delimiter, '"', "\r", "\n"))
        if needs_quotes or self.is_all_quoted:
            return '"' + text.replace('"', '""') + '"'
        return text


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
        text = translation.text if self._waiting.popleft().text else ""
        if self.layout.has_header and number == self.layout.first_row:
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
        return b"".join(run_reader(self.path, "add", *arguments, lines=self._cells))


AnyCellTable = TypeVar("AnyCellTable", bound=CellTable)


@dataclass
class RecordTable(Table):
    """A `.jsonl`."""

    key: str
    """The key whose text is translated."""

    def _entries(self) -> Generator[Entry]:
        with closing(exact_lines(self.path)) as lines:
            for number, line in enumerate(lines, 1):
                where = place_of(self.path, number)
                record = parse_record(line, where)
                content = line.rstrip()
                end = line[len(content) :]
                if record is None:
                    yield Entry(line)
                    continue
                text = text_at(record, self.key, where)
                # The new key comes before the last brace. Everything else keeps its bytes.
                before = content.removesuffix("}") + f", {json.dumps(self.name)}: "
                after = "}" + end
                if is_blank(text):
                    yield Entry(before + self._cell("") + after)
                else:
                    yield Entry(before, after, in_one_line(_readable(text)))

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
    sample: list[Row] = []
    with closing(open_rows()) as rows:
        for row in rows:
            row_count += 1
            width = max(width, row.width)
            if len(sample) < SAMPLE_ROWS:
                sample.append(row)
            if not _is_utf8(row.raw):
                tell_once(
                    warn, f"{path}: has text that is not UTF-8, which is translated as U+FFFD"
                )
    layout = find_layout(path, [column], sample)
    if layout.columns[0] >= width:
        known = f"the columns are 0 to {width - 1}" if width else "it is empty"
        raise UserError(f"{path}: no column {column}; {known}")
    header: list[str] = []
    for row in sample:
        if layout.has_header and row.number == layout.first_row:
            header = row.cells
    is_quoted = has_quotes(path)
    return kind(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(header),
        open_rows=open_rows,
        layout=layout,
        width=width,
        delimiter=_delimiter_of(path) if is_quoted else "\t",
        has_quotes=is_quoted,
        is_all_quoted=is_quoted and all(map(_is_in_quotes, sample)),
    )


def _delimiter_of(path: str) -> str:
    """Return the delimiter of a .csv, as `read_rows` finds it; of a spreadsheet, a comma."""
    if is_sheet(path):
        return ","
    with closing(exact_lines(path)) as lines:
        return find_delimiter(list(islice(lines, SAMPLE_ROWS)))


def _is_in_quotes(row: Row) -> bool:
    """Return whether a row begins and ends with a quote; a blank row counts, too."""
    if not row.cells:
        return True
    text = row.raw.strip("\r\n")
    return text[0] == text[-1] == '"'


def open_records(path: str, column: str) -> RecordTable:
    """Read a .jsonl to its end; return it as a table. Errors are as in `open_cells`."""
    keys: set[str] = set()
    row_count = 0
    with closing(exact_lines(path)) as lines:
        for line in lines:
            row_count += 1
            where = place_of(path, row_count)
            record = parse_record(line, where)
            text_at(record, column, where)  # fails if the record has no such text
            keys.update(record or ())
    return RecordTable(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(keys),
        key=column,
    )


def _new_name(names: Iterable[str]) -> str:
    """Return a name for the new column that the table does not have."""
    taken = {name.strip() for name in names}
    numbered = (f"{NEW_COLUMN} {number}" for number in count(2))
    name = NEW_COLUMN
    while name in taken:
        name = next(numbered)
    return name


def read_exactly(path: str) -> Generator[Row]:
    """Yield the rows of a .csv or .tsv, with the exact text of each row."""
    with closing(exact_lines(path)) as lines:
        yield from read_rows(path, lines)


def exact_lines(path: str) -> Generator[str]:
    """Yield the lines of a file with their ends, without the byte order mark.

    Bytes that are not UTF-8 become surrogates, from which `_encode` restores them.

    Raises:
        UserError: the file cannot be read, or a line is longer than 1 MiB.
    """
    unended = b""
    number = 1
    with existing_file(path).open("rb") as file:
        for block in text_blocks(file, path):
            *ended, unended = (unended + block).split(b"\n")
            for line in [*ended, unended]:
                if len(line) > MAX_LINE_BYTES:
                    raise UserError(f"{path}: a line is longer than 1 MiB, which is no table")
            for line in ended:
                yield _decode(line + b"\n", number)
                number += 1
    if unended:
        yield _decode(unended, number)


def _decode(line: bytes, number: int) -> str:
    content = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
    return content.decode(errors="surrogateescape")


def _encode(text: str, encoding: str) -> bytes:
    if encoding == "utf-8":
        # The surrogates of `_decode` become the bytes that they stand for.
        return text.encode(errors="surrogateescape")
    # Text in another encoding was converted while reading, so it has no such surrogates.
    return text.encode(encoding, errors="replace")


def _is_utf8(text: str) -> bool:
    return text.isascii() or _readable(text) == text


def _readable(text: str) -> str:
    """Return the text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _byte_order_mark(path: str) -> bytes:
    """Return the byte order mark at the start of the output: that of the file, if any."""
    if is_sheet(path):  # the output is a new .csv; its mark tells spreadsheet programs "UTF-8"
        return codecs.BOM_UTF8
    with existing_file(path).open("rb") as file:
        _, reader = unpack(file, path)
        start = reader.read(4)
    for mark in MARKS:
        if start.startswith(mark):
            return mark
    return b""
