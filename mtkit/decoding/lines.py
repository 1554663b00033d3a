"""Lines of text from bytes, as they arrive.

Only a line feed ends a line, and the last line needs none. What is held in memory grows neither
with the input nor with a line that does not end.
"""

from __future__ import annotations

import io
import select
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from pathlib import Path
from typing import cast

from mtkit.corpus.files import GZIP_ERRORS, describe_gzip_error, open_decompressed
from mtkit.decoding.sentences import MAX_TEXT_CHARACTERS
from mtkit.errors import MtkitError, UserError
from mtkit.report import warn

CHUNK_BYTES = 1 << 16
MAX_TEXT_BYTES = 4 * (MAX_TEXT_CHARACTERS + 1)
"""Bytes of a line that are kept: more than MAX_TEXT_CHARACTERS characters if the line has more."""


def split_lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield each line without its line feed; bytes above MAX_TEXT_BYTES are left out."""
    unended = bytearray()
    while chunk := _read(stream):
        first, *others = chunk.split(b"\n")
        unended += first[: MAX_TEXT_BYTES - len(unended)]
        if others:
            yield bytes(unended)
            yield from others[:-1]
            unended = bytearray(others[-1])
    if unended:
        yield bytes(unended)


def decode_lines(lines: Iterable[bytes], name: str = "input") -> Iterator[str]:
    """Yield the lines as text, without carriage returns at the ends and a byte order mark.

    Bytes that are not UTF-8 are replaced by U+FFFD, with one warning, which calls the text `name`.
    Of a line longer than MAX_TEXT_CHARACTERS one more character is kept.
    """
    has_warned = False
    for number, raw in enumerate(lines, start=1):
        text = raw.removesuffix(b"\r").decode(errors="replace")[: MAX_TEXT_CHARACTERS + 1]
        # A U+FFFD of the input itself is also there if invalid bytes are left out.
        if not has_warned and "\ufffd" in text:
            has_warned = not raw.decode(errors="ignore").startswith(text)
            if has_warned:
                where = f"{name} line {number}"
                warn(f"{where}: not UTF-8: replaced by U+FFFD, here and in later lines")
        yield text.removeprefix("\ufeff") if number == 1 else text


def input_lines(path: Path | None) -> Generator[str]:
    """Yield every line of the file, or of standard input.

    Raises:
        UserError: it cannot be read.
    """
    with open_input(path) as stream:
        yield from decode_lines(split_lines(stream), str(path or "input"))


@contextmanager
def open_input(path: Path | None) -> Iterator[io.BufferedIOBase]:
    """Open the file, plain or gzip, or standard input.

    Raises:
        UserError: it cannot be read.
    """
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


def _read(stream: io.BufferedIOBase) -> bytes:
    name = getattr(stream, "name", "input")
    with suppress(OSError):  # held in memory: nothing to wait for
        # A thread that waits inside a read would hold the lock that Python needs to exit.
        select.select([stream.fileno()], [], [])
    try:
        return stream.read1(CHUNK_BYTES)
    except GZIP_ERRORS as error:
        raise describe_gzip_error(name, error) from error
    except OSError as error:
        raise MtkitError(f"{name}: cannot be read ({error.strerror})") from error


def ask(prompt: str) -> str | None:
    """Return a line that is typed at the terminal; None at the end, Ctrl-D."""
    with suppress(ImportError):  # not every Python has it
        import readline  # noqa: F401 - makes lines editable, with a history
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    try:  # `input` must not write its prompt to stdout, which holds data alone
        with nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr):
            return input(prompt)
    except EOFError:
        sys.stderr.write("\n")
        return None
