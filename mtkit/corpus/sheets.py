"""Read spreadsheets, such as `.xlsx` and `.ods`, as lines of a .csv, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Generator
from contextlib import closing
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from subprocess import DEVNULL, PIPE, Popen
from tempfile import TemporaryFile

from mtkit.corpus.columns import find_texts
from mtkit.corpus.files import existing_file, tell_once
from mtkit.corpus.rows import SAMPLE_ROWS, read_rows
from mtkit.errors import UserError
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


def read_sheet(path: str) -> Generator[str]:
    """Yield the lines of a sheet as a .csv with quotes around each cell, and with line ends.

    Of several sheets, read the first that has text in two columns, else the first that has text in
    one, and say so. Hidden sheets are left out.

    Raises:
        UserError: the file cannot be read, or no sheet has text.
    """
    status = existing_file(path).stat()
    yield from _run_reader(path, _choose_sheet(path, status.st_mtime_ns, status.st_size))


@cache  # a corpus is read several times
def _choose_sheet(path: str, modified: int, size: int) -> str:
    """Return the name of the sheet to read; `modified` and `size` tell versions of a file apart."""
    names: list[str] = json.loads("".join(_run_reader(path)))
    if len(names) == 1:
        return names[0]
    texts = {name: _count_texts(path, name) for name in names}
    for needed in (2, 1):
        for name, columns in texts.items():
            if columns >= needed:
                tell_once(say, f"{path}: reading sheet '{name}' of {plural(len(names), 'sheet')}")
                return name
    raise UserError(f"{path}: no sheet has text")


def _count_texts(path: str, name: str) -> int:
    """Return how many columns of a sheet hold text."""
    with closing(_run_reader(path, name)) as lines:
        sample = [row.cells for row in islice(read_rows(path, lines), SAMPLE_ROWS) if row.cells]
    return len(find_texts(sample))


def _run_reader(path: str, *arguments: str) -> Generator[str]:
    """Run the program READER on the file, and yield the lines that it prints.

    Raises:
        UserError: the program fails.
    """
    file = str(existing_file(path))
    # -P: without it, the modules beside READER would be found before installed ones.
    command = [sys.executable, "-P", str(READER), file, *arguments]
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
