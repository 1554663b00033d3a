"""Sentence pairs as people keep them: text files, tables, datasets."""

from __future__ import annotations

from mtkit.corpus.pair import Pair
from mtkit.corpus.read import corpus_identity, listed, read_pairs

__all__ = ["Pair", "corpus_identity", "listed", "read_pairs"]
