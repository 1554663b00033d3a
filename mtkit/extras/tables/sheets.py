"""Read spreadsheets, such as `.xlsx` and `.ods`, as lines of a .csv, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path, PurePath
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile

from mtkit.corpus.columns import SampleRows, find_texts, name_cells
from mtkit.corpus.files import existing_file, tell_once
from mtkit.errors import UserError
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


def is_sheet(path: str) -> bool:
    """Return whether the name of a file is that of a spreadsheet."""
    return PurePath(path.lower()).suffix in SHEET_SUFFIXES


def read_sheet(path: str, columns: Iterable[str | int] = ()) -> Generator[str]:
    """Yield the lines of a sheet as a .csv with quotes around each cell, and with line ends.

    Of several sheets, read the first whose first row has the given names; without names, the first
    that has text in two columns, else the first that has text in one. Say which it is. Hidden
    sheets are left out, and so are those after the first MAX_SHEETS of `sheet_reader`.

    Raises:
        UserError: the file cannot be read, or no sheet has such columns or text.
    """
    status = existing_file(path).stat()
    names = tuple(column for column in columns if isinstance(column, str))
    sheet = _choose_sheet(path, names, status.st_mtime_ns, status.st_size)
    yield from _run_reader(path, sheet)


@cache  # a corpus is read several times
def _choose_sheet(path: str, columns: tuple[str, ...], modified: int, size: int) -> str:
    """Return the name of the sheet to read; `modified` and `size` tell versions of a file apart."""
    samples: dict[str, list[list[str]]] = {}
    for line in _run_reader(path):
        name, rows = json.loads(line)
        samples[name] = [row for row in rows if any(map(str.strip, row))]
    if len(samples) == 1:
        return next(iter(samples))
    chosen = _find_named(samples, columns) if columns else _find_texts(samples)
    if chosen is None:
        raise _explain_missing_sheet(path, samples, columns)
    tell_once(say, f"{path}: reading sheet '{chosen}' of {plural(len(samples), 'sheet')}")
    return chosen


def _find_named(samples: Mapping[str, SampleRows], columns: Sequence[str]) -> str | None:
    """Return the first sheet whose first row has these names."""
    for name, rows in samples.items():
        if rows and {*columns} <= {cell.strip() for cell in rows[0]}:
            return name
    return None


def _find_texts(samples: Mapping[str, SampleRows]) -> str | None:
    """Return the first sheet with text in two columns, else the first with text in one."""
    texts = {name: len(find_texts(rows)) for name, rows in samples.items()}
    for needed in (2, 1):
        for name, count in texts.items():
            if count >= needed:
                return name
    return None


def _explain_missing_sheet(
    path: str, samples: Mapping[str, SampleRows], columns: Sequence[str]
) -> UserError:
    """Return the error for a workbook without a sheet that can be read; it lists the sheets."""
    if not columns:
        none = f"none of its first {MAX_SHEETS} sheets" if len(samples) > MAX_SHEETS else "no sheet"
        return UserError(f"{path}: {none} has text")
    sheets = (f"'{name}' ({name_cells(rows[0])})" for name, rows in samples.items() if rows)
    wanted = " and ".join(map(repr, columns))
    return UserError(
        f"{path}: no sheet has {wanted} in its first row; the first rows of its sheets: "
        f"{', '.join(sheets) or 'none'}"
    )


def _run_reader(path: str, *arguments: str) -> Generator[str]:
    """Run the program READER on the file, and yield the lines that it prints.

    Raises:
        UserError: the program fails.
    """
    file = str(existing_file(path))
    # -P: without it, the modules beside READER would be found before installed ones.
    command = [sys.executable, "-P", str(READER), file, str(SAMPLE_ROWS), *arguments]
    # The parser is in Rust: a backtrace would hide its message, the last line of stderr.
    environment = {**os.environ, "RUST_BACKTRACE": "0"}
    with TemporaryFile() as stderr:  # nobody would empty a pipe while stdout is read
        with Popen(command, stdin=DEVNULL, stdout=PIPE, stderr=stderr, env=environment) as process:
            assert process.stdout is not None
            try:
                for line in process.stdout:
                    yield line.decode()
                status = process.wait()
            finally:
                process.kill()  # if not all lines are wanted
        stderr.seek(0)
        errors = stderr.read().decode(errors="replace")
    if status != 0:
        last_line = errors.strip().rpartition("\n")[2]
        reason = SIGNALS.get(status, last_line or f"exit status {status}")
        raise UserError(f"{path} cannot be read as a spreadsheet ({reason}); save it as CSV UTF-8")
