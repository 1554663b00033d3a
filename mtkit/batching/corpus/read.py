"""All pairs of the corpora of a config, whatever they are kept in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mtkit.artifacts import hash_file, sha256_of
from mtkit.batching.corpus.files import existing, listed_paths, table_pairs, text_pairs
from mtkit.batching.corpus.pair import Pair
from mtkit.config.settings import Corpus, TableCorpus, TextCorpus, listed
from mtkit.errors import UserError


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


def _pairs(corpus: Corpus, index: int) -> Iterator[Pair]:
    match corpus:
        case TextCorpus():
            return text_pairs(corpus, index)
        case TableCorpus():
            return table_pairs(corpus, index)
        case _:
            from mtkit.batching.corpus import hub

            return hub.read_pairs(corpus, index)


def _content(corpus: Corpus) -> Any:
    match corpus:
        case TextCorpus():
            return [
                [hash_file(existing(path)) for path in listed_paths(side)]
                for side in (corpus.source, corpus.target)
            ]
        case TableCorpus():
            columns = [corpus.source_column, corpus.target_column]
            return [[hash_file(existing(path)) for path in listed_paths(corpus.table)], columns]
        case _:
            from mtkit.batching.corpus import hub

            return hub.content(corpus)


def _name(corpus: Corpus) -> str:
    match corpus:
        case TextCorpus():
            sides = (", ".join(listed_paths(side)) for side in (corpus.source, corpus.target))
            return " and ".join(sides)
        case TableCorpus():
            return ", ".join(listed_paths(corpus.table))
        case _:
            return corpus.dataset
