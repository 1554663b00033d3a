"""All pairs of the corpora of a config: two parallel texts, a table, or a dataset; streamed.

Sides of unequal length are an error, counted to the end of both. A dataset is one of the Hugging
Face hub, or local files that the `datasets` library can load. What is local streams; what comes
from the hub is downloaded once and read from disk (memory-mapped) by every stage, so that no stage
sees another version or needs the network again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, NamedTuple

from mtkit.artifacts.manifest import sha256_of
from mtkit.config.corpora import Corpus, DatasetCorpus, TableCorpus, TextCorpus, listed
from mtkit.corpus.files import existing, listed_paths, measured, read_lines
from mtkit.corpus.tables import pair_reader, text_at
from mtkit.errors import MtkitError, UserError

SAVED_TO_DISK = ("state.json", "dataset_dict.json")
LOADERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
EXCERPT_CHARACTERS = 80
CHUNK_PAIRS = 1024
CHUNK_CHARACTERS = 1 << 20
"""Number of characters that fill a chunk too, so that long lines do not fill memory."""


class Pair(NamedTuple):
    """A sentence and its translation, and where they come from."""

    source: str
    target: str
    corpus: int
    """Place of its corpus in the list of corpora."""
    file: str
    line: int
    tag: str | None = None
    """What the model reads before the source, where that is marked; no rule sees it."""

    @property
    def tagged(self) -> str:
        """What the model reads."""
        return self.source if self.tag is None else f"{self.tag} {self.source}"

    @property
    def where(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"

    @property
    def blank(self) -> bool:
        """Whether a side is empty or has only spaces."""
        return not (self.source.strip() and self.target.strip())

    def excerpt(self) -> dict[str, str]:
        """Return the pair as an example: `where` it is, and the start of `source` and `target`."""
        source, target = (shorten(text) for text in (self.source, self.target))
        return {"where": self.where, "source": source, "target": target}


def shorten(text: str) -> str:
    """Return the text, cut after EXCERPT_CHARACTERS."""
    return text if len(text) <= EXCERPT_CHARACTERS else f"{text[: EXCERPT_CHARACTERS - 1]}…"


class UnequalSidesError(UserError):
    """Two files have unlike numbers of lines; raised after the pairs that there are."""

    def __init__(self, paths: tuple[str, str], lines: tuple[int, int]) -> None:
        self.lengths = f"{paths[0]} has {lines[0]:,} lines, {paths[1]} {lines[1]:,}"
        super().__init__(f"{self.lengths}: find where they diverge with `mtkit check`")


def read_pairs(corpora: Corpus | list[Corpus]) -> Iterator[Pair]:
    """All pairs, corpus after corpus; UserError for what cannot be read, paired, or is empty."""
    for index, corpus in enumerate(listed(corpora)):
        match corpus:
            case TextCorpus():
                pairs = _text_pairs(corpus, index)
            case TableCorpus():
                pairs = _table_pairs(corpus, index)
            case _:
                pairs = _dataset_pairs(corpus, index)
        pair = None
        for pair in pairs:
            yield pair
        if pair is None:
            name = " and ".join(dict.fromkeys(", ".join(side) for side in _sides(corpus)))
            raise UserError(f"{name}: empty: give a corpus with at least one pair")


def chunks(pairs: Iterable[Pair]) -> Iterator[list[Pair]]:
    """The pairs, so many at a time as fill CHUNK_PAIRS or CHUNK_CHARACTERS."""
    chunk: list[Pair] = []
    held = 0
    for pair in pairs:
        chunk.append(pair)
        held += len(pair.source) + len(pair.target)
        if len(chunk) == CHUNK_PAIRS or held >= CHUNK_CHARACTERS:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def files_of(corpora: Corpus | list[Corpus], setting: str) -> dict[str, Path]:
    """The files of texts and tables, by the names that `contents_of` has for them."""
    plain = [corpus for corpus in listed(corpora) if not isinstance(corpus, DatasetCorpus)]
    paths = (path for corpus in plain for side in _sides(corpus) for path in side)
    return {f"{setting}: {path}": Path(path) for path in paths}


def paths_of(corpus: Corpus) -> Iterator[Path]:
    """Everything local that a corpus is read from: what is in the folder of a dataset, too."""
    for side in _sides(corpus):
        for path in map(Path, side):
            yield path
            yield from path.rglob("*")


@dataclass(frozen=True)
class Contents:
    """What corpora hold."""

    identity: str
    """Hash of the content and of the columns taken; paths and weights do not enter."""
    told: dict[str, Any]
    """Size and hash of each file, by its name, for people."""


def contents_of(corpora: Corpus | list[Corpus], setting: str) -> Contents:
    """`setting` is what they are called by: data.train. UserError for what cannot be read."""
    told: dict[str, Any] = {}

    def hashed(file: Path, name: str) -> str:
        facts = told[f"{setting}: {name}"] = measured(file)
        return str(facts["sha256"])

    return Contents(sha256_of([_content(corpus, hashed) for corpus in listed(corpora)]), told)


def _sides(corpus: Corpus) -> list[list[str]]:
    """The paths of each side, where it has files of its own, else of both."""
    match corpus:
        case TextCorpus():
            return [listed_paths(corpus.source), listed_paths(corpus.target)]
        case TableCorpus():
            return [listed_paths(corpus.table)]
    return [[corpus.dataset]]


def _content(corpus: Corpus, hashed: Callable[[Path, str], str]) -> list[Any]:
    """What identifies the text: hashes of files, the fingerprint of a dataset of the hub."""
    tag = [[corpus.tag]] if corpus.tag is not None else []
    if not isinstance(corpus, DatasetCorpus):
        found: list[Any] = [
            [hashed(existing(path), path) for path in side] for side in _sides(corpus)
        ]
        if isinstance(corpus, TableCorpus):
            found.append([corpus.source_column, corpus.target_column])
        return found + tag
    chosen = [corpus.name, corpus.split, corpus.source_column, corpus.target_column, *tag]
    path = Path(corpus.dataset)
    with _explained(corpus):
        if path.is_file():
            return [*chosen, hashed(path, str(path))]
        if path.is_dir():
            inside = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
            # `datasets` leaves cache-….arrow beside what it has saved
            names = sorted(name.as_posix() for name in inside if not name.name.startswith("cache-"))
            return [*chosen, {name: hashed(path / name, f"{path}/{name}") for name in names}]
        return [*chosen, _load(corpus)._fingerprint]


def _text_pairs(corpus: TextCorpus, index: int) -> Iterator[Pair]:
    sources, targets = listed_paths(corpus.source), listed_paths(corpus.target)
    if len(sources) != len(targets):
        raise UserError(f"data: {len(sources)} source files for {len(targets)} target files")
    for paths in zip(sources, targets, strict=True):
        sides = [read_lines(path) for path in paths]
        for number, (source, target) in enumerate(zip_longest(*sides), 1):
            if source is None or target is None:
                more = [sum(1 for _ in side) for side in sides]
                counts = number - (source is None) + more[0], number - (target is None) + more[1]
                raise UnequalSidesError(paths, counts)
            yield Pair(source, target, index, paths[0], number, corpus.tag)


def _table_pairs(corpus: TableCorpus, index: int) -> Iterator[Pair]:
    """A pair for each line, but for one that names the columns; a blank line is a blank pair."""
    columns = (corpus.source_column, corpus.target_column)
    for path in listed_paths(corpus.table):
        lines = enumerate(read_lines(path), 1)
        pair_in = pair_reader(path, columns, lines)
        for number, line in lines:
            source, target = pair_in(line, f"{path}:{number}") if line.strip() else ("", "")
            yield Pair(source, target, index, path, number, corpus.tag)


def _dataset_pairs(corpus: DatasetCorpus, index: int) -> Iterator[Pair]:
    with _explained(corpus):
        for row, record in enumerate(_load(corpus), 1):
            where = f"{corpus.dataset}:{row}"
            source = text_at(record, corpus.source_column, where)
            target = text_at(record, corpus.target_column, where)
            yield Pair(source, target, index, corpus.dataset, row, corpus.tag)


@contextmanager
def _explained(corpus: DatasetCorpus) -> Iterator[None]:
    try:
        yield
    except MtkitError:
        raise
    except Exception as error:  # a dozen libraries below, each with errors of its own
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(f"{corpus.dataset}: `datasets` cannot load it: {reason}") from error


def _load(corpus: DatasetCorpus) -> Any:
    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars

    datasets.disable_progress_bars()
    disable_progress_bars()
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # what fails is told by our error
    path = Path(corpus.dataset)
    if any((path / name).is_file() for name in SAVED_TO_DISK):
        saved = datasets.load_from_disk(str(path))
        if not isinstance(saved, datasets.DatasetDict):
            saved = {str(saved.split or "train"): saved}
        if corpus.split not in saved:
            raise ValueError(f"no split {corpus.split!r}; there are: {', '.join(saved)}")
        return saved[corpus.split]
    # A slice of a split cannot be streamed.
    settings: dict[str, Any] = {
        "split": corpus.split,
        "streaming": path.exists() and "[" not in corpus.split,
    }
    if path.suffix == ".csv" and path.is_file():
        with path.open(encoding="utf-8", errors="replace") as file:
            names = file.readline()
        settings |= {
            "keep_default_na": False,  # None and null are words, an empty cell is a blank side
            "encoding_errors": "replace",  # as of text
            # Where numbers have a decimal comma, spreadsheets write semicolons.
            "sep": max(",;\t", key=names.count),
        }
    if path.is_file():
        if path.suffix not in LOADERS:
            raise ValueError(f"a file is one of {', '.join(LOADERS)}")
        return datasets.load_dataset(LOADERS[path.suffix], data_files=str(path), **settings)
    if path.exists() and not path.is_dir():
        raise ValueError("a pipe or device, neither a file nor a folder")
    return datasets.load_dataset(corpus.dataset, corpus.name, **settings)
