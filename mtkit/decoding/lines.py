"""Lines of text from bytes, as they arrive; memory is bounded for any input and any line.

Only a line feed ends a line; after the last line it is optional.
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
"""Bytes of a line that are kept, enough for MAX_TEXT_CHARACTERS + 1 characters."""


def split_lines(stream: io.BufferedIOBase) -> Iterator[bytes]:
    """Yield each line without its line feed, cut to about MAX_TEXT_BYTES."""
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
    """Decode the lines, without a byte order mark and carriage returns at line ends.

    Invalid UTF-8 becomes U+FFFD, with one warning, which calls the text `name`. A longer line is
    cut to MAX_TEXT_CHARACTERS + 1 characters, so that `segment` can tell that it was longer.
    """
    has_warned = False
    for number, raw in enumerate(lines, start=1):
        text = raw.removesuffix(b"\r").decode(errors="replace")[: MAX_TEXT_CHARACTERS + 1]
        # The input can contain U+FFFD itself: then it remains if invalid bytes are ignored.
        if not has_warned and "\ufffd" in text:
            has_warned = not raw.decode(errors="ignore").startswith(text)
            if has_warned:
                warn(
                    f"{name} line {number} is not UTF-8; invalid bytes become U+FFFD, "
                    "here and in later lines"
                )
        yield text.removeprefix("\ufeff") if number == 1 else text


def input_lines(path: Path | None) -> Generator[str]:
    """Yield every line of the file, or of standard input; errors are as in `open_input`."""
    with open_input(path) as stream:
        yield from decode_lines(split_lines(stream), str(path or "input"))


@contextmanager
def open_input(path: Path | None) -> Iterator[io.BufferedIOBase]:
    """Open a plain or gzipped file, or standard input; raise UserError if that fails."""
    if path is None:
        if sys.stdin is None:
            raise UserError("stdin is closed; give a text file")
        yield cast(io.BufferedIOBase, sys.stdin.buffer)
        return
    try:
        file = open_decompressed(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); give a text file") from None
    with file:
        yield file


def _read(stream: io.BufferedIOBase) -> bytes:
    name = getattr(stream, "name", "input")
    with suppress(OSError):  # a stream in memory has no file descriptor
        # Wait outside of read, which would hold the lock that Python needs to exit.
        select.select([stream.fileno()], [], [])
    try:
        return stream.read1(CHUNK_BYTES)
    except GZIP_ERRORS as error:
        raise describe_gzip_error(name, error) from error
    except OSError as error:
        raise MtkitError(f"{name} cannot be read ({error.strerror})") from error


def ask(prompt: str) -> str | None:
    """Return a line typed at the terminal, or None after Ctrl-D."""
    with suppress(ImportError):  # some builds of Python lack readline
        import readline  # noqa: F401 - adds line editing and a history to input()
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    try:  # the prompt must not go to stdout, which is for translations
        with nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr):
            return input(prompt)
    except EOFError:
        sys.stderr.write("\n")
        return None
