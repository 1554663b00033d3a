"""`mtkit translate`: translate the lines of a file, and write text, n-best lists or JSON."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import (
    AbstractContextManager,
    contextmanager,
    nullcontext,
    redirect_stdout,
    suppress,
)
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice, repeat, starmap
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from mtkit.artifacts.manifest import hash_file
from mtkit.artifacts.output import check_output, is_stream, open_output
from mtkit.artifacts.storage import path_in_oserror
from mtkit.corpus.files import count_lines, input_lines, open_input, text_lines
from mtkit.corpus.importers import find_importer
from mtkit.decoding.api import Translator
from mtkit.decoding.estimation.verdict import FileVerdict
from mtkit.decoding.losses import Losses
from mtkit.decoding.text.line import Line, Translation
from mtkit.decoding.text.prefix import check_tag
from mtkit.errors import UserError
from mtkit.plugins import load_plugin
from mtkit.progress import Progress, progress
from mtkit.report import plural, say, warn

MAX_NAMED_LINES = 5
"""How many lines the warning about incomplete translations names at most."""

LineStream = Callable[[Iterator[Line]], Iterator[list[Translation]]]
"""Yields the translations of lines in order, several at a time."""


@dataclass(frozen=True)
class Files:
    """Input and output of `mtkit translate`."""

    input: Path | None = None
    """None: standard input; if that is a terminal, prompt for lines."""
    output: Path | None = None
    """None: standard output."""
    prefixes: Path | None = None
    """One line for each input line: the text that its translation begins with; may be blank."""
    column: str | None = None
    """If the input is a table: the column to translate, by name, letter or number."""
    sheet: str | None = None
    """The sheet of a spreadsheet; None: the importer chooses one."""
    glossary: Path | None = None
    """The file of terms, which the translator has read."""
    flags: Path | None = None
    """Where to write a JSON object for each input line, with its flags and its confidence."""
    document: Input | None = None
    """What an extra has read from the input, to be written with translations in their places."""

    def check(self) -> None:
        """Raise UserError if a file cannot be used, or the numbers of lines and prefixes differ."""
        if self.input and not os.path.exists(self.input):
            advice = "to translate a sentence, use: echo TEXT | mtkit translate"
            raise UserError(f"{self.input}: no such file; {advice}")
        importer = None if self.output is None else find_importer(str(self.output))
        if importer is not None and importer.has_sheets and self.column is None:
            raise UserError(f"{self.output}: the output is plain text; choose another name")
        inputs = [path for path in (self.input, self.prefixes) if path and path.is_file()]
        for output in filter(None, (self.output, self.flags)):
            if output.suffix in (".gz", ".zst"):
                raise UserError(
                    f"{output}: the output is plain text; choose a name without {output.suffix}"
                )
            check_output(output, [*inputs, self.glossary])
        if self.output and self.flags and not is_stream(self.flags):
            is_output = os.path.realpath(self.flags) == os.path.realpath(self.output)
            if is_output:
                raise UserError(f"{self.flags} is the output; choose another file for --flags")
        if len(inputs) == 2:
            lines, prefixes = (count_lines(str(path)) for path in inputs)
            if prefixes != lines:
                raise UserError(
                    f"{self.prefixes} has {plural(prefixes, 'line')}, but {self.input} {lines:,}; "
                    "give one prefix for each line (a blank line for none)"
                )


def translate_file(
    translator: Translator,
    path: str | Path,
    output: str | Path,
    *,
    all_texts: bool = False,
    min_confidence: float | None = None,
    memory: Sequence[str | Path] = (),
) -> None:
    """Translate a document or a text as `mtkit translate` does, with the options of the same names.

    Raises:
        UserError: the file cannot be read, or the output cannot be written.
    """
    open_document = load_plugin("actions", "open_document")
    document = open_document(Path(path), Path(output), all_texts, min_confidence, memory)
    translate(translator, Files(Path(path), Path(output), document=document), Format())


@dataclass(frozen=True)
class Format:
    """Format of the output for each input line."""

    n_best: int | None = None
    """Number of rows (line number, score, text); missing hypotheses have score -inf and no text."""
    jsonl: bool = False
    """Write a JSON object."""
    alignments: bool = False
    """Add links between words in Pharaoh format."""

    @property
    def rows(self) -> int:
        """Number of output lines for each input line."""
        return 1 if self.jsonl or self.n_best is None else self.n_best

    def format(self, number: int, translation: Translation) -> str:
        """Return the output for input line `number`, with line feeds."""
        ranked = [translation, *translation.alternatives]
        if self.jsonl:
            record = self._record(translation)
            if self.n_best is not None:
                record["n_best"] = [self._record(hypothesis) for hypothesis in ranked]
            return json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        if self.n_best is None and not self.alignments:
            return f"{translation.text}\n"
        missing = self.rows - len(ranked)
        rows = ranked + [Translation("", score=None)] * missing
        return "".join(self._row(number, translation) for translation in rows)

    def _row(self, number: int, translation: Translation) -> str:
        """Return a translation as fields with tabs between them."""
        fields: list[str] = []
        if self.n_best is not None:
            score = "-inf" if translation.score is None else f"{translation.score:.6f}"
            fields += [str(number), score]
        fields.append(translation.text.replace("\t", " "))
        if self.alignments:
            fields.append(to_pharaoh(translation.alignment))
        return "\t".join(fields) + "\n"

    def _record(self, translation: Translation) -> dict[str, Any]:
        record: dict[str, Any] = {
            "text": translation.text,
            "score": translation.score,
            "tokens": translation.tokens,
            "truncated": translation.truncated,
            **_record_estimate(translation),
        }
        if self.alignments:
            record["alignment"] = to_pharaoh(translation.alignment)
        return record


def _record_estimate(translation: Translation) -> dict[str, Any]:
    """Return the confidence and the flags of a translation as JSON, and the terms it lacks."""
    record = translation.estimate.record()
    if translation.missing_terms:
        record["missing_terms"] = translation.missing_terms
    return record


def _record_flags(number: int, translation: Translation) -> bytes:
    """Return what `--flags` writes for line `number`, from 1."""
    record = {"line": number, **_record_estimate(translation)}
    return json.dumps(record).encode() + b"\n"


def to_pharaoh(links: set[tuple[int, int]]) -> str:
    """Return links in the format of Pharaoh, fast_align and Marian, such as `0-0 1-2 2-1`."""
    return " ".join(f"{i}-{j}" for i, j in sorted(links))


class Input(ABC):
    """What is translated line by line, or row by row, and how each translation is written."""

    unit: ClassVar[str]
    """What messages count."""

    @property
    def is_typed(self) -> bool:
        """Whether someone types the lines at a terminal."""
        return False

    @property
    def is_resumable(self) -> bool:
        """Whether the complete lines of a partial output can be counted."""
        return True

    @abstractmethod
    def count(self) -> int | None:
        """Return the number of lines to translate; None if they can be read only once."""

    @abstractmethod
    def lines(self, done: int) -> Iterator[Line]:
        """Yield the lines to translate after the first `done` of them."""

    @abstractmethod
    def output(self, number: int, translation: Translation) -> bytes:
        """Return what is written for line `number`, from 1; call it for each line in order."""

    @abstractmethod
    def line_counts(self) -> Iterator[int]:
        """Yield for each line the number of lines that are written."""

    def prepare(self, translator: Translator) -> None:  # noqa: B027 - most inputs need nothing
        """Ask the translator for what else is written than its translations."""

    def end(self) -> bytes:
        """Return what is written after the last line."""
        return b""


@dataclass(frozen=True)
class TextInput(Input):
    """The lines of a file or stream."""

    source: io.BufferedReader
    files: Files
    form: Format
    unit: ClassVar[str] = "line"

    @property
    def is_typed(self) -> bool:
        return self.files.input is None and self.source.isatty()

    def count(self) -> int | None:
        path = self.files.input
        return count_lines(str(path)) if path is not None and path.is_file() else None

    def lines(self, done: int) -> Iterator[Line]:
        prefixes = self.files.prefixes
        texts = text_lines(self.source, str(self.files.input or "stdin"))
        begins: Iterator[str] = input_lines(prefixes) if prefixes else repeat("")
        try:
            pairs = enumerate(zip(texts, begins, strict=prefixes is not None))
            for number, (text, begin) in islice(pairs, done, None):
                yield Line(text, begin, number)
        except ValueError:
            raise UserError(
                f"{prefixes}: give one prefix for each line (a blank line for none)"
            ) from None

    def output(self, number: int, translation: Translation) -> bytes:
        return self.form.format(number, translation).encode()

    def line_counts(self) -> Iterator[int]:
        return repeat(self.form.rows)


@contextmanager
def _open_input(translator: Translator, files: Files, form: Format) -> Iterator[Input]:
    if files.document is not None:
        files.document.prepare(translator)
        yield files.document
        return
    if files.column is not None:
        importer = find_importer(str(files.input), files.sheet)
        assert importer is not None  # `--columns` is for such files
        yield importer.open_column(str(files.input), files.column, files.output)
        return
    with open_input(files.input) as source:
        yield TextInput(source, files, form)


def translate(
    translator: Translator, files: Files, form: Format, stream: LineStream | None = None
) -> None:
    """Translate lines as they arrive, with the translator's default request, and write the output.

    `stream`: what translates in place of `translator.stream`, such as a cluster.

    Raises:
        UserError: the files are not valid, or the engine does not support the request.
        BrokenPipeError: the reader of the output has closed it.
    """
    files.check()
    check_tag(translator.request.settings.tag, translator.tokenizer)
    with (
        _open_input(translator, files, form) as text,
        open_output(
            files.output,
            _dependencies(translator, files, form, text),
            line_counts=text.line_counts(),
        ) as (target, done),
        open_output(files.flags) if files.flags else nullcontext((None, 0)) as (flags, _),
        _progress(files, text) as shown,
    ):
        _say_start(translator, files, form)
        tally = _Tally(translator, text, start=done)
        if done:
            say(f"{files.output}: resuming after {text.unit} {tally.start:,}")
        shown.advance(done)
        for translations in _translations(translator, text, done, stream):
            numbered = list(enumerate(translations, start=tally.last + 1))
            _write(target, files.output, b"".join(starmap(text.output, numbered)))
            if flags is not None:
                _write(flags, files.flags, b"".join(starmap(_record_flags, numbered)))
            tally.count(translations)
            if text.is_typed:  # each warning below its line
                tally.warn_of_losses()
            shown.advance(len(translations), f"{tally.rate:,.0f} {text.unit}s/s")
        _write(target, files.output, text.end())
    if files.output:
        tally.say_end(files.output)
    tally.say_what_is_missing()


def _write(file: BinaryIO, path: Path | None, output: bytes) -> None:
    """Write to the file with this path; None: standard output."""
    with path_in_oserror(path or Path("stdout")):
        file.write(output)
        file.flush()


def _say_start(translator: Translator, files: Files, form: Format) -> None:
    """Say what translates, and why there is no confidence if the output should have it."""
    names = " + ".join(model.name for model in translator.models)
    say(f"translating with {names}, {translator.engine.name}")
    has_confidence = form.jsonl or files.flags is not None
    obstacle = translator.confidence_obstacle
    if has_confidence and obstacle:
        say(f"no confidence, because {obstacle}")


class _Tally:
    """Counts translations, and says at the end what they lack."""

    def __init__(self, translator: Translator, text: Input, start: int) -> None:
        self.start = start
        """Number of lines that are skipped before the first one to translate."""
        self._unit = text.unit
        self._max_length = translator.request.settings.max_length
        self._began = time.monotonic()
        self._losses = Losses(start, text.unit)
        self._has_glossary = bool(translator.request.glossary)
        self._verdict = FileVerdict(translator.estimator.calibration, text.unit)
        self._truncated: list[int] = []
        """Numbers of lines whose translation was cut."""

    @property
    def last(self) -> int:
        """Number of the last line that was counted."""
        return self._losses.lines

    @property
    def rate(self) -> float:
        """Lines per second."""
        return (self.last - self.start) / max(time.monotonic() - self._began, 1e-3)

    def count(self, translations: Sequence[Translation]) -> None:
        """Count the translations of the next lines."""
        for number, translation in enumerate(translations, start=self.last + 1):
            if translation.truncated:
                self._truncated.append(number)
        self._verdict.add(translation.estimate for translation in translations)
        self._losses.count(translations)

    def warn_of_losses(self) -> None:
        """Warn of what the translations since the last call have lost."""
        for loss in self._losses.warnings():
            warn(loss)
        self._losses = Losses(self.last, self._unit)

    def say_end(self, output: Path) -> None:
        """Say how many lines were written, and how good they probably are."""
        seconds = time.monotonic() - self._began
        written = plural(self.last - self.start, self._unit)
        say(f"{output}: {written} written in {seconds:,.1f} s")
        where = f", after {self._unit} {self.start:,}" if self.start else ""
        for sentence in self._verdict.describe():
            say(f"{output}{where}: {sentence}")

    def say_what_is_missing(self) -> None:
        """Say which translations lacked a term, have lost something, or are incomplete."""
        if self._has_glossary and not self._losses.missing_terms:
            say(self._losses.describe_terms())
        self.warn_of_losses()
        if self._truncated:
            lines = ", ".join(map(str, self._truncated[:MAX_NAMED_LINES]))
            warn(
                f"{len(self._truncated):,} of {self.last - self.start:,} translations may be "
                f"incomplete (such as {self._unit} {lines}), because they reached max_length "
                f"{self._max_length}"
            )


def _dependencies(
    translator: Translator, files: Files, form: Format, text: Input
) -> dict[str, Any] | None:
    """Return what the output depends on, by name; None if a later command cannot continue it.

    It can if all are files, and there are no flags: those of earlier lines are not kept.
    """
    if files.input is None or files.output is None or files.flags or not text.is_resumable:
        return None
    inputs = [path for path in (files.input, files.prefixes) if path]
    if is_stream(files.output) or not all(path.is_file() for path in inputs):
        return None
    request = translator.request
    return {
        "the input": hash_file(files.input),
        "the prefixes": hash_file(files.prefixes) if files.prefixes else None,
        "the glossary": request.glossary.digest if request.glossary else None,
        "the model": " ".join(model.artifact.identity for model in translator.models),
        "the engine": translator.engine.name,
        "the settings": request.settings.model_dump(),
        "the form of the output": asdict(form) | {"column": files.column, "sheet": files.sheet},
        "the sampling": request.sampling.model_dump() if request.sampling else None,
    }


def _translations(
    translator: Translator, text: Input, done: int, stream: LineStream | None
) -> Iterator[list[Translation]]:
    """Yield the translations of all lines after the first `done`; typed lines one by one."""
    if text.is_typed:
        say("type a line to translate; Ctrl-D ends")
        typed_lines = iter(partial(ask, "> "), None)  # until Ctrl-D, when `ask` returns None
        for number, typed in enumerate(typed_lines):
            yield translator.submit([Line(typed, id=number)]).result()
    else:
        yield from (stream or translator.stream)(text.lines(done))


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


def _progress(files: Files, text: Input) -> AbstractContextManager[Progress]:
    """Show progress through the input file, unless the translations appear on the terminal."""
    to_terminal = files.output is None and sys.stdout.buffer.isatty()
    total = None if to_terminal else text.count()
    if total is None:
        return nullcontext(Progress("", None, ""))
    return progress("translating", total, f"{text.unit}s")
