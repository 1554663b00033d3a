"""Read spreadsheets, such as `.xlsx` and `.ods`, and write them, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Iterable, Sequence
from functools import lru_cache
from mmap import ACCESS_READ, mmap
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryFile
from typing import NamedTuple

from mtkit.corpus.columns import name_cells
from mtkit.corpus.files import existing_file, tell_once
from mtkit.errors import UserError
from mtkit.extras.tables.layout import Sample, column_letters
from mtkit.extras.tables.rows import Row
from mtkit.report import plural, say

READER = Path(__file__).with_name("sheet_reader.py")
SIGNALS = {
    -signal.SIGABRT: "it needs too much memory",
    -signal.SIGKILL: "it needs too much memory",
    -signal.SIGXCPU: "it takes too long",
}
"""What went wrong, by the exit status of a reader that a signal has ended."""
MAX_KEPT_WORKBOOKS = 8
"""Number of workbooks that are kept after they were read: a corpus is read several times."""

_SHEET = re.compile(rb"((?:\[.*\]\n)*+)(\{.*\})\n")
_ROW = re.compile(rb".+")


class Sheet(NamedTuple):
    """A sheet of a workbook."""

    path: str
    printed: mmap
    """What `sheet_reader.py` has printed of the workbook; `start` and `end` of this sheet."""
    start: int
    end: int
    name: str
    pairs: int
    """How many rows have several texts."""
    texts: int
    """How many rows have a text."""

    def rows(self) -> Generator[Row]:
        """Yield the rows."""
        rows = _ROW.finditer(self.printed, self.start, self.end)
        for number, row in enumerate(rows, 1):
            yield Row(number, json.loads(row[0]))

    def sample(self) -> Sample:
        """Return the first rows."""
        return Sample(self.path, self.rows())


def find_sheet(path: str, name: str | None, columns: Iterable[str | int] = ()) -> Sheet:
    """Return the sheet to read; of several, say which it is.

    It is that with this name; else the first sheet with the named columns; without names, that with
    the most rows of two texts, else that with the most texts. Hidden sheets are left out.

    Raises:
        UserError: the file cannot be read, or no sheet has such a name, such columns or text.
    """
    status = existing_file(path).stat()
    version = (status.st_mtime_ns, status.st_size)
    sheets = _read_sheets(path, name or "", version)
    if name is not None:
        if name not in sheets:
            known = ", ".join(map(repr, sheets))
            raise UserError(f"{path}: no visible sheet is named {name!r}; choose from {known}")
        return sheets[name]
    if len(sheets) == 1:
        return next(iter(sheets.values()))
    names = [column for column in columns if isinstance(column, str)]
    chosen = _choose_sheet(list(sheets.values()), names)
    if chosen is None:
        raise _explain_missing_sheet(path, sheets.values(), names)
    tell_once(say, f"{path}: reading sheet '{chosen.name}' of {plural(len(sheets), 'sheet')}")
    return chosen


@lru_cache(maxsize=MAX_KEPT_WORKBOOKS)
def _read_sheets(path: str, name: str, version: tuple[int, int]) -> dict[str, Sheet]:
    """Return the visible sheets; `version` tells versions of a file apart.

    `name`: the only sheet whose rows are read, if it is not blank.
    """
    printed = run_reader(path, "sheets", name)
    sheets: dict[str, Sheet] = {}
    for match in _SHEET.finditer(printed):
        sheet = Sheet(
            path=path,
            printed=printed,
            start=match.start(1),
            end=match.end(1),
            **json.loads(match[2]),
        )
        sheets[sheet.name] = sheet
    return sheets


def _choose_sheet(sheets: Sequence[Sheet], columns: Sequence[str]) -> Sheet | None:
    """Return the first sheet with these names, else that with the most texts; None without any."""
    for sheet in sheets:
        if sheet.sample().find_names(columns) is not None:
            return sheet
    if not all(column.upper() in column_letters() for column in columns):
        return None
    best = max(sheets, key=attrgetter("pairs", "texts"))
    return best if best.texts else None


def _explain_missing_sheet(path: str, sheets: Iterable[Sheet], columns: Sequence[str]) -> UserError:
    """Return the error for a workbook without a sheet that can be read; it lists the sheets."""
    if not columns:
        return UserError(f"{path}: no visible sheet has text")
    known: list[str] = []
    for sheet in sheets:
        table = sheet.sample().table
        if table:
            known.append(f"'{sheet.name}' ({name_cells(table[0])})")
    wanted = " and ".join(map(repr, columns))
    return UserError(
        f"{path}: no sheet has a row with {wanted}; the first rows of its sheets: "
        f"{', '.join(known) or 'none'}; choose columns, or a sheet with --sheet"
    )


def run_reader(path: str, command: str, *arguments: str, lines: Iterable[str] = ()) -> mmap:
    """Run the program READER on the file, and return what it prints.

    `lines`: its standard input.

    Raises:
        UserError: the program fails.
    """
    file = str(existing_file(path))
    # -P: without it, the modules beside READER would be found before installed ones.
    program = [sys.executable, "-P", str(READER), file, command, *arguments]
    with TemporaryFile() as printed:
        result = subprocess.run(
            program,
            input="".join(lines).encode(),
            stdout=printed,
            stderr=subprocess.PIPE,
            # The parser is in Rust: a backtrace would hide its message, the last line of stderr.
            env={**os.environ, "RUST_BACKTRACE": "0"},
            check=False,
        )
        if result.returncode == 0:
            return mmap(printed.fileno(), 0, access=ACCESS_READ)
    last_line = result.stderr.decode(errors="replace").strip().rpartition("\n")[2]
    status = result.returncode
    reason = SIGNALS.get(status, last_line or f"exit status {status}")
    raise UserError(f"{path} cannot be read as a spreadsheet ({reason}); save it as CSV UTF-8")
