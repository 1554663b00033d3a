"""Where translations go: standard output, or a file that appears when it is complete.

Until then lines are written to a temporary file beside it. A JSON record of all that the output
depends on lets a later command resume what an interrupted one left, whose last line may be half a
line.
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
    dependencies: Mapping[str, Any] | None = None,
    *,
    rows: int = 1,
    resume: bool = False,
) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file, or standard output; yield it and the number of input lines that are done.

    Without `dependencies` nothing is kept for a later command. `rows` are written for each line.

    Raises:
        UserError: the file cannot be written, or its dependencies have changed.
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
        done = _resume(path, dependencies, record, rows) if dependencies and resume else 0
        try:
            if not done:
                _begin(file, record, dependencies)
            yield file, done
            with path_in_oserror(path):
                file.flush()
                sync(partial)
                partial.replace(target)
            record.unlink(missing_ok=True)
        except BaseException:
            with suppress(OSError):  # must not hide the first error
                file.flush()
            if dependencies and partial.is_file() and partial.stat().st_size:
                say(f"{path}: partial output is kept: the same command with --resume continues it")
            else:
                with suppress(OSError):
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
        with suppress(OSError):  # of a flush that has failed before
            file.close()


def _lock(file: BinaryIO, partial: Path, path: Path) -> None:
    """Raise UserError if another process writes it, or replaced it after it was opened here."""
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if samestat(os.fstat(file.fileno()), partial.stat()):
            return
    raise UserError(f"{path}: another command is writing it: wait for it, or choose another file")


def _begin(file: BinaryIO, record: Path, dependencies: Mapping[str, Any] | None) -> None:
    record.unlink(missing_ok=True)  # first, so that it never describes other output
    file.truncate(0)
    if dependencies:
        write_json(record, dependencies)


def _resume(path: Path, dependencies: Mapping[str, Any], record: Path, rows: int) -> int:
    """Cut the partial output after the last line with all its rows; return the number of lines.

    Raises UserError if it has other dependencies.
    """
    partial = temporary_path(path.resolve())
    if not (record.is_file() and partial.stat().st_size):
        return 0
    before = read_json(record)
    before = before if isinstance(before, dict) else {}
    if changed := [name for name, value in dependencies.items() if before.get(name) != value]:
        raise UserError(
            f"{path}: cannot be resumed: {', '.join(changed)} changed since it was begun: "
            "translate without --resume"
        )
    with partial.open("rb+") as file:
        done = sum(line.endswith(b"\n") for line in file) // rows
        file.seek(0)
        file.truncate(sum(map(len, islice(file, done * rows))))
    return done
