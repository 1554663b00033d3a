"""Outputs that the user names with -o.

A plain file appears only when it is complete. An interrupted one is continued by the same command:
lines first go to a temporary file, and a JSON file next to it records what the output depends on.
A stream (a device or a pipe) is written directly. A link to a file is refused, also /dev/stdout if
the shell has redirected it to a file: nothing that a link leads to is replaced.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice, repeat
from os.path import samestat
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from typing import Any, BinaryIO

from mtkit.artifacts.locks import LockHeldError, lock_file
from mtkit.artifacts.storage import (
    open_without_links,
    path_in_oserror,
    put_in_place,
    read_json,
    temporary_path,
    write_json,
)
from mtkit.errors import UserError
from mtkit.report import say

STANDARD_STREAMS = ("stdin", "stdout", "stderr")
"""Names of the first three file descriptors of a process."""


def check_output(path: Path, inputs: Iterable[Path | None] = ()) -> None:
    """Check that an output can be written; None among the `inputs` is ignored.

    Raises:
        UserError: the path is a link to a file, a folder, a write-protected file, an input, or the
            file that the shell has connected to a standard stream of this command.
    """
    if is_stream(path):
        return
    if path.is_symlink():
        raise UserError(f"{path} is a link; give the file itself, {os.path.realpath(path)}")
    try:
        status = path.stat()
    except OSError:  # a new file, if its folder can be written
        return
    if S_ISDIR(status.st_mode):
        raise UserError(f"{path} is a folder; give a file")
    if not os.access(path, os.W_OK):
        raise UserError(f"{path} cannot be written (it is write-protected)")
    if any(file and file.is_file() and path.samefile(file) for file in inputs):
        raise UserError(f"{path} is an input; choose another output")
    for descriptor, name in enumerate(STANDARD_STREAMS):
        with suppress(OSError):  # a closed stream
            if samestat(os.fstat(descriptor), status):
                raise UserError(f"{path} is {name} of this command; choose another output")


def is_stream(path: Path) -> bool:
    """Return whether a path leads to a device or a pipe."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (S_ISREG(mode) or S_ISDIR(mode))


@contextmanager
def open_output(
    path: Path | None,
    dependencies: Mapping[str, Any] | None = None,
    *,
    line_counts: Iterable[int] = repeat(1),
) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or standard output, and yield it with the number of input lines already done.

    `dependencies`: all that the output depends on; a partial output with the same dependencies is
    continued. None: it is never continued. `line_counts`: the numbers of output lines of all input
    lines, in order. A file that is replaced keeps its permissions.

    Raises:
        UserError: the file cannot be written.
    """
    if path is None:
        yield sys.stdout.buffer, 0
        return
    check_output(path)
    if is_stream(path):
        with _opened(path, path) as file:
            yield file, 0
        return
    partial = temporary_path(path)
    record = partial.with_name(f"{partial.name}.json")
    with _opened(partial, path) as file, _locked(file, partial, path):
        done = 0
        if dependencies and _has_same_dependencies(record, dependencies):
            done = _cut_incomplete(partial, line_counts)
        try:
            if not done:
                record.unlink(missing_ok=True)  # first, so that it never describes other output
                file.truncate(0)
                if dependencies:
                    write_json(record, dependencies)
            yield file, done
            with path_in_oserror(path):
                file.flush()
                put_in_place(partial, path)
            record.unlink(missing_ok=True)
        except BaseException:
            with suppress(OSError):  # must not hide the first error
                file.flush()
            if dependencies and partial.is_file() and partial.stat().st_size:
                say(f"{path}: kept the partial output; the same command continues")
            else:
                with suppress(OSError):
                    record.unlink(missing_ok=True)
                    partial.unlink(missing_ok=True)
            raise


@contextmanager
def _opened(written: Path, path: Path) -> Iterator[BinaryIO]:
    """Open a stream or a temporary file to add to it; `path`: its name for messages."""
    try:
        if written == path:  # a device or a pipe
            file = written.open("ab")
        else:
            file = open(written, "ab", opener=open_without_links)  # noqa: SIM115
    except OSError as error:
        raise UserError(f"{path} cannot be written ({error.strerror})") from None
    try:
        yield file
        with path_in_oserror(path):
            file.flush()
    finally:
        with suppress(OSError):  # the flush above has reported it
            file.close()


@contextmanager
def _locked(file: BinaryIO, partial: Path, path: Path) -> Iterator[None]:
    """Lock the file, or raise UserError if another process writes it or has just replaced it."""
    is_written = f"{path} is being written by another command; wait for it, or choose another file"
    with ExitStack() as stack:
        try:
            stack.enter_context(lock_file(file, partial))
        except LockHeldError as held:
            raise UserError(f"{is_written}{held.advice}") from None
        is_replaced = True
        with suppress(FileNotFoundError):
            is_replaced = not samestat(os.fstat(file.fileno()), partial.stat())
        if is_replaced:
            raise UserError(is_written)
        yield


def _has_same_dependencies(record: Path, dependencies: Mapping[str, Any]) -> bool:
    """Return whether a partial output depends on the same as the whole output will."""
    with suppress(UserError, FileNotFoundError):  # the record is damaged or missing
        return bool(read_json(record) == dependencies)
    return False


def _cut_incomplete(partial: Path, line_counts: Iterable[int]) -> int:
    """Cut a partial output after the last complete input line; return that line's number."""
    with partial.open("rb+") as file:
        complete_lines = sum(line.endswith(b"\n") for line in file)
        done, kept_lines = 0, 0
        for lines in line_counts:
            if kept_lines + lines > complete_lines:
                break
            kept_lines += lines
            done += 1
        file.seek(0)
        file.truncate(sum(map(len, islice(file, kept_lines))))
    return done
