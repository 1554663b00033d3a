"""Sentence pairs from files or datasets, streamed: text in parallel files, tables, `datasets`.

Only a line feed ends a line. Sides of unequal length are an error, counted to the end of both.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from mtkit.artifacts import hash_file, sha256_of
from mtkit.config import Corpus, Paths, TableCorpus, TextCorpus
from mtkit.errors import UserError
from mtkit.report import warn

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
DEMO = "demo:"

Columns = tuple[str | int, str | int]


class Pair(NamedTuple):
    """A sentence and its translation, and where they come from."""

    source: str
    target: str
    corpus: int
    """Index in the list of corpora."""
    file: str
    line: int

    @property
    def where(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"


def read_pairs(corpora: Corpus | list[Corpus]) -> Iterator[Pair]:
    """All pairs, corpus after corpus; UserError for what cannot be read, paired, or is empty."""
    for index, corpus in enumerate(listed(corpora)):
        pair = None
        for pair in _pairs(corpus, index):
            yield pair
        if pair is None:
            raise UserError(f"{_name(corpus)}: empty: give a corpus with at least one pair")


def corpus_identity(corpora: Corpus | list[Corpus]) -> str:
    """Hash of the content and of the columns taken; paths and weights do not enter."""
    return sha256_of([_content(corpus) for corpus in listed(corpora)])


def listed(corpora: Corpus | list[Corpus]) -> list[Corpus]:
    return corpora if isinstance(corpora, list) else [corpora]


def resolve(path: str) -> Path:
    """The file meant: `demo:NAME` is a file of the demo that travels with the package."""
    if path.startswith(DEMO):
        return Path(str(files("mtkit.demo"))) / path.removeprefix(DEMO)
    return Path(path)


def read_lines(path: str) -> Iterator[str]:
    """Lines without their ends, plain or gzip; invalid UTF-8 is replaced, with one warning."""
    number = invalid = first_invalid = 0
    try:
        with _open(path) as file:
            if file.peek(3)[:3] == BYTE_ORDER_MARK:
                file.read(3)
            for number, raw in enumerate(file, 1):
                try:
                    line = raw.decode()
                except UnicodeDecodeError:
                    line = raw.decode(errors="replace")
                    invalid += 1
                    first_invalid = first_invalid or number
                yield line.rstrip("\r\n")
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UserError(f"{path}:{number + 1}: gzip damaged or cut short ({error})") from error
    if invalid:
        warn(f"{path}:{first_invalid}: invalid UTF-8 replaced ({invalid} such lines in the file)")


def text_at(record: Any, column: str, where: str) -> str:
    """The text of a record at a column, inside records with dots, as one line."""
    value = record
    for key in column.split("."):
        if not isinstance(value, Mapping) or key not in value:
            known = ", ".join(_columns(record)) or "none"
            raise UserError(f"{where}: no column {column!r}; there are: {known}")
        value = value[key]
    if not isinstance(value, str):
        raise UserError(f"{where}: column {column!r} holds {type(value).__name__}, not text")
    # JSON can spell half of a surrogate pair, which no UTF-8 file can hold.
    return value.encode(errors="replace").decode().rstrip("\r\n").replace("\n", " ")


def _pairs(corpus: Corpus, index: int) -> Iterator[Pair]:
    match corpus:
        case TextCorpus():
            return _text_pairs(corpus, index)
        case TableCorpus():
            return _table_pairs(corpus, index)
        case _:
            from mtkit.batching import hub  # `datasets` takes seconds to import

            return hub.read_pairs(corpus, index)


def _text_pairs(corpus: TextCorpus, index: int) -> Iterator[Pair]:
    sources, targets = _paths(corpus.source), _paths(corpus.target)
    if len(sources) != len(targets):
        raise UserError(
            f"{_name(corpus)}: {len(sources)} source files for {len(targets)} target files"
        )
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


def _table_pairs(corpus: TableCorpus, index: int) -> Iterator[Pair]:
    columns = (corpus.source_column, corpus.target_column)
    for path in _paths(corpus.table):
        pair_in = _table_format(path, columns)
        for number, line in enumerate(read_lines(path), 1):
            source, target = pair_in(line, columns, f"{path}:{number}")
            yield Pair(source, target, index, path, number)


def _pair_in_tsv(line: str, columns: Columns, where: str) -> tuple[str, str]:
    cells = line.split("\t")
    try:
        return cells[int(columns[0])], cells[int(columns[1])]
    except IndexError:
        wanted = f"columns {columns[0]} and {columns[1]} (counted from 0)"
        raise UserError(f"{where}: {wanted} are wanted, the line has {len(cells)}") from None


def _pair_in_jsonl(line: str, columns: Columns, where: str) -> tuple[str, str]:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise UserError(f"{where}: not JSON ({error})") from None
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


def _columns(record: Any, prefix: str = "") -> list[str]:
    """Names of all columns, those inside records with dots."""
    if not isinstance(record, Mapping):
        return [prefix.removesuffix(".")] if prefix else []
    return [name for key in record for name in _columns(record[key], f"{prefix}{key}.")]


def _open(path: str) -> BufferedReader:
    file = _existing(path)
    zipped = file.suffix == ".gz"
    try:
        with file.open("rb") as start:
            zipped = zipped or start.read(2) == GZIP_MAGIC
        return BufferedReader(gzip.open(file)) if zipped else file.open("rb")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _existing(path: str) -> Path:
    """The file meant, which is there."""
    file = resolve(path)
    if not file.exists():
        raise UserError(f"{path}: no such file")
    if file.is_dir():
        raise UserError(f"{path}: a folder, not a file")
    return file


def _content(corpus: Corpus) -> Any:
    match corpus:
        case TextCorpus():
            return [
                [hash_file(_existing(path)) for path in _paths(side)]
                for side in (corpus.source, corpus.target)
            ]
        case TableCorpus():
            columns = [corpus.source_column, corpus.target_column]
            return [[hash_file(_existing(path)) for path in _paths(corpus.table)], columns]
        case _:
            from mtkit.batching import hub

            return hub.content(corpus)


def _paths(paths: Paths) -> list[str]:
    return [paths] if isinstance(paths, str) else paths


def _name(corpus: Corpus) -> str:
    match corpus:
        case TextCorpus():
            return f"{', '.join(_paths(corpus.source))} and {', '.join(_paths(corpus.target))}"
        case TableCorpus():
            return ", ".join(_paths(corpus.table))
        case _:
            return corpus.dataset
