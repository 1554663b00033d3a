"""Translate one column of a table: each row is written as it is, with its translation at the end.

The bytes of a row are kept: quotes, byte order marks, line ends, and cells with line breaks.
"""

from __future__ import annotations

import codecs
import gzip
import json
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import ClassVar, NamedTuple

from mtkit.corpus.files import (
    GZIP_MAGIC,
    MAX_LINE_BYTES,
    existing_file,
    is_utf16,
    tell_once,
    text_blocks,
)
from mtkit.corpus.rows import SAMPLE_ROWS, Row, find_delimiter, has_quotes, read_rows, suffix_of
from mtkit.corpus.sheets import is_sheet, read_sheet
from mtkit.corpus.tables import (
    describe_columns,
    find_layout,
    is_table,
    parse_record,
    place_of,
    refuse_misnamed_table,
    sample_cells,
    text_at,
)
from mtkit.corpus.text import in_one_line, is_blank
from mtkit.decoding.text.line import Line, Translation
from mtkit.errors import UserError
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


@dataclass
class Table(ABC):
    """A table of which one column is translated."""

    unit: ClassVar[str] = "row"
    """What messages count."""
    is_typed: ClassVar[bool] = False
    """Whether a user types the text."""

    path: str
    mark: bytes
    """The byte order mark of the file; empty if there is none."""
    rows: int
    name: str
    """Name of the new column."""
    _waiting: deque[Entry] = field(default_factory=deque, init=False)
    """Rows that are being translated, in order; another thread appends them."""

    @property
    def encoding(self) -> str:
        """The encoding of the file, which the output has, too."""
        return MARKS.get(self.mark, "utf-8")

    def count(self) -> int:
        """Return the number of rows."""
        return self.rows

    def lines(self, done: int) -> Iterator[Line]:
        """Yield the texts of all rows after the first `done`; header and blank rows are blank."""
        with closing(self._entries()) as entries:
            for number, entry in islice(enumerate(entries), done, None):
                self._waiting.append(entry)
                yield Line(entry.text, id=number)

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
                is_unended = not written.endswith("\n")  # the last row may be
                yield written.count("\n") + is_unended

    @abstractmethod
    def _entries(self) -> Generator[Entry]:
        """Read the table again, and yield its rows."""

    @abstractmethod
    def _cell(self, text: str) -> str:
        """Return a text as the file writes it in a cell."""


@dataclass
class CellTable(Table):
    """A `.csv` or `.tsv`."""

    column: int
    """Number of the column that is translated, from 0."""
    has_header: bool
    width: int
    """Largest number of cells in a row; the new cell comes after so many."""
    delimiter: str
    has_quotes: bool
    """Whether quotes may enclose a cell."""
    is_all_quoted: bool
    """Whether the first rows have quotes around every cell."""

    def _entries(self) -> Generator[Entry]:
        is_header = self.has_header
        with closing(_read_exactly(self.path)) as rows:
            for row in rows:
                content = row.raw.rstrip("\r\n")
                end = row.raw[len(content) :]
                if row.width == 0:  # an empty line stays empty
                    yield Entry(row.raw)
                    continue
                # `row.width` counts all cells; `row.cells` is empty if all of them are blank.
                is_blank_row = not row.cells
                padding = (self.width - row.width) * self.delimiter  # up to the widest row
                before = content + padding + self.delimiter
                text = row.cells[self.column] if self.column < len(row.cells) else ""
                if is_header and not is_blank_row:
                    is_header = False
                    yield Entry(before + self._cell(self.name) + end)
                elif is_blank(text):
                    yield Entry(before + self._cell("") + end)
                else:
                    yield Entry(before, end, in_one_line(_readable(text)))

    def _cell(self, text: str) -> str:
        if not self.has_quotes:
            return text.replace(self.delimiter, " ")
        needs_quotes = any(sign in text for sign in (self.delimiter, '"', "\r", "\n"))
        if needs_quotes or self.is_all_quoted:
            return '"' + text.replace('"', '""') + '"'
        return text


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
                before = f"{content.removesuffix('}')}, {json.dumps(self.name)}: "
                if is_blank(text):
                    yield Entry(f'{before}""}}{end}')
                else:
                    yield Entry(before, "}" + end, in_one_line(_readable(text)))

    def _cell(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=False)


def refuse_table(path: str) -> None:
    """Raise UserError if a file is a table, of which a column must be chosen."""
    if is_table(path):
        as_text = "" if is_sheet(path) else f" (to translate its lines as text: < {path})"
        raise UserError(
            f"{path} is a table; choose the column to translate with --columns: "
            f"{describe_columns(path)}{as_text}"
        )
    if is_utf16(path):  # as of Excel; a text with tabs in UTF-8 may be a text
        refuse_misnamed_table(path)


def check_output_name(path: str, output: Path) -> None:
    """Raise UserError if the output has the name of another kind of table than the input."""
    suffix, output_suffix = suffix_of(path), output.suffix.lower()
    if is_sheet(path):
        suffix = ".csv"
    if is_table(output.name) and output_suffix != suffix:
        raise UserError(f"{output}: the output is a {suffix}; choose such a name")


def open_table(path: str, column: str | int) -> Table:
    """Read a whole table once, and return it; `column`: number from 0 or name of the column.

    Raises:
        UserError: the table has no such column, a row cannot be read, or a line is too long.
    """
    if suffix_of(path) == ".jsonl":
        return _open_records(path, column)
    width, row_count = 0, 0
    sample: list[Row] = []
    with closing(_read_exactly(path)) as rows:
        for row in rows:
            row_count += 1
            width = max(width, row.width)
            if len(sample) < SAMPLE_ROWS:
                sample.append(row)
            if not _is_utf8(row.raw):
                tell_once(
                    warn, f"{path}: has text that is not UTF-8, which is translated as U+FFFD"
                )
    cells = sample_cells(sample)
    layout = find_layout(path, [column], cells)
    if layout.columns[0] >= width:
        raise UserError(f"{path}: no column {column}; the columns are 0 to {width - 1}")
    header = cells[0] if layout.has_header else []
    with closing(exact_lines(path)) as lines:
        first_lines = list(islice(lines, SAMPLE_ROWS))
    is_quoted = has_quotes(path)
    filled_rows = [row.raw.strip("\r\n") for row in sample if row.cells]
    return CellTable(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(header),
        column=layout.columns[0],
        has_header=layout.has_header,
        width=width,
        delimiter=find_delimiter(first_lines) if is_quoted else "\t",
        has_quotes=is_quoted,
        is_all_quoted=is_quoted and all(raw[0] == raw[-1] == '"' for raw in filled_rows),
    )


def _open_records(path: str, column: str | int) -> RecordTable:
    keys: set[str] = set()
    row_count = 0
    with closing(exact_lines(path)) as lines:
        for line in lines:
            row_count += 1
            where = place_of(path, row_count)
            record = parse_record(line, where)
            text_at(record, str(column), where)  # fails if the record has no such text
            keys.update(record or ())
    return RecordTable(
        path=path,
        mark=_byte_order_mark(path),
        rows=row_count,
        name=_new_name(keys),
        key=str(column),
    )


def _new_name(names: Iterable[str]) -> str:
    """Return a name for the new column that the table does not have."""
    taken = {name.strip() for name in names}
    numbered = (f"{NEW_COLUMN} {number}" for number in count(2))
    name = NEW_COLUMN
    while name in taken:
        name = next(numbered)
    return name


def _read_exactly(path: str) -> Generator[Row]:
    with closing(exact_lines(path)) as lines:
        yield from read_rows(path, lines)


def exact_lines(path: str) -> Generator[str]:
    """Yield the lines of a file with their ends, without the byte order mark.

    A spreadsheet is read as a .csv. Bytes that are not UTF-8 become surrogates, from which
    `_encode` restores them.

    Raises:
        UserError: the file cannot be read, or a line is longer than 1 MiB.
    """
    if is_sheet(path):
        yield from read_sheet(path)
        return
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
    # Only UTF-8 has surrogates: text in other encodings was converted to UTF-8 while reading.
    return text.encode(encoding, errors="surrogateescape" if encoding == "utf-8" else "replace")


def _is_utf8(text: str) -> bool:
    return text.isascii() or _readable(text) == text


def _readable(text: str) -> str:
    """Return the text with U+FFFD in place of bytes that are not UTF-8."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


def _byte_order_mark(path: str) -> bytes:
    if is_sheet(path):  # with the mark, spreadsheet programs recognise UTF-8
        return codecs.BOM_UTF8
    with existing_file(path).open("rb") as file:
        is_gzip = file.peek().startswith(GZIP_MAGIC)
        start = (gzip.GzipFile(fileobj=file) if is_gzip else file).read(4)
    return next((mark for mark in MARKS if start.startswith(mark)), b"")
