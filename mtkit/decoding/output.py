"""Where translations go: standard output, or a file that appears when it is complete.

What is written before that lies in a hidden file beside it. With a record of what it is to hold, as
JSON next to that, a later command goes on with what an interrupted one leaves. A process may be
killed at any moment: the last line may then be half a line.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from os.path import samestat
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.artifacts.storage import path_in_oserror, read_json, sync, temporary_path, write_json
from mtkit.errors import UserError
from mtkit.report import say


@contextmanager
def open_output(
    path: Path | None,
    asked: Mapping[str, Any] | None = None,
    *,
    rows: int = 1,
    resume: bool = False,
) -> Iterator[tuple[BinaryIO, int]]:
    """The file, or standard output, and how many lines of input it has already.

    `asked` is all that it depends on; without it nothing is kept for later. `rows` are written for
    a line of input. UserError where `path` cannot be written, or begins with what is not `asked`.
    """
    if path is None:
        yield sys.stdout.buffer, 0
        return
    if path.exists() and not path.is_file():  # a device or a pipe is not replaced
        with _opened(path, path) as file:
            yield file, 0
            return
    target = path.resolve()
    partial, record = temporary_path(target), target.with_name(f".{target.name}.json")
    with _opened(partial, path) as file:
        _lock(file, partial, path)
        done = _rows_done(path, asked, partial, record, rows) // rows if asked and resume else 0
        try:
            if not done:
                _begin(file, record, asked)
            yield file, done
            with path_in_oserror(path):
                file.flush()
                sync(partial)
                partial.replace(target)
            record.unlink(missing_ok=True)
        except BaseException:
            with suppress(OSError):  # it must not take the place of the error that led here
                file.flush()
            with suppress(OSError):
                if asked and _has_content(partial):
                    how = "" if resume else " with --resume"
                    say(f"{path}: what is done is kept: the same command{how} goes on")
                else:
                    record.unlink(missing_ok=True)
                    partial.unlink(missing_ok=True)
            raise


@contextmanager
def _opened(written: Path, path: Path) -> Iterator[BinaryIO]:
    try:
        file = written.open("ab")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        yield file
        with path_in_oserror(path):
            file.flush()
    finally:
        with suppress(OSError):  # of what is not flushed yet, which is told already
            file.close()


def _begin(file: BinaryIO, record: Path, asked: Mapping[str, Any] | None) -> None:
    """At no moment does the record lie beside lines that are not of its command."""
    record.unlink(missing_ok=True)
    file.truncate(0)
    if asked:
        write_json(record, asked)


def _lock(file: BinaryIO, partial: Path, path: Path) -> None:
    """UserError where another process writes it, or had it in place after it was opened here."""
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if samestat(os.fstat(file.fileno()), partial.stat()):
            return
    raise UserError(f"{path}: another command is writing it: wait for it, or name another file")


def _has_content(partial: Path) -> bool:
    return partial.is_file() and partial.stat().st_size > 0


def _rows_done(path: Path, asked: Mapping[str, Any], partial: Path, record: Path, rows: int) -> int:
    """How many rows an interrupted command left, whole ones; UserError where another was asked."""
    if not (record.is_file() and _has_content(partial)):
        return 0
    found = read_json(record)
    before = found if isinstance(found, dict) else {}
    if changed := [name for name, value in asked.items() if before.get(name) != value]:
        raise UserError(
            f"{path}: cannot be resumed: {', '.join(changed)} changed since it was begun: "
            "translate without --resume"
        )
    return _whole_rows(partial, rows)


def _whole_rows(partial: Path, rows: int) -> int:
    """Cuts the file after the last row of the last line that has all its rows; how many it has."""
    with partial.open("rb+") as file:
        ended = sum(line.endswith(b"\n") for line in file)
        whole = ended - ended % rows
        file.seek(0)
        file.truncate(sum(map(len, islice(file, whole))))
    return whole
