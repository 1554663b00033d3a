"""An output file that a later command goes on with: what an interrupted translation leaves.

The lines that are done lie in a hidden file beside it, and next to them, as JSON, of what they are
the translation. A process may be killed at any moment: the last line may then be half a line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.config.storage import read_json, write_json
from mtkit.errors import UserError
from mtkit.report import say

CHUNK = 1 << 20


@contextmanager
def open_resumable(
    path: Path, asked: Mapping[str, Any], *, rows: int, resume: bool
) -> Iterator[tuple[BinaryIO, int]]:
    """The file, which appears when it is complete, and how many lines of input it has already.

    `rows` are written for a line of input. Raises UserError where `path` cannot be written, or
    where `resume` finds the beginning of something else than is `asked`.
    """
    target = path.resolve()
    partial, record = (target.with_name(f".{target.name}.{what}") for what in ("partial", "json"))
    done = 0
    if resume and partial.is_file() and partial.stat().st_size and record.is_file():
        _check_same(path, asked, record)
        done = _whole_rows(partial, rows) // rows
    try:
        if not done:
            partial.unlink(missing_ok=True)
            write_json(record, asked)
        file = partial.open("ab")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with file:
            yield file, done
        partial.replace(target)
        record.unlink()
    except BaseException:
        if partial.stat().st_size:
            say(f"{path}: what is done is kept: the same command with --resume goes on")
        else:
            partial.unlink()
            record.unlink()
        raise


def _check_same(path: Path, asked: Mapping[str, Any], record: Path) -> None:
    found = read_json(record)
    before = found if isinstance(found, dict) else {}
    if changed := [name for name, value in asked.items() if before.get(name) != value]:
        raise UserError(
            f"{path}: cannot be resumed: {', '.join(changed)} changed since it was begun: "
            "translate without --resume"
        )


def _whole_rows(partial: Path, rows: int) -> int:
    """Cuts the file after the last row of the last line that has all its rows; how many it has."""
    ends, size = 0, 0
    with partial.open("rb+") as file:
        total = sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(CHUNK), b""))
        whole = total - total % rows
        file.seek(0)
        for line in file:
            if ends == whole:
                break
            ends, size = ends + 1, size + len(line)
        file.truncate(size)
    return whole
