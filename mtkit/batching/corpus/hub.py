"""Pairs from the `datasets` library: the Hugging Face hub, or local files it can load.

What is local streams; what comes from the hub is downloaded once and read from disk (memory-mapped)
by every stage, so that no stage sees another version or needs the network again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
from huggingface_hub.utils.tqdm import disable_progress_bars

from mtkit.artifacts import hash_file
from mtkit.batching.corpus.pair import Pair, text_at
from mtkit.config.settings import DatasetCorpus
from mtkit.errors import MtkitError, UserError

SAVED_TO_DISK = ("state.json", "dataset_dict.json")
LOADERS = {".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


def read_pairs(corpus: DatasetCorpus, index: int) -> Iterator[Pair]:
    """Pairs in the dataset's order; UserError where it cannot be loaded or lacks a column."""
    with _explained(corpus):
        for row, record in enumerate(_load(corpus), 1):
            where = f"{corpus.dataset}:{row}"
            source = text_at(record, corpus.source_column, where)
            target = text_at(record, corpus.target_column, where)
            yield Pair(source, target, index, corpus.dataset, row)


def content(corpus: DatasetCorpus) -> Any:
    """What identifies the text: hashes of local files, the fingerprint of a dataset of the hub."""
    chosen = [corpus.name, corpus.split, corpus.source_column, corpus.target_column]
    path = Path(corpus.dataset)
    with _explained(corpus):
        if path.is_file():
            return [*chosen, hash_file(path)]
        if path.is_dir():
            found = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
            # `datasets` leaves cache-….arrow beside what it has saved
            names = sorted(name.as_posix() for name in found if not name.name.startswith("cache-"))
            return [*chosen, {name: hash_file(path / name) for name in names}]
        return [*chosen, _load(corpus)._fingerprint]


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
    datasets.disable_progress_bars()
    disable_progress_bars()
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.CRITICAL)  # what fails is told by our error
    path = Path(corpus.dataset)
    streaming = "[" not in corpus.split  # a slice of a split cannot be streamed
    if any((path / name).is_file() for name in SAVED_TO_DISK):
        return _saved(path, corpus.split)
    if path.is_file():
        if path.suffix not in LOADERS:
            raise ValueError(f"a file is one of {', '.join(LOADERS)}")
        return datasets.load_dataset(
            LOADERS[path.suffix], data_files=str(path), split=corpus.split, streaming=streaming
        )
    if path.exists() and not path.is_dir():
        raise ValueError("a pipe or device, neither a file nor a folder")
    return datasets.load_dataset(
        corpus.dataset, corpus.name, split=corpus.split, streaming=streaming and path.is_dir()
    )


def _saved(path: Path, split: str) -> Any:
    saved = datasets.load_from_disk(str(path))
    if not isinstance(saved, datasets.DatasetDict):
        saved = {str(saved.split or "train"): saved}
    if split not in saved:
        raise ValueError(f"no split {split!r}; there are: {', '.join(saved)}")
    return saved[split]
