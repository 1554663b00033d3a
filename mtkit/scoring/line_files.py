"""Files of lines to score: detokenised text, one sentence per line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mtkit.corpus.files import open_input, text_lines
from mtkit.corpus.importers import find_importer
from mtkit.corpus.text import is_blank, is_presplit, normalise
from mtkit.errors import UserError
from mtkit.report import plural, say, warn
from mtkit.scoring.metrics import MAX_SENTENCE_CHARACTERS, without_blanks

STDIN = "stdin"
SOURCE_FILE, REFERENCE_FILE, HYPOTHESES_FILE = "source.txt", "reference.txt", "hypotheses.txt"
"""The files of RUN/test."""
TextsToScore = tuple[dict[str, list[str]], dict[str, list[str]]]
"""The lines of references, and those of systems, by their names."""


def read_texts(
    references: Sequence[Path],
    hypotheses: Sequence[Path],
    source: Path | None,
    loaded: TextsToScore | None = None,
) -> tuple[list[list[str]], dict[str, list[str]], list[str]]:
    """Read parallel lines: references, systems by the name of their file (or stdin), sources.

    `loaded`: references and systems that were read from a table, in place of files.

    Raises:
        UserError: a file is missing, empty, not UTF-8, given twice, or has another length.
    """
    reference_texts, systems = loaded or _load_files(references, hypotheses)
    for name, lines in reference_texts.items():
        if all(is_blank(line) for line in lines):
            raise UserError(f"{name} has only blank lines, so there is nothing to compare with")
    sources = {} if source is None else {str(source): load_lines(source)}
    _check_lengths(reference_texts | systems | sources)
    _report_blanks(reference_texts)
    for name, lines in systems.items():
        if _is_tokenised(lines):
            warn(f"{name} seems to be tokenised; BLEU, chrF and TER expect detokenised text")
    for name, lines in (reference_texts | systems).items():
        if max(len(line) for line in lines) > MAX_SENTENCE_CHARACTERS:
            warn(
                f"{name} has a line of over {MAX_SENTENCE_CHARACTERS:,} characters, so only BLEU "
                "and chrF are computed; put one sentence on a line for the other metrics"
            )
    return list(reference_texts.values()), systems, next(iter(sources.values()), [])


def _load_files(references: Sequence[Path], hypotheses: Sequence[Path]) -> TextsToScore:
    """Return the lines of references, and of systems, by the names of their files."""
    reference_texts = {str(path): load_lines(path) for path in references}
    if len(reference_texts) < len(references):
        raise UserError("a file of references is given twice; give each file once")
    hypothesis_files: Sequence[Path | None] = hypotheses or [None]
    systems = {str(path or STDIN): load_lines(path) for path in hypothesis_files}
    if len(systems) < len(hypothesis_files):
        raise UserError("a file of hypotheses is given twice; give each file once")
    return reference_texts, systems


def _check_lengths(texts: Mapping[str, list[str]]) -> None:
    """Check that every text has as many lines as the first, which is a reference."""
    first, *_ = texts
    for name, lines in texts.items():
        if len(lines) != len(texts[first]):
            counts = f"has {plural(len(lines), 'line')}, but {first} has {len(texts[first]):,}"
            raise UserError(f"{name} {counts}; line n must belong to line n")


def _report_blanks(references: Mapping[str, list[str]]) -> None:
    """Say how many blank lines of each reference do not count.

    These are the lines for which another reference has text, so a single reference has none.
    """
    counted = without_blanks([*references.values()])
    for name, lines in zip(references, counted, strict=True):
        blank = [line for line in lines if line is None]
        if blank:
            count = plural(len(blank), "blank line")
            say(f"{name}: {count} of {len(lines):,} do not count as references")


def _is_tokenised(lines: Sequence[str]) -> bool:
    """Return whether over a quarter of the lines are tokenised: many have nothing to split."""
    return 4 * sum(is_presplit(line) for line in lines) > len(lines)


def load_lines(path: Path | None) -> list[str]:
    """Read lines from a file or stdin and normalise them, as `text_lines` does.

    Raises:
        UserError: the file is missing, empty, damaged or not UTF-8.
    """
    name = str(path or STDIN)
    if find_importer(name) is not None:
        raise UserError(
            f"{name} is a table, not text; to score two columns of one table, give it alone with "
            "--columns R T"
        )
    with open_input(path) as file:
        lines = [normalise(line) for line in text_lines(file, name, is_strict=True)]
    if not lines:
        raise UserError(f"{name} is empty, so there is nothing to score")
    return lines
