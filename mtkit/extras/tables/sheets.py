"""Read spreadsheets, such as `.xlsx` and `.ods`, as lines of a .csv, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator, Iterable, Sequence
from functools import cache
from pathlib import Path, PurePath
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import NamedTuple

from mtkit.corpus.columns import name_cells
from mtkit.corpus.files import existing_file, tell_once
from mtkit.errors import UserError
from mtkit.extras.tables.layout import SampleRows, are_letters, below_titles, find_names, find_texts
from mtkit.extras.tables.rows import SAMPLE_ROWS
from mtkit.extras.tables.sheet_reader import MAX_SHEETS
from mtkit.report import plural, say

SHEET_SUFFIXES = (".xlsx", ".xlsm", ".xls", ".ods")
READER = Path(__file__).with_name("sheet_reader.py")
SIGNALS = {
    -signal.SIGABRT: "it needs too much memory",
    -signal.SIGKILL: "it needs too much memory",
    -signal.SIGXCPU: "it takes too long",
}
"""What went wrong, by the exit status of a reader that a signal has ended."""


class SheetSample(NamedTuple):
    """The start of a sheet."""

    name: str
    rows: SampleRows
    """The first rows that are not blank."""
    pairs: int
    """How many rows of the sheet have text in several cells."""


def is_sheet(path: str) -> bool:
    """Return whether the name of a file is that of a spreadsheet."""
    return PurePath(path.lower()).suffix in SHEET_SUFFIXES


def read_sheet(path: str, name: str) -> Generator[str]:
    """Yield the lines of a sheet as a .csv with quotes around each cell, and with line ends.

    Raises:
        UserError: the file cannot be read.
    """
    for line in run_reader(path, "rows", name):
        yield line.decode()


def choose_sheet(path: str, sheet: str | None, columns: Iterable[str | int] = ()) -> str:
    """Return the name of the sheet to read; of several, say which it is.

    It is `sheet`; else the first sheet with the named columns; without names, that with the most
    rows of two texts, else the first with a text. Hidden sheets are left out. Without `sheet`, so
    are those after the first MAX_SHEETS of `sheet_reader`.

    Raises:
        UserError: the file cannot be read, or no sheet has such a name, such columns or text.
    """
    status = existing_file(path).stat()
    names = tuple(column for column in columns if isinstance(column, str))
    return _choose_sheet(
        path=path,
        sheet=sheet,
        columns=names,
        modified=status.st_mtime_ns,
        size=status.st_size,
    )


@cache  # a corpus is read several times
def _choose_sheet(
    path: str, sheet: str | None, columns: tuple[str, ...], modified: int, size: int
) -> str:
    """Do what `choose_sheet` does; `modified` and `size` tell versions of a file apart."""
    sample_rows = SAMPLE_ROWS if sheet is None else 0
    sheets: list[SheetSample] = []
    for line in run_reader(path, "sheets", str(sample_rows)):
        name, rows, pairs = json.loads(line)
        filled = [row for row in rows if any(map(str.strip, row))]
        sample = SheetSample(
            name=name,
            rows=filled,
            pairs=pairs,
        )
        sheets.append(sample)
    names = [each.name for each in sheets]
    if sheet in names:
        return str(sheet)
    if sheet is not None:
        known = ", ".join(map(repr, names))
        raise UserError(f"{path}: no visible sheet is named {sheet!r}; choose from {known}")
    if len(names) == 1:
        return names[0]
    chosen = _find_named(sheets, columns)
    if chosen is None and are_letters(columns):
        chosen = _find_texts(sheets)
    if chosen is None:
        raise _explain_missing_sheet(path, sheets, columns)
    tell_once(say, f"{path}: reading sheet '{chosen}' of {plural(len(names), 'sheet')}")
    return chosen


def _find_named(sheets: Sequence[SheetSample], columns: Sequence[str]) -> str | None:
    """Return the first sheet of which a row has these names; None if no column is named."""
    for sheet in sheets:
        if columns and find_names(columns, sheet.rows) is not None:
            return sheet.name
    return None


def _find_texts(sheets: Sequence[SheetSample]) -> str | None:
    """Return the sheet with the most rows of two texts, else the first with text in one column."""
    texts = {sheet.name: len(find_texts(below_titles(sheet.rows))) for sheet in sheets}
    several = [sheet for sheet in sheets if texts[sheet.name] > 1]
    if several:
        return max(several, key=lambda sheet: sheet.pairs).name
    return next((name for name, count in texts.items() if count), None)


def _explain_missing_sheet(
    path: str, sheets: Sequence[SheetSample], columns: Sequence[str]
) -> UserError:
    """Return the error for a workbook without a sheet that can be read; it lists the sheets."""
    if not columns:
        none = f"none of its first {MAX_SHEETS} sheets" if len(sheets) > MAX_SHEETS else "no sheet"
        return UserError(f"{path}: {none} has text")
    filled = [sheet for sheet in sheets if sheet.rows]
    known = [f"'{sheet.name}' ({name_cells(below_titles(sheet.rows)[0])})" for sheet in filled]
    wanted = " and ".join(map(repr, columns))
    return UserError(
        f"{path}: no sheet has a row with {wanted}; the first rows of its sheets: "
        f"{', '.join(known) or 'none'}; choose columns, or a sheet with --sheet"
    )


def run_reader(
    path: str, command: str, *arguments: str, lines: Iterable[str] = ()
) -> Generator[bytes]:
    """Run the program READER on the file, and yield the lines that it prints.

    `lines`: its standard input.

    Raises:
        UserError: the program fails.
    """
    file = str(existing_file(path))
    # -P: without it, the modules beside READER would be found before installed ones.
    program = [sys.executable, "-P", str(READER), file, command, *arguments]
    # The parser is in Rust: a backtrace would hide its message, the last line of stderr.
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    # Nobody would empty a pipe to stderr while stdout is read.
    with TemporaryFile() as stdin, TemporaryFile() as stderr:
        stdin.writelines(line.encode() for line in lines)
        stdin.seek(0)
        with Popen(program, stdin=stdin, stdout=PIPE, stderr=stderr, env=environment) as process:
            assert process.stdout is not None
            try:
                yield from process.stdout
                status = process.wait()
            finally:
                process.kill()  # if not all lines are wanted
        stderr.seek(0)
        errors = stderr.read().decode(errors="replace")
    if status != 0:
        last_line = errors.strip().rpartition("\n")[2]
        reason = SIGNALS.get(status, last_line or f"exit status {status}")
        raise UserError(f"{path} cannot be read as a spreadsheet ({reason}); save it as CSV UTF-8")
