"""Files of lines to score: text, as people write it, and no more of it than lines."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from mtkit.corpus.files import GZIP_FAULTS, damaged, opened
from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.scoring.metrics import MOST_CHARACTERS

STDIN = "stdin"
SOURCE, REFERENCE, HYPOTHESES = "source.txt", "reference.txt", "hypotheses.txt"
"""The files of RUN/test."""


def read_texts(
    references: Sequence[Path], hypotheses: Sequence[Path], source: Path | None
) -> tuple[list[list[str]], dict[str, list[str]], list[str]]:
    """Parallel lines: references, systems by the name of their file (or stdin), sources if any.

    Raises UserError for files that are missing, empty, not UTF-8, named twice or of unequal length.
    """
    paths: Sequence[Path | None] = hypotheses or [None]
    right = {str(path): lines_of(path) for path in references}
    systems = {str(path or STDIN): lines_of(path) for path in paths}
    for named, found, what in (references, right, "references"), (paths, systems, "hypotheses"):
        if len(found) < len(named):
            raise UserError(f"a file of {what} is named twice: name each once")
    sources = {} if source is None else {str(source): lines_of(source)}
    first, expected = next((name, len(lines)) for name, lines in right.items())
    for name, lines in (right | systems | sources).items():
        if len(lines) != expected:
            raise UserError(
                f"{name}: {len(lines)} lines, but {first} has {expected}: they must be parallel"
            )
    for name, lines in systems.items():
        if sum(line.endswith(" .") for line in lines) * 4 > len(lines):
            warn(f"{name}: looks tokenised; BLEU, chrF and TER want text as people write it")
    for name, lines in (right | systems).items():
        for number, line in enumerate(lines, 1):
            if len(line) > MOST_CHARACTERS:
                warn(
                    f"{name}:{number}: {len(line):,} characters, over {MOST_CHARACTERS:,}: only "
                    "BLEU and chrF are counted; give a sentence a line for the others"
                )
                break
    return list(right.values()), systems, next(iter(sources.values()), [])


def lines_of(path: Path | None) -> list[str]:
    """Lines, plain or gzip, that end at line feeds alone; carriage returns there are dropped.

    Raises UserError where there is none.
    """
    name = str(path or STDIN)
    if path is None and sys.stdin is None:
        raise UserError(f"{name}: closed: name a file of hypotheses")
    try:
        with opened(path) if path else nullcontext(sys.stdin.buffer) as file:
            raw = file.read()
    except GZIP_FAULTS as error:
        raise damaged(name, error) from error
    except OSError as error:
        raise UserError(f"{name}: cannot be read ({error.strerror})") from None
    if not raw:
        raise UserError(f"{name}: empty: nothing to score")
    body = raw.removeprefix(b"\xef\xbb\xbf").removesuffix(b"\n")
    try:
        return [line.removesuffix("\r") for line in body.decode().split("\n")]
    except UnicodeDecodeError as error:
        number = body.count(b"\n", 0, error.start) + 1
        raise UserError(f"{name}:{number}: not UTF-8: convert the file") from None
