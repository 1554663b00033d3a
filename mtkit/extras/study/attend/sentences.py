"""The sentences that a user gives to `mtkit attend`."""

from __future__ import annotations

import os
from collections.abc import Iterator

from mtkit.corpus.files import input_lines
from mtkit.errors import UserError


def named_sentences(text: str | None) -> Iterator[tuple[str, str]]:
    """Yield (name for errors, line): `text`, or each line of stdin.

    Raises:
        UserError: stdin has no line.
    """
    if text is not None:
        # In arguments, Python replaces invalid UTF-8 by lone surrogates; `fsencode` restores it.
        yield "text", os.fsencode(text).decode(errors="replace")
        return
    number = 0
    for number, line in enumerate(input_lines(None), start=1):
        yield f"input line {number}", line
    if not number:
        raise UserError("stdin is empty; give a sentence")
