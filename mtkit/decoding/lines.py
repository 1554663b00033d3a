"""Lines of the input, as they arrive or as they are typed; memory is bounded for any line."""

from __future__ import annotations

import io
import sys
from collections.abc import Generator
from contextlib import nullcontext, redirect_stdout, suppress
from pathlib import Path

from mtkit.corpus.files import open_input, text_lines
from mtkit.decoding.sentences import MAX_TEXT_CHARACTERS

MAX_TEXT_BYTES = 4 * (MAX_TEXT_CHARACTERS + 1)
"""Bytes of a line that are kept, enough for MAX_TEXT_CHARACTERS + 1 characters."""


def input_lines(path: Path | None) -> Generator[str]:
    """Yield every line of the file, or of standard input; errors are as in `open_input`."""
    with open_input(path) as file:
        yield from text_lines(file, str(path or "stdin"), MAX_TEXT_BYTES)


def ask(prompt: str) -> str | None:
    """Return a line typed at the terminal, or None after Ctrl-D."""
    with suppress(ImportError):  # some builds of Python lack readline
        import readline  # noqa: F401 - adds line editing and a history to input()
    if isinstance(sys.stdin, io.TextIOWrapper) and sys.stdin.errors != "replace":
        sys.stdin.reconfigure(errors="replace")
    try:  # the prompt must not go to stdout, which is for translations
        with nullcontext() if sys.stdout.isatty() else redirect_stdout(sys.stderr):
            return input(prompt)
    except BaseException as end:  # Ctrl-D or Ctrl-C, which leave the cursor behind the prompt
        sys.stderr.write("\n")
        if isinstance(end, EOFError):
            return None
        raise
