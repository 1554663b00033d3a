"""Lines of text from bytes, as they arrive; memory is bounded for any input and any line.

Only a line feed ends a line; after the last line it is optional.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

from mtkit.corpus.files import OLD_LINE_ENDS, open_input, split_lines, text_blocks
from mtkit.decoding.sentences import MAX_TEXT_CHARACTERS
from mtkit.report import warn

MAX_TEXT_BYTES = 4 * (MAX_TEXT_CHARACTERS + 1)
"""Bytes of a line that are kept, enough for MAX_TEXT_CHARACTERS + 1 characters."""


def decode_lines(lines: Iterable[bytes], name: str) -> Iterator[str]:
    """Decode the lines, without a byte order mark and carriage returns at line ends.

    Invalid UTF-8 becomes U+FFFD. A longer line is cut to MAX_TEXT_CHARACTERS + 1 characters, so
    that `segment` can tell that it was longer. A warning names the first line with each fault.
    """
    told: set[str] = set()
    for number, raw in enumerate(lines, start=1):
        text = raw.removesuffix(b"\r").decode(errors="replace")[: MAX_TEXT_CHARACTERS + 1]
        fault = OLD_LINE_ENDS if "\r" in text else ""
        # The input can contain U+FFFD itself: then it remains if invalid bytes are ignored.
        if "\ufffd" in text and not raw.decode(errors="ignore").startswith(text):
            fault = "invalid UTF-8, which becomes U+FFFD here and in later lines"
        if len(text) > MAX_TEXT_CHARACTERS:
            fault = f"over {MAX_TEXT_CHARACTERS:,} characters; only the first ones are translated"
        if fault and fault not in told:
            told.add(fault)
            warn(f"{name}:{number}: {fault}")
        yield text.removeprefix("\ufeff") if number == 1 else text


def input_lines(path: Path | None) -> Generator[str]:
    """Yield every line of the file, or of standard input; errors are as in `open_input`."""
    with open_input(path) as file:
        yield from text_lines(file, str(path or "stdin"))


def text_lines(file: io.BufferedReader, name: str) -> Iterator[str]:
    """Yield every line of an open file; errors are as in `text_blocks`."""
    return decode_lines(split_lines(text_blocks(file, name), MAX_TEXT_BYTES), name)


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
