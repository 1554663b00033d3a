"""Files of lines to score: detokenised text, one sentence per line."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from pathlib import Path

from mtkit.corpus.files import MAX_LINE_BYTES, OLD_LINE_ENDS, open_input, split_lines, text_blocks
from mtkit.corpus.text import is_blank, is_presplit, normalise
from mtkit.errors import UserError
from mtkit.report import plural, warn
from mtkit.scoring.metrics import MAX_SENTENCE_CHARACTERS

STDIN = "stdin"
SOURCE_FILE, REFERENCE_FILE, HYPOTHESES_FILE = "source.txt", "reference.txt", "hypotheses.txt"
"""The files of RUN/test."""


def read_texts(
    references: Sequence[Path], hypotheses: Sequence[Path], source: Path | None
) -> tuple[list[list[str]], dict[str, list[str]], list[str]]:
    """Read parallel lines: references, systems by the name of their file (or stdin), sources.

    Raises:
        UserError: a file is missing, empty, not UTF-8, given twice, or has another length.
    """
    right = {str(path): load_lines(path) for path in references}
    files: Sequence[Path | None] = hypotheses or [None]
    systems = {str(path or STDIN): load_lines(path) for path in files}
    for role, paths, texts in (("references", references, right), ("hypotheses", files, systems)):
        if len(texts) < len(paths):
            raise UserError(f"a file of {role} is given twice; give each file once")
    if blank := next((name for name, lines in right.items() if all(map(is_blank, lines))), None):
        raise UserError(f"{blank} has only blank lines, so there is nothing to compare with")
    sources = {} if source is None else {str(source): load_lines(source)}
    expected = len(next(iter(right.values())))
    for name, lines in (right | systems | sources).items():
        if len(lines) != expected:
            counts = f"has {plural(len(lines), 'line')}, but {references[0]} has {expected:,}"
            raise UserError(f"{name} {counts}; line n must belong to line n")
    for name, lines in (right | systems).items():
        is_split = sum(map(is_presplit, lines)) * 4 > len(lines)
        if is_split and name in systems:
            warn(f"{name} seems to be tokenised; BLEU, chrF and TER expect detokenised text")
        if max(map(len, lines)) > MAX_SENTENCE_CHARACTERS:
            warn(
                f"{name} has a line of over {MAX_SENTENCE_CHARACTERS:,} characters, so only BLEU "
                "and chrF are computed; put one sentence on a line for the other metrics"
            )
    return list(right.values()), systems, next(iter(sources.values()), [])


def load_lines(path: Path | None) -> list[str]:
    """Read lines from a file or stdin and normalise them; only a line feed ends a line.

    A line over MAX_LINE_BYTES is blank.

    Raises:
        UserError: the file is missing, empty, damaged or not UTF-8.
    """
    name = str(path or STDIN)
    lines: list[str] = []
    has_old_line_ends = False
    with open_input(path) as file:
        for number, raw in enumerate(split_lines(text_blocks(file, name)), 1):
            if number == 1:
                raw = raw.removeprefix(codecs.BOM_UTF8)
            if len(raw) > MAX_LINE_BYTES:
                warn(f"{name}:{number}: longer than 1 MiB, read as an empty line")
                raw = b""
            try:
                line = raw.removesuffix(b"\r").decode()
            except UnicodeDecodeError:
                raise UserError(f"{name}:{number}: not UTF-8; convert the file") from None
            has_old_line_ends = has_old_line_ends or "\r" in line
            lines.append(normalise(line))
    if not lines:
        raise UserError(f"{name} is empty, so there is nothing to score")
    if has_old_line_ends:
        warn(f"{name}: {OLD_LINE_ENDS}")
    return lines
