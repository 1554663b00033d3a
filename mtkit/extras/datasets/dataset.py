"""Corpora that the `datasets` library loads.

A dataset is on the Hugging Face hub, or a local folder. A folder is streamed. A dataset of the hub
is downloaded once, so later stages need no network.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mtkit.config.corpora import DatasetCorpus
from mtkit.corpus.columns import text_at
from mtkit.corpus.importers import Texts
from mtkit.errors import MtkitError, UserError


def read_dataset(corpus: DatasetCorpus) -> Texts:
    """Yield the place, source and target of each record.

    Raises:
        UserError: the dataset cannot be loaded, or has no such columns.
    """
    with _dataset_errors(corpus):
        for number, record in enumerate(_load(corpus), 1):
            where = f"{corpus.dataset}:{number}"
            source = text_at(record, corpus.source_column, where)
            target = text_at(record, corpus.target_column, where)
            yield corpus.dataset, number, source, target


def hash_dataset(corpus: DatasetCorpus, hash_text: Callable[[Path], str]) -> Any:
    """Return what identifies the text: the hashes of the files of a folder, or a fingerprint.

    Raises:
        UserError: the dataset cannot be loaded.
    """
    folder = Path(corpus.dataset)
    with _dataset_errors(corpus):
        if not folder.is_dir():
            return _load(corpus)._fingerprint
        return {
            file.relative_to(folder).as_posix(): hash_text(file)
            for file in _files_of_dataset(folder)
        }


def _files_of_dataset(folder: Path) -> Iterator[Path]:
    for file in folder.rglob("*"):
        is_cache = file.name.startswith("cache-")  # `datasets` writes cache-….arrow there
        if file.is_file() and not is_cache:
            yield file


@contextmanager
def _dataset_errors(corpus: DatasetCorpus) -> Iterator[None]:
    """Re-raise the errors of `datasets` and the libraries it calls as UserErrors."""
    try:
        yield
    except MtkitError:
        raise
    except Exception as error:  # of any library that `datasets` calls for a format
        first_line, _, _ = str(error).partition("\n")
        reason = first_line or type(error).__name__
        raise UserError(
            f"{corpus.dataset}: the library `datasets` cannot load it ({reason})"
        ) from error


def _load(corpus: DatasetCorpus) -> Any:
    import datasets
    from huggingface_hub.utils.tqdm import disable_progress_bars

    datasets.disable_progress_bars()
    disable_progress_bars()
    for library in ("datasets", "huggingface_hub"):
        logging.getLogger(library).setLevel(logging.CRITICAL)
    path = Path(corpus.dataset)
    if path.exists() and not path.is_dir():
        raise ValueError("give a folder, or a table as `table`")
    is_slice = "[" in corpus.split  # such as train[:10], which cannot be streamed
    return datasets.load_dataset(
        corpus.dataset,
        corpus.name,
        split=corpus.split,
        streaming=path.exists() and not is_slice,
    )
