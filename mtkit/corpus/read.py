"""Read the pairs of a corpus, as a stream: two parallel texts, a table, or a dataset."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from mtkit.artifacts.manifest import hash_file, sha256_of
from mtkit.config.base import Paths
from mtkit.config.corpora import Corpus, DatasetCorpus, TableCorpus, TextCorpus, listed
from mtkit.corpus.files import count_lines, existing_file, listed_paths, read_lines
from mtkit.corpus.importers import Texts, find_importer, name_suffixes, place_of
from mtkit.corpus.text import is_blank, normalise
from mtkit.errors import UserError
from mtkit.plugins import load_plugin
from mtkit.report import plural

MAX_EXCERPT = 80
"""Largest number of characters of a side that an example shows."""
CHUNK_PAIRS = 1024
CHUNK_CHARACTERS = 1 << 20
"""Number of characters after which a chunk is full, so that long lines do not fill memory."""


class Pair(NamedTuple):
    """A sentence and its translation, with file and line."""

    source: str
    target: str
    corpus: int
    """Index of the corpus in the list of corpora, from 0."""
    file: str
    line: int
    """The number of the line, or of the row of a table, from 1."""
    tag: str | None = None
    """A word that the model reads before the source; rules ignore the tag."""
    target_tag: str | None = None
    """The name of the target tag, for several languages in one model."""

    @property
    def tagged(self) -> str:
        """The source with its tag, as the model reads it after the target tag."""
        return self.source if self.tag is None else f"{self.tag} {self.source}"

    @property
    def where(self) -> str:
        """The path of the file, and the number of the line or row."""
        return place_of(self.file, self.line)

    @property
    def blank(self) -> bool:
        """Whether a side has no visible character."""
        return is_blank(self.source) or is_blank(self.target)

    def excerpt(self, source_place: int = 0, target_place: int = 0) -> dict[str, str]:
        """Return the pair as an example: file and line, and parts of source and target.

        The parts show the given places; without places, the beginnings.
        """
        return {
            "where": self.where,
            "source": _part_of(self.source, source_place),
            "target": _part_of(self.target, target_place),
        }


def hash_of(pair: Pair) -> int:
    """Return a 64-bit hash of both texts that is the same in every process."""
    return hash_texts(pair.source.encode(errors="replace"), pair.target.encode(errors="replace"))


def hash_texts(source: bytes, target: bytes) -> int:
    """Return the 64-bit hash of the UTF-8 of both texts."""
    # Started with the length of the source, so that equal sides do not give two equal halves.
    return crc32(source) << 32 | crc32(target, len(source))


def _part_of(text: str, place: int) -> str:
    """Return up to MAX_EXCERPT characters of the text, with those at a place."""
    start = place - MAX_EXCERPT // 2
    if start > 0:
        text = f"…{text[start:]}"
    return text if len(text) <= MAX_EXCERPT else f"{text[: MAX_EXCERPT - 1]}…"


class UnequalSidesError(UserError):
    """Two files have different numbers of lines; raised after all pairs were read."""

    def __init__(self, paths: tuple[str, str]) -> None:
        source, target = paths
        source_lines = plural(count_lines(source), "line")
        self.lengths = f"{source} has {source_lines}, but {target} has {count_lines(target):,}"
        command = shlex.join(["mtkit", "check", source, target])
        super().__init__(f"{self.lengths}; find where they diverge with `{command}`")


def read_pairs(corpora: Corpus | list[Corpus]) -> Iterator[Pair]:
    """Yield all pairs, normalised, corpus after corpus.

    Raises:
        UserError: a corpus cannot be read or is empty, or its sides have different lengths.
    """
    for index, corpus in enumerate(listed(corpora)):
        yield from read_corpus(corpus, index)


def read_corpus(corpus: Corpus, index: int = 0) -> Iterator[Pair]:
    """Yield the pairs of a corpus, which get its `index` in the list of corpora.

    Errors are as in `read_pairs`.
    """
    is_empty = True
    for path, line, source, target in _import(corpus):
        is_empty = False
        yield Pair(
            source=normalise(source),
            target=normalise(target),
            corpus=index,
            file=path,
            line=line,
            tag=corpus.tag,
            target_tag=corpus.target_tag,
        )
    if is_empty:
        # Both sides may be the same file.
        names = dict.fromkeys(", ".join(paths) for paths in sides_of(corpus))
        raise UserError(f"{' and '.join(names)} is empty; give a corpus with at least one pair")


def _import(corpus: Corpus) -> Iterator[tuple[str, int, str, str]]:
    """Yield the file, row or line, source and target of each pair, as the files have them."""
    match corpus:
        case TextCorpus():
            for source_path, target_path in _pair_files(corpus):
                yield from _read_texts(source_path, target_path)
        case TableCorpus():
            for path in listed_paths(corpus.table):
                yield from _read_table(corpus, path)
        case DatasetCorpus():
            yield from load_plugin("actions", "read_dataset")(corpus)


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """Yield lists of up to CHUNK_PAIRS pairs, and of about CHUNK_CHARACTERS characters at most."""
    chunk: list[Pair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK_PAIRS or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk


def paths_of(corpus: Corpus) -> Iterator[Path]:
    """Yield all local files that a corpus may be read from, also those in a dataset's folder."""
    for side in sides_of(corpus):
        for path in map(Path, side):
            yield path
            yield from path.rglob("*")


def hash_corpora(
    corpora: Corpus | list[Corpus], setting: str, hash_text: Callable[[Path], str] = hash_file
) -> dict[str, str]:
    """Return hashes of the corpora of `setting`, such as data.train, by the settings in it.

    A hash covers the text, the columns and the tags, but neither paths nor weights. `hash_text`
    returns the hash of a file.

    Raises:
        UserError: a file cannot be read.
    """
    hashes: dict[str, str] = {}
    all_corpora = listed(corpora)
    for index, corpus in enumerate(all_corpora):
        name = f"{setting}.{index}" if len(all_corpora) > 1 else setting
        content = _content(corpus, hash_text)
        if corpus.tag is not None:
            content["tag"] = corpus.tag
        if corpus.target_tag is not None:
            content["target_tag"] = corpus.target_tag
        for key, value in content.items():
            hashes[f"{name}.{key}"] = sha256_of(value)
    return hashes


def name_of(corpus: Corpus) -> str:
    """Return the name of a corpus for messages: its first file, or the dataset."""
    first_side, *_ = sides_of(corpus)
    return first_side[0]


def sides_of(corpus: Corpus) -> list[list[str]]:
    """Return the paths of each side, or of both sides together."""
    match corpus:
        case TextCorpus():
            return [listed_paths(corpus.source), listed_paths(corpus.target)]
        case TableCorpus():
            return [listed_paths(corpus.table)]
    return [[corpus.dataset]]


def _content(corpus: Corpus, hash_text: Callable[[Path], str]) -> dict[str, Any]:
    """Return by setting what identifies the text: hashes of files, or a dataset's fingerprint."""

    def hash_files(paths: Paths) -> list[str]:
        return [hash_text(existing_file(path)) for path in listed_paths(paths)]

    if isinstance(corpus, TextCorpus):
        return {"source": hash_files(corpus.source), "target": hash_files(corpus.target)}
    columns = [corpus.source_column, corpus.target_column]
    if isinstance(corpus, TableCorpus):
        sheet = [] if corpus.sheet is None else [corpus.sheet]
        return {"table": [hash_files(corpus.table), columns, *sheet]}
    hash_dataset = load_plugin("actions", "hash_dataset")
    return {"dataset": [corpus.name, corpus.split, columns, hash_dataset(corpus, hash_text)]}


def _pair_files(corpus: TextCorpus) -> Iterator[tuple[str, str]]:
    """Yield each source file with its target file.

    Raises:
        UserError: source and target have different numbers of files.
    """
    sources = listed_paths(corpus.source)
    targets = listed_paths(corpus.target)
    if len(sources) != len(targets):
        raise UserError(
            f"data: source and target need equally many files, not {len(sources)} and "
            f"{len(targets)}"
        )
    yield from zip(sources, targets, strict=True)


def _read_texts(source_path: str, target_path: str) -> Texts:
    with (
        closing(read_lines(source_path)) as source_lines,
        closing(read_lines(target_path)) as target_lines,
    ):
        lines = zip_longest(source_lines, target_lines)  # None after the end of the shorter
        for number, (source, target) in enumerate(lines, start=1):
            if source is None or target is None:
                raise UnequalSidesError((source_path, target_path))
            yield source_path, number, source, target


def _read_table(corpus: TableCorpus, path: str) -> Texts:
    """Yield all rows except a header; a blank row is a blank pair."""
    importer = find_importer(path, corpus.sheet)
    if importer is None:
        raise UserError(f"{path}: the name of a table ends in {name_suffixes()}")
    return importer.read(path, (corpus.source_column, corpus.target_column))
