"""Bytes to lines of text, as they come.

Only a line feed ends a line, and the last line needs none. Lines travel in windows; a window is
handed on when it is full, or a moment after its first line came: so nobody waits for a line that
has not been written yet, and what is held in memory grows neither with the input nor with a line
that does not end.
"""

from __future__ import annotations

import io
import select
import sys
import time
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import cast

from mtkit.corpus.files import GZIP_ERRORS, describe_gzip_error, open_decompressed
from mtkit.decoding.sentences import LONGEST
from mtkit.errors import MtkitError, UserError
from mtkit.report import warn

WINDOW = 1024
"""Lines that are sorted by length and translated together."""
FIRST_WINDOW = 32
"""As long is the first one, so that the first translations come soon; each later one twice that."""
PATIENCE = 0.1
"""Seconds that a line waits for others to come."""
CHUNK = 1 << 16
HELD = 4 * (LONGEST + 1)
"""Bytes of a line that are kept: more than LONGEST whole characters where the line has more."""


def read_windows(stream: io.BufferedIOBase, size: int = WINDOW) -> Iterator[list[bytes]]:
    """The lines of `stream` without their line feeds, at most `size` at a time, never none.

    The first windows are smaller. A window is full with HELD bytes, too; what a single line has
    above that is left out.
    """
    lines: list[bytes] = []
    unended = bytearray()
    room = min(size, FIRST_WINDOW)
    is_open = True
    while is_open or lines:
        closing = time.monotonic() + PATIENCE if lines else None
        while is_open and not _is_full(lines, room) and _is_readable(stream, closing):
            chunk = _read(stream)
            first, *others = chunk.split(b"\n")
            unended += first[: HELD - len(unended)]
            if others:
                lines += [bytes(unended), *others[:-1]]
                unended = bytearray(others[-1])
            is_open = bool(chunk)
            if not is_open and unended:
                lines.append(bytes(unended))
            if lines and closing is None:
                closing = time.monotonic() + PATIENCE
        if lines:
            yield lines[:room]
        lines, room = lines[room:], min(size, 2 * room)


def decode_lines(
    windows: Iterable[list[bytes]], name: str = "input", skipped: int = 0
) -> Iterator[list[str]]:
    """The same windows as text, without carriage returns at the ends and a byte order mark.

    Bytes that are not UTF-8 are replaced by U+FFFD, with one warning, which calls the text `name`.
    Lines have at most one character more than LONGEST. The first `skipped` ones are left out.
    """
    number, has_warned = 0, False
    for window in windows:
        texts = []
        for raw in window:
            number += 1
            text = raw.removesuffix(b"\r").decode(errors="replace")[: LONGEST + 1]
            # U+FFFD that really stands in the input is there with what is not UTF-8 left out, too.
            if not has_warned and "\ufffd" in text:
                has_warned = not raw.decode(errors="ignore").startswith(text)
                if has_warned:
                    where = f"{name} line {number}"
                    warn(f"{where}: not UTF-8: replaced by U+FFFD, here and in later lines")
            if number > skipped:
                texts.append(text.removeprefix("\ufeff") if number == 1 else text)
        if texts:
            yield texts


def input_lines(path: Path | None) -> Generator[str]:
    """Every line of the file, or of standard input; UserError where it cannot be read."""
    with open_input(path) as stream:
        for window in decode_lines(read_windows(stream), str(path or "input")):
            yield from window


def in_windows(lines: Sequence[str], size: int = WINDOW) -> Iterator[Sequence[str]]:
    """Lines that are all there, `size` at a time."""
    return (lines[first : first + size] for first in range(0, len(lines), size))


@contextmanager
def open_input(path: Path | None) -> Iterator[io.BufferedIOBase]:
    """The file, plain or gzip, or standard input; UserError where it cannot be read."""
    if path is None:
        if sys.stdin is None:
            raise UserError("stdin: closed: name a text file")
        yield cast(io.BufferedIOBase, sys.stdin.buffer)
        return
    try:
        file = open_decompressed(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}): name a text file") from None
    with file:
        yield file


def _is_full(lines: list[bytes], size: int) -> bool:
    return len(lines) >= size or sum(map(len, lines)) >= HELD


def _read(stream: io.BufferedIOBase) -> bytes:
    name = getattr(stream, "name", "input")
    try:
        return stream.read1(CHUNK)
    except GZIP_ERRORS as error:
        raise describe_gzip_error(name, error) from error
    except OSError as error:
        raise MtkitError(f"{name}: cannot be read ({error.strerror})") from error


def _is_readable(stream: io.BufferedIOBase, closing: float | None) -> bool:
    """Waits until a read will not block, or until the time `closing`."""
    try:
        descriptor = stream.fileno()
    except OSError:  # held in memory
        return True
    wait = None if closing is None else max(0.0, closing - time.monotonic())
    return bool(select.select([descriptor], [], [], wait)[0])


def ask(prompt: str) -> str | None:
    """A line that somebody types at the terminal; None at the end, Ctrl-D."""
    with suppress(ImportError):  # not every Python has it
        import readline  # noqa: F401 - from now on lines can be edited, and called back
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    try:  # `input` is not to write to what is to hold data alone
        with nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr):
            return input(prompt)
    except EOFError:
        sys.stderr.write("\n")
        return None
