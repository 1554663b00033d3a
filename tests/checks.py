"""Check a corpus that is not read yet."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from mtkit.config.corpora import Corpus
from mtkit.corpus.check import CorpusReport, check_rows
from mtkit.corpus.statistics import Languages
from mtkit.corpus.store import temporary_rows


def check_corpus(
    corpora: Corpus | list[Corpus],
    languages: Languages = (None, None),
    held_out: AbstractSet[int] = frozenset(),
    *,
    is_training: bool = True,
) -> CorpusReport:
    with temporary_rows(corpora, allow_unequal=True) as rows:
        return check_rows(rows, languages, held_out, is_training=is_training)
