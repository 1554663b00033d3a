"""Stage 4: raw text in, raw text out, one line for each line (or its n best, or a JSON object)."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from mtkit.artifacts import hash_file
from mtkit.config.decoding import SamplingSettings
from mtkit.decoding.format import Format
from mtkit.decoding.lines import (
    count_lines,
    decode_lines,
    open_input,
    open_output,
    prompted_lines,
    read_windows,
    without_first,
)
from mtkit.decoding.resume import open_resumable
from mtkit.decoding.splitting import LONGEST
from mtkit.decoding.translator import Translation, Translator
from mtkit.errors import UserError
from mtkit.report import progress, warn


def translate(
    model: str | None = None,
    input: Path | None = None,
    output: Path | None = None,
    *,
    beam: int | None = None,
    n_best: int | None = None,
    length_penalty: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    sampling: SamplingSettings | None = None,
    alignments: bool = False,
    jsonl: bool = False,
    device: str = "auto",
    engine: str = "auto",
    compute_type: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    resume: bool = False,
) -> None:
    """Translates the lines of a file or of standard input as they come; None: the model's own.

    With `n_best` each line becomes that many, each of the number of the input line, the score and
    the text, separated by tabs. `alignments` adds a tab and the links between source and target
    words in Pharaoh format; in JSON their weights, too. An output file appears when it is complete;
    with `resume` it goes on where a command that was interrupted stopped. At a terminal, with no
    input, a prompt asks for lines. Raises UserError before any work, and BrokenPipeError once
    nobody reads on.
    """
    if resume and not _can_go_on(input, output):
        raise UserError("--resume: needs a text file as INPUT, and -o with the file to go on with")
    if engine == "auto" and (sampling is not None or alignments):
        engine = "torch"  # the other has neither
    with open_input(input) as source:
        translator = Translator.load(
            model,
            device,
            engine=engine,
            compute_type=compute_type,
            workers=workers,
            threads=threads,
            beam=beam,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
        )
        shape = Format(n_best, jsonl, alignments)
        ask = partial(
            translator.stream, n_best=n_best or 1, sampling=sampling, alignments=alignments
        )
        truncated = 0
        asked = _asked(translator, shape, sampling)
        with (
            _open_target(input, output, asked, shape.rows, resume) as (target, done),
            _shown(input, output, done) as advance,
        ):
            number = done
            at_terminal = input is None and source.isatty()
            for window in _answers(ask, source, done, at_terminal=at_terminal):
                for translation in window:
                    number += 1
                    truncated += translation.truncated
                    target.write(shape.write(number, translation).encode())
                target.flush()
                advance(len(window))
    if truncated:
        warn(
            f"{truncated} of {number} translations may be incomplete: they reached max_length "
            f"{translator.settings.max_length}, or their line has over {LONGEST:,} characters"
        )


@contextmanager
def _open_target(
    input: Path | None,
    output: Path | None,
    asked: Callable[[Path], dict[str, Any]],
    rows: int,
    resume: bool,
) -> Iterator[tuple[BinaryIO, int]]:
    """The output, and how many lines it has already: only from file to file can there be any."""
    if input and output and _can_go_on(input, output):
        with open_resumable(output, asked(input), rows=rows, resume=resume) as opened:
            yield opened
        return
    with open_output(output) as target:
        yield target, 0


def _answers(
    ask: Callable[..., Iterator[list[Translation]]],
    source: io.BufferedIOBase,
    done: int,
    *,
    at_terminal: bool,
) -> Iterator[list[Translation]]:
    """At a terminal, line by line to the one who types; else all lines but those that are done."""
    if not at_terminal:
        yield from ask(without_first(done, decode_lines(read_windows(source))), first=done)
        return
    for number, line in enumerate(prompted_lines()):
        yield from ask([[line]], first=number)


def _can_go_on(input: Path | None, output: Path | None) -> bool:
    if input is None or output is None:
        return False
    return input.is_file() and (output.is_file() or not output.exists())


def _asked(
    translator: Translator, shape: Format, sampling: SamplingSettings | None
) -> Callable[[Path], dict[str, Any]]:
    """All that the output for a file depends on, by names that people know."""
    return lambda input: {
        "the input": hash_file(input),
        "the model": translator.identity,
        "the engine": translator.engine.name,
        "the settings": translator.settings.model_dump(),
        "the form of the output": asdict(shape),
        "the sampling": sampling.model_dump() if sampling else None,
    }


@contextmanager
def _shown(input: Path | None, output: Path | None, done: int) -> Iterator[Callable[[int], None]]:
    """Progress through a file, unless the translations themselves show it on the terminal."""
    if input is None or not input.is_file() or (output is None and sys.stdout.buffer.isatty()):
        yield lambda lines: None
        return
    with progress("translating", count_lines(input), "lines") as shown:
        shown.advance(done)
        began = time.monotonic()

        def advance(lines: int) -> None:
            rate = (shown.count + lines - done) / max(time.monotonic() - began, 1e-3)
            shown.advance(lines, f"{rate:,.0f} lines/s")

        yield advance
