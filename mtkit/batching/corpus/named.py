"""A corpus as it is named on a command line: two texts, a table, or a dataset."""

from __future__ import annotations

from pathlib import PurePath

from mtkit.config.corpora import Corpus, DatasetCorpus, TableCorpus, TextCorpus
from mtkit.errors import UserError


def named_corpus(source: str, target: str | None, columns: tuple[str, str] | None) -> Corpus:
    """Raises UserError where it is not clear what is meant."""
    if target is not None:
        if columns is not None:
            raise UserError("--columns: only of one table or dataset, not of two texts")
        return TextCorpus(source=source, target=target)
    suffix = PurePath(source.removesuffix(".gz")).suffix
    if suffix == ".tsv":
        first, second = columns or ("0", "1")
        if first.isdecimal() and second.isdecimal():
            return TableCorpus(table=source, source_column=int(first), target_column=int(second))
        return TableCorpus(table=source, source_column=first, target_column=second)
    if columns is None:
        raise UserError(
            f"{source}: name a second text, its translation; or --columns S T, where it is a "
            "table or a dataset"
        )
    if suffix == ".jsonl":
        return TableCorpus(table=source, source_column=columns[0], target_column=columns[1])
    return DatasetCorpus(dataset=source, source_column=columns[0], target_column=columns[1])
