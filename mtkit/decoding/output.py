"""Where translations go: standard output, or a file that appears when it is complete.

What is written before that lies in a hidden file beside it. With a record of what it is to hold, as
JSON next to that, a later command goes on with what an interrupted one leaves. A process may be
killed at any moment: the last line may then be half a line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.config.storage import read_json, write_json
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
    target = path.resolve()
    is_special = path.exists() and not path.is_file()  # a device or a pipe is not replaced
    partial, record = (target.with_name(f".{target.name}.{what}") for what in ("partial", "json"))
    written, done = path if is_special else partial, 0
    if asked and resume and _has_content(partial) and record.is_file():
        _check_same(path, asked, record)
        done = _whole_rows(partial, rows) // rows
    try:
        if not done and not is_special:
            _forget(partial, record)
        if asked and not done:
            write_json(record, asked)
        file = written.open("ab" if done else "wb")
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with file:
            yield file, done
        if not is_special:
            written.replace(target)
        if asked:
            record.unlink(missing_ok=True)
    except BaseException:
        with suppress(OSError):  # it must not take the place of the error that led here
            if asked and _has_content(partial):
                again = "the same command" if resume else "the same command with --resume"
                say(f"{path}: what is done is kept: {again} goes on")
            elif not is_special:
                _forget(partial, record)
        raise


def _has_content(partial: Path) -> bool:
    return partial.is_file() and partial.stat().st_size > 0


def _forget(partial: Path, record: Path) -> None:
    """The record first: at no moment does it lie beside lines that are not of its command."""
    record.unlink(missing_ok=True)
    partial.unlink(missing_ok=True)


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
    with partial.open("rb+") as file:
        ended = sum(line.endswith(b"\n") for line in file)
        whole = ended - ended % rows
        file.seek(0)
        file.truncate(sum(map(len, islice(file, whole))))
    return whole
