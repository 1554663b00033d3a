"""Output files: they appear only when complete, and an interrupted one can be resumed.

Lines first go to a temporary file. A JSON file next to it records what the output depends on.
"""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
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
    """Open a file or standard output, and yield it with the number of input lines already done.

    `dependencies`: all that the output depends on; None: the output cannot be resumed. `rows`:
    number of output lines for each input line. Raises UserError if the file cannot be written, or
    the dependencies have changed.
    """
    if path is None or (path.exists() and not path.is_file()):  # a device or a pipe
        with nullcontext(sys.stdout.buffer) if path is None else _opened(path, path) as file:
            yield file, 0
        return
    target = path.resolve()
    partial, record = temporary_path(target), target.with_name(f".{target.name}.json")
    with _opened(partial, path) as file:
        _lock(file, partial, path)
        done = _resume(path, partial, record, dependencies, rows) if dependencies and resume else 0
        try:
            if not done:
                record.unlink(missing_ok=True)  # first, so that it never describes other output
                file.truncate(0)
                if dependencies:
                    write_json(record, dependencies)
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
                say(f"{path}: kept the partial output; repeat the command with --resume")
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
        raise UserError(f"{path} cannot be written ({error.strerror})") from None
    try:
        yield file
        with path_in_oserror(path):
            file.flush()
    finally:
        with suppress(OSError):  # the flush above has reported it
            file.close()


def _lock(file: BinaryIO, partial: Path, path: Path) -> None:
    """Lock the file, or raise UserError if another process writes it or has just replaced it."""
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if samestat(os.fstat(file.fileno()), partial.stat()):
            return
    raise UserError(
        f"{path} is being written by another command; wait for it, or choose another file"
    )


def _resume(
    path: Path, partial: Path, record: Path, dependencies: Mapping[str, Any], rows: int
) -> int:
    """Cut the partial output after the last complete input line; return that line's number."""
    if not (record.is_file() and partial.stat().st_size):
        return 0
    before = read_json(record)
    before = before if isinstance(before, dict) else {}
    if changed := [name for name, value in dependencies.items() if before.get(name) != value]:
        raise UserError(
            f"{path}: cannot be resumed, because {', '.join(changed)} changed; "
            "translate without --resume"
        )
    with partial.open("rb+") as file:
        done = sum(line.endswith(b"\n") for line in file) // rows
        file.seek(0)
        file.truncate(sum(map(len, islice(file, done * rows))))
    return done
