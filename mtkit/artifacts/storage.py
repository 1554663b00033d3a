"""JSON and text files: atomic writes, and reads that are safe in an untrusted folder."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, count
from pathlib import Path
from stat import S_IMODE, S_ISREG
from typing import Any

from mtkit.errors import UserError

MAX_JSON_BYTES = 1 << 24
"""Largest JSON file that is read; a manifest takes a few kilobytes."""


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; UserError if it is another file, such as a pipe."""
    status = path.lstat()
    if not S_ISREG(status.st_mode) or status.st_size > MAX_JSON_BYTES:
        raise UserError(
            f"{path} was not written by mtkit: it is a link or a pipe, or far too large"
        )
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is not JSON ({error})") from None
    return value


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically: readers see the old or the new content, never a mixture."""
    partial = temporary_path(path)
    try:
        with path_in_oserror(path):
            with open(
                partial, "w", encoding="utf-8", newline="\n", opener=open_without_links
            ) as file:
                file.write(text)
            put_in_place(partial, path)
    except BaseException:
        with suppress(OSError):  # keep the first error
            partial.unlink(missing_ok=True)
        raise


def open_without_links(path: str, flags: int) -> int:
    """Open a plain file for `open(opener=...)`; raise OSError if it is a link, pipe or device.

    Somebody else may have put one there, if others can write to the folder.
    """
    # Without O_NONBLOCK, opening a pipe would wait for a reader.
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, mode=0o666)
    if not S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EEXIST, "it is no plain file", path)
    return descriptor


def put_in_place(partial: Path, path: Path) -> None:
    """Rename a complete file to `path`; it replaces a file there, and keeps its permissions.

    Readers see the old or the new file, also after a power loss.
    """
    sync(partial)
    _keep_permissions(path, partial)
    partial.replace(path)
    sync(path.parent)


def _keep_permissions(path: Path, new: Path) -> None:
    """Give a file that will replace `path` the same permissions and owner, if `path` exists."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    with suppress(PermissionError):  # only root may give files to other users
        os.chown(new, status.st_uid, status.st_gid)
    new.chmod(S_IMODE(status.st_mode))


def temporary_path(path: Path) -> Path:
    """Return the path of the partial output of `path`; a killed process leaves that file."""
    return path.with_name(f".{path.name}.partial")


def first_free(path: Path) -> Path:
    """Return the path if nothing is there, else path-2, path-3 or the next free one."""
    others = (path.with_name(f"{path.name}-{number}") for number in count(2))
    return next(each for each in chain([path], others) if not os.path.lexists(each))


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to disk, so that a rename survives a power loss."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def path_in_oserror(path: Path) -> Iterator[None]:
    """Add `path` to an OSError that names no file, as when a disk is full during a write."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        reason = error.strerror or f"disk full? ({error})"  # numpy gives no reason
        raise OSError(error.errno, reason, str(path)) from error
