"""Stage 4: raw text in, raw text out, one line for each line (or its n best, or a JSON object)."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.artifacts import hash_file
from mtkit.decoding.format import Format
from mtkit.decoding.lines import (
    count_lines,
    decode_lines,
    input_lines,
    open_input,
    open_output,
    prompted_lines,
    read_windows,
    without_first,
)
from mtkit.decoding.parts import Translation
from mtkit.decoding.resume import open_resumable
from mtkit.decoding.splitting import LONGEST
from mtkit.decoding.translator import Translator
from mtkit.errors import UserError
from mtkit.report import progress, warn


@dataclass(frozen=True)
class Files:
    """Where text comes from and where its translation goes."""

    input: Path | None = None
    """None: standard input, or a prompt for lines where that is a terminal."""
    output: Path | None = None
    """None: standard output. A file appears when it is complete."""
    prefixes: Path | None = None
    """A line for each line of the input: how its translation begins, or nothing."""
    resume: bool = False
    """Whether to go on where a command that was interrupted stopped; only from file to file."""

    def __post_init__(self) -> None:
        if self.resume and self.resumable is None:
            raise UserError(
                "--resume: needs a text file as INPUT, and -o with the file to go on with"
            )
        if self.prefixes and self.input and self.prefixes.is_file() and self.input.is_file():
            begun, lines = count_lines(self.prefixes), count_lines(self.input)
            if begun != lines:
                raise UserError(
                    f"--prefix: {self.prefixes} has {begun:,} lines, {self.input} {lines:,}: "
                    "line n of one must begin the translation of line n of the other"
                )

    @property
    def resumable(self) -> tuple[Path, Path] | None:
        """Input and output, if what is done of it can be known after an interruption."""
        if self.input is None or self.output is None or not self.input.is_file():
            return None
        is_file = self.output.is_file() or not self.output.exists()
        return (self.input, self.output) if is_file else None


def translate(translator: Translator, files: Files, form: Format) -> None:
    """Translates lines as they come, and writes them in the form that is asked for.

    Raises UserError before any work, and BrokenPipeError once nobody reads on.
    """
    truncated = 0
    with (
        open_input(files.input) as source,
        _open_target(files, translator, form) as (target, done),
        _shown(files, done) as advance,
    ):
        number = done
        for window in _answers(translator, files, source, done):
            for translation in window:
                number += 1
                truncated += translation.truncated
                target.write(form.write(number, translation).encode())
            target.flush()
            advance(len(window))
    if truncated:
        warn(
            f"{truncated} of {number} translations may be incomplete: they reached max_length "
            f"{translator.settings.max_length}, or their line has over {LONGEST:,} characters"
        )


@contextmanager
def _open_target(
    files: Files, translator: Translator, form: Format
) -> Iterator[tuple[BinaryIO, int]]:
    """The output, and how many lines it has already: only from file to file can there be any."""
    if files.resumable is not None:
        input, output = files.resumable
        asked = _asked(input, files.prefixes, translator, form)
        with open_resumable(output, asked, rows=form.rows, resume=files.resume) as opened:
            yield opened
        return
    with open_output(files.output) as target:
        yield target, 0


def _answers(
    translator: Translator, files: Files, source: io.BufferedIOBase, done: int
) -> Iterator[list[Translation]]:
    """At a terminal, line by line to the one who types; else all lines but those that are done."""
    if files.input is not None or not source.isatty():
        windows = without_first(done, decode_lines(read_windows(source)))
        prefixes = islice(input_lines(files.prefixes), done, None) if files.prefixes else None
        yield from translator.stream(windows, prefixes=prefixes, first=done)
        return
    if files.prefixes is not None:
        raise UserError("--prefix: goes with text from a file or a pipe, not with what is typed")
    for number, line in enumerate(prompted_lines()):
        yield from translator.stream([[line]], first=number)


def _asked(
    input: Path, prefixes: Path | None, translator: Translator, form: Format
) -> dict[str, Any]:
    """All that the output for a file depends on, by names that people know."""
    sampling = translator.request.sampling
    return {
        "the input": hash_file(input),
        "the prefixes": hash_file(prefixes) if prefixes else None,
        "the model": translator.identity,
        "the engine": translator.engine.name,
        "the settings": translator.settings.model_dump(),
        "the form of the output": asdict(form),
        "the sampling": sampling.model_dump() if sampling else None,
    }


@contextmanager
def _shown(files: Files, done: int) -> Iterator[Callable[[int], None]]:
    """Progress through a file, unless the translations themselves show it on the terminal."""
    to_terminal = files.output is None and sys.stdout.buffer.isatty()
    if files.input is None or not files.input.is_file() or to_terminal:
        yield lambda lines: None
        return
    with progress("translating", count_lines(files.input), "lines") as shown:
        shown.advance(done)
        began = time.monotonic()

        def advance(lines: int) -> None:
            rate = (shown.count + lines - done) / max(time.monotonic() - began, 1e-3)
            shown.advance(lines, f"{rate:,.0f} lines/s")

        yield advance
