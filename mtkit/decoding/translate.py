"""Stage 4: raw text in, raw text out, one line for each line (or its n best, or a JSON object)."""

from __future__ import annotations

import io
import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import hash_file
from mtkit.artifacts.storage import path_in_oserror
from mtkit.corpus.files import count_lines
from mtkit.decoding.api import Translator
from mtkit.decoding.lines import ask, decode_lines, input_lines, open_input, read_windows
from mtkit.decoding.output import open_output
from mtkit.decoding.segment import Translation
from mtkit.decoding.sentences import LONGEST
from mtkit.errors import UserError
from mtkit.progress import Progress, progress
from mtkit.report import say, warn


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
        if self.resume and not self.is_resumable:
            raise UserError(
                "--resume: needs text files as INPUT and --prefix, where there is one, and -o with "
                "the file to go on with"
            )
        if self.output and self.output.suffix == ".gz":
            raise UserError(f"-o {self.output}: text is written plain: name it without .gz")
        for read in filter(None, (self.input, self.prefixes)):
            both_there = self.output and self.output.is_file() and read.exists()
            if self.output and both_there and self.output.samefile(read):
                raise UserError(f"{self.output}: is what is to be read: name another with -o")
        if self.prefixes and self.input and self.prefixes.is_file() and self.input.is_file():
            begun, lines = count_lines(str(self.prefixes)), count_lines(str(self.input))
            if begun != lines:
                raise UserError(
                    f"--prefix: {self.prefixes} has {begun:,} lines, {self.input} {lines:,}: "
                    "line n of one must begin the translation of line n of the other"
                )

    @property
    def is_resumable(self) -> bool:
        """Whether what is done can be known after an interruption."""
        read = (self.input, self.prefixes) if self.prefixes else (self.input,)
        if self.output is None or not all(path and path.is_file() for path in read):
            return False
        return self.output.is_file() or not self.output.exists()


@dataclass(frozen=True)
class Format:
    """What is written of each line."""

    n_best: int | None = None
    """So many rows, each of number, score and text."""
    jsonl: bool = False
    alignments: bool = False
    """With the links between source and target words in Pharaoh format; in JSON their weights."""

    @property
    def rows(self) -> int:
        """Lines written for a line of input."""
        return 1 if self.jsonl or self.n_best is None else self.n_best

    def write(self, number: int, translation: Translation) -> str:
        """Of line `number` an object, or the text alone, or fields between tabs for each row."""
        ranked = translation.n_best or [translation]
        if self.jsonl:
            record = self._record(translation)
            if self.n_best is not None:
                record["n_best"] = [self._record(hypothesis) for hypothesis in ranked]
            return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        if self.n_best is None and not self.alignments:
            return f"{translation.text}\n"
        lines = []
        for row in ranked:
            fields = [row.text.replace("\t", " ")]
            if self.n_best is not None:
                fields = [str(number), f"{row.score:.6f}", *fields]
            if self.alignments:
                fields.append(to_pharaoh(row.links))
            lines.append("\t".join(fields) + "\n")
        return "".join(lines)

    def _record(self, translation: Translation) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": translation.text,
            "score": translation.score if math.isfinite(translation.score) else None,
            "tokens": translation.tokens,
            "truncated": translation.truncated,
        }
        if self.alignments:
            record["alignment"] = to_pharaoh(translation.links)
            record["soft_alignment"] = translation.shares
        return record


def to_pharaoh(links: set[tuple[int, int]]) -> str:
    """As Pharaoh, fast_align and Marian write them, `0-0 1-2 2-1`, by the source words."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


def translate(translator: Translator, files: Files, form: Format) -> None:
    """Translates lines as they come, and writes them in the form that is asked for.

    Raises UserError before any work, and BrokenPipeError once nobody reads on.
    """
    truncated = 0
    with (
        open_input(files.input) as source,
        open_output(
            files.output, _asked(translator, files, form), rows=form.rows, resume=files.resume
        ) as (target, done),
        _progress(files) as shown,
    ):
        say(f"translating with {translator.engine.name}")
        if done:
            say(f"{files.output}: going on after line {done:,}")
        shown.advance(done)
        number, began = done, time.monotonic()
        for window in _answers(translator, files, source, done):
            rows = [form.write(*numbered).encode() for numbered in enumerate(window, number + 1)]
            with path_in_oserror(files.output or Path("stdout")):
                target.writelines(rows)
                target.flush()
            number += len(window)
            truncated += sum(translation.truncated for translation in window)
            rate = (number - done) / max(time.monotonic() - began, 1e-3)
            shown.advance(len(window), f"{rate:,.0f} lines/s")
    if truncated:
        warn(
            f"{truncated:,} of {number - done:,} translations may be incomplete: they reached "
            f"max_length {translator.settings.max_length}, or their line has over {LONGEST:,} "
            "characters"
        )


def _asked(translator: Translator, files: Files, form: Format) -> dict[str, Any] | None:
    """All that an output that can be resumed depends on, by names that people know."""
    if files.input is None or not files.is_resumable:
        return None
    sampling = translator.request.sampling
    return {
        "the input": hash_file(files.input),
        "the prefixes": hash_file(files.prefixes) if files.prefixes else None,
        "the model": translator.identity,
        "the engine": translator.engine.name,
        "the settings": translator.settings.model_dump(),
        "the form of the output": asdict(form),
        "the sampling": sampling.model_dump() if sampling else None,
    }


def _answers(
    translator: Translator, files: Files, source: io.BufferedIOBase, done: int
) -> Iterator[list[Translation]]:
    """At a terminal, line by line to the one who types; else all lines but those that are done."""
    if files.input is None and source.isatty():
        if files.prefixes is not None:
            raise UserError(
                "--prefix: goes with text from a file or a pipe, not with what is typed"
            )
        for number, line in enumerate(iter(partial(ask, "> "), None)):
            yield from translator.stream([[line[: LONGEST + 1]]], first=number)
        return
    windows = decode_lines(read_windows(source), skipped=done)
    if files.prefixes is None:
        yield from translator.stream(windows, first=done)
        return
    with closing(input_lines(files.prefixes)) as every_prefix:
        prefixes, name = islice(every_prefix, done, None), f"--prefix {files.prefixes}"
        yield from translator.stream(windows, prefixes=prefixes, first=done, name=name)


def _progress(files: Files) -> AbstractContextManager[Progress]:
    """Through a file, unless the translations themselves show it on the terminal."""
    to_terminal = files.output is None and sys.stdout.buffer.isatty()
    if files.input is None or not files.input.is_file() or to_terminal:
        return nullcontext(Progress("", None, ""))
    return progress("translating", count_lines(str(files.input)), "lines")
