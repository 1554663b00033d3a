"""JSON and text on the disk: read from anybody's folder, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_ISREG
from typing import Any

from mtkit.errors import UserError

LARGEST_JSON = 1 << 24
"""Number of bytes in a JSON file, at most; a manifest has some thousands."""
DEEPEST_JSON = 32
"""Number of levels in a JSON file, at most; settings have five."""


def read_json(path: Path) -> Any:
    """What `write_json` wrote; UserError for anything else, OSError where there is nothing.

    Nothing but a plain file is opened, which alone is sure to end, and little memory is taken.
    """
    status = path.lstat()
    if not S_ISREG(status.st_mode) or status.st_size > LARGEST_JSON:
        raise UserError(f"{path}: not a file of mtkit (a link, a pipe, or far too large)")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        _check_json(value, 0)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: not JSON ({error})") from None
    return value


def _check_json(value: Any, depth: int) -> None:
    """Raises ValueError for what would exhaust a stack later on, and for halves of characters."""
    if depth > DEEPEST_JSON:
        raise ValueError(f"nested more than {DEEPEST_JSON} levels deep")
    match value:
        case str():
            value.encode()
        case dict():
            _check_json([*value, *value.values()], depth)
        case list():
            for inner in value:
                _check_json(inner, depth + 1)


def write_json(path: Path, value: Any) -> None:
    """Writes what `read_json` reads, atomically."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True) + "\n")


def write_text(path: Path, text: str) -> None:
    """Writes atomically: readers see the old file or the new one, never half of one."""
    temporary = half_written(path)
    with naming(path):
        temporary.write_text(text, encoding="utf-8")
        sync(temporary)
    temporary.replace(path)
    sync(path.parent)


def half_written(path: Path) -> Path:
    """Where `write_text` writes what is to be at `path`; a killed process leaves it there."""
    return path.with_name(f".{path.name}.partial")


def sync(path: Path) -> None:
    """Puts a file on the disk, or the names in a folder: a power loss does not undo a rename."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """A disk that fills up in the middle of a write does not say of which file."""
    try:
        yield
    except OSError as error:
        if error.filename is not None:
            raise
        reason = error.strerror or f"disk full? ({error})"  # numpy gives no reason
        raise OSError(error.errno, reason, str(path)) from error
