"""Files of lines to score, checked: parallel, text, and as people write it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mtkit.errors import UserError
from mtkit.report import warn
from mtkit.scoring.metrics import MOST_CHARACTERS

STDIN = "stdin"
SOURCE, REFERENCE, HYPOTHESES = "source.txt", "reference.txt", "hypotheses.txt"
"""The files of RUN/test."""


@dataclass(frozen=True)
class Texts:
    """Parallel lines."""

    references: list[str]
    systems: Mapping[str, list[str]]
    """Hypotheses by the name of their file."""
    sources: list[str]
    """Lines of the source; empty where no file of them is given."""


def read_texts(references: Path, hypotheses: Sequence[Path], sources: Path | None) -> Texts:
    """Reads all files; without hypotheses, stdin.

    Raises UserError for files that are missing, empty, not UTF-8, named twice or of unequal length.
    """
    paths: Sequence[Path | None] = hypotheses or [None]
    expected = lines_of(references)
    systems = {str(path or STDIN): lines_of(path) for path in paths}
    if len(systems) < len(paths):
        raise UserError("a file of hypotheses is named twice: name each once")
    given = {} if sources is None else {str(sources): lines_of(sources)}
    for name, lines in {**systems, **given}.items():
        if len(lines) != len(expected):
            raise UserError(
                f"{name}: {len(lines)} lines, but {references} has {len(expected)}: "
                "they must be parallel"
            )
    for name, lines in systems.items():
        if sum(line.endswith(" .") for line in lines) * 4 > len(lines):
            warn(f"{name}: looks tokenised; BLEU, chrF and TER want text as people write it")
    for name, lines in {str(references): expected, **systems}.items():
        too_long = (number for number, line in enumerate(lines, 1) if len(line) > MOST_CHARACTERS)
        if (number := next(too_long, None)) is not None:
            warn(
                f"{name}:{number}: {len(lines[number - 1]):,} characters, over "
                f"{MOST_CHARACTERS:,}: only BLEU and chrF are counted; give a sentence a line for "
                "the others"
            )
    return Texts(expected, systems, next(iter(given.values()), []))


def lines_of(path: Path | None) -> list[str]:
    """Text of lines that end at line feeds alone; carriage returns there are dropped.

    Raises UserError where there is none.
    """
    name = str(path or STDIN)
    if path is None and sys.stdin is None:
        raise UserError(f"{name}: closed: name a file of hypotheses")
    try:
        raw = path.read_bytes() if path else sys.stdin.buffer.read()
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
