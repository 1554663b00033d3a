"""Sentence pairs from files, streamed: two parallel texts, or a table, plain or gzip.

Only a line feed ends a line. Sides of unequal length are an error, counted to the end of both. A
line over 1 MiB is no sentence: it is read as an empty one, so that memory is bounded whatever a
file (or the few bytes of a .gz) unfolds to.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from importlib.resources import files
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from mtkit.batching.corpus.pair import Pair, text_at
from mtkit.config.base import Paths
from mtkit.errors import UserError
from mtkit.report import warn

if TYPE_CHECKING:  # to translate, no settings of training are read
    from mtkit.config.settings import TableCorpus, TextCorpus

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
LINE_BYTES = 1 << 20
"""Number of bytes in a line, at most, its end included."""
DEMO = "demo:"

Columns = tuple[str | int, str | int]
Faults = dict[str, tuple[int, int]]
"""What was found in a file: the first such line, and how many there are."""


def resolve(path: str) -> Path:
    """The file meant: `demo:NAME` is a file of the demo that travels with the package."""
    if path.startswith(DEMO):
        return Path(str(files("mtkit.demo"))) / path.removeprefix(DEMO)
    return Path(path)


def read_lines(path: str) -> Iterator[str]:
    """Lines without their ends, plain or gzip.

    Invalid UTF-8 is replaced, and a line over LINE_BYTES is empty, with one warning of each.
    Raises UserError where the file cannot be read (again), or is a damaged gzip.
    """
    number = 0
    faults: Faults = {}
    try:
        with _open(path) as file:
            for number, raw in enumerate(_raw_lines(file), 1):
                if len(raw) > LINE_BYTES:
                    _note(faults, "longer than 1 MiB, read as an empty line", number)
                    raw = b""
                if number == 1:
                    raw = raw.removeprefix(BYTE_ORDER_MARK)
                try:
                    line = raw.decode()
                except UnicodeDecodeError:
                    _note(faults, "invalid UTF-8 replaced", number)
                    line = raw.decode(errors="replace")
                yield line.rstrip("\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        where = f"{path}:{number + 1}"
        raise UserError(f"{where}: gzip damaged or cut short ({error}): get it anew") from error
    for fault, (first, count) in faults.items():
        warn(f"{path}:{first}: {fault} ({count:,} such lines in the file)")


def _note(faults: Faults, fault: str, line: int) -> None:
    first, count = faults.get(fault, (line, 0))
    faults[fault] = first, count + 1


def _raw_lines(file: BufferedReader) -> Iterator[bytes]:
    """Lines with their ends; of one over LINE_BYTES, just enough to tell that it is."""
    while raw := file.readline(LINE_BYTES + 1):
        yield raw
        while len(raw) > LINE_BYTES and not raw.endswith(b"\n"):
            raw = file.readline(LINE_BYTES + 1)


def text_pairs(corpus: TextCorpus, index: int) -> Iterator[Pair]:
    sources, targets = listed_paths(corpus.source), listed_paths(corpus.target)
    if len(sources) != len(targets):
        raise UserError(f"data: {len(sources)} source files for {len(targets)} target files")
    for source, target in zip(sources, targets, strict=True):
        yield from _parallel_pairs(source, target, index)


def _parallel_pairs(source_path: str, target_path: str, index: int) -> Iterator[Pair]:
    sources, targets = read_lines(source_path), read_lines(target_path)
    for line, (source, target) in enumerate(zip_longest(sources, targets), 1):
        if source is None or target is None:
            rest = line + sum(1 for _ in (targets if source is None else sources))
            counts = (line - 1, rest) if source is None else (rest, line - 1)
            raise UserError(
                f"{source_path} has {counts[0]:,} lines, {target_path} {counts[1]:,}: "
                "line n of one must translate line n of the other"
            )
        yield Pair(source, target, index, source_path, line)


def table_pairs(corpus: TableCorpus, index: int) -> Iterator[Pair]:
    """A pair for each line; a blank line is a blank pair."""
    columns = (corpus.source_column, corpus.target_column)
    for path in listed_paths(corpus.table):
        pair_in = _table_format(path, columns)
        for number, line in enumerate(read_lines(path), 1):
            where = f"{path}:{number}"
            source, target = pair_in(line, columns, where) if line.strip() else ("", "")
            yield Pair(source, target, index, path, number)


def _pair_in_tsv(line: str, columns: Columns, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    try:
        return cells[int(columns[0])], cells[int(columns[1])]
    except IndexError:
        wanted = f"columns {columns[0]} and {columns[1]} (counted from 0)"
        found = f"{wanted} are wanted, the line has {len(cells)}"
        raise UserError(f"{where}: {found}: set source_column and target_column") from None


def _pair_in_jsonl(line: str, columns: Columns, where: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error}): a line must be an object") from None
    return text_at(record, str(columns[0]), where), text_at(record, str(columns[1]), where)


def _table_format(path: str, columns: Columns) -> Callable[[str, Columns, str], tuple[str, str]]:
    match PurePath(path.removesuffix(".gz")).suffix:
        case ".tsv" if all(isinstance(column, int) and column >= 0 for column in columns):
            return _pair_in_tsv
        case ".jsonl" if all(isinstance(column, str) for column in columns):
            return _pair_in_jsonl
        case ".tsv":
            raise UserError(f"{path}: columns of a .tsv are numbers counted from 0, not {columns}")
        case ".jsonl":
            raise UserError(f"{path}: columns of a .jsonl are keys, not {columns}")
        case other:
            raise UserError(f"{path}: a table is .tsv or .jsonl, plain or .gz, not {other!r}")


def _open(path: str) -> BufferedReader:
    file = existing(path)
    with file.open("rb") as start:
        zipped = file.suffix == ".gz" or start.read(2) == GZIP_MAGIC
    return BufferedReader(gzip.open(file)) if zipped else file.open("rb")


def existing(path: str) -> Path:
    """The file meant, which is there and can be read, more than once."""
    file = resolve(path)
    try:
        if not file.exists():
            raise UserError(f"{path}: no such file")
        if file.is_dir():
            raise UserError(f"{path}: a folder, not a file")
        if not file.is_file():
            raise UserError(f"{path}: a pipe or device; a corpus is read twice: write it to a file")
        with file.open("rb"):
            return file
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error


def listed_paths(paths: Paths) -> list[str]:
    return [paths] if isinstance(paths, str) else paths
