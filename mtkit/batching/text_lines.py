"""Lines of text in an artifact."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from mtkit.errors import UserError


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write lines as UTF-8, each with a line feed."""
    text = "".join(f"{line}\n" for line in lines)
    path.write_text(text, encoding="utf-8", newline="\n")


def read_written_lines(path: Path) -> list[str]:
    """Return the lines that `write_lines` has written; raise UserError if that fails."""
    try:
        # After the last line feed, `split` finds one more line, which is empty.
        return path.read_bytes().decode().split("\n")[:-1]
    except (OSError, UnicodeDecodeError):
        raise UserError(f"{path} is unreadable; rebuild it with `mtkit batch`") from None
