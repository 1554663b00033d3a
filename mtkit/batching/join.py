"""Join encoded parts to one token store, without repeated pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.storage import read_json
from mtkit.batching.counts import EXAMPLES_PER_REASON, Counts
from mtkit.batching.part_store import PartStore, find_repeated
from mtkit.batching.parts import HINTED, PLAIN, REPORT, Parts
from mtkit.batching.store import store_writer
from mtkit.corpus.tag_words import TagWords
from mtkit.progress import progress
from mtkit.report import say

IsRepeated = Sequence[NDArray[np.bool_]]
"""For each part, whether each of its rows is repeated: an equal row comes before it."""


def join_parts(parts: Parts, encoded: Sequence[Artifact], folder: Path) -> Counts:
    """Write the token store "train" from all encoded parts, and count its pairs.

    First come the pairs in the order of the corpora, then their second forms with hints.
    """
    counts = Counts()
    for part in encoded:
        counts.dropped.merge(read_json(part.file(REPORT))["dropped"])
    with (
        progress("joining", len(encoded) * len(parts.stores), "parts") as bar,
        store_writer(folder, "train", parts.vocab) as append,
    ):
        for name in parts.stores:
            stores = [PartStore(part, name) for part in encoded]
            is_repeated: IsRepeated = [np.zeros(len(store), np.bool_) for store in stores]
            if parts.config.batching.deduplicate:
                is_repeated = find_repeated(stores)
            for store, is_repeated_row in zip(stores, is_repeated, strict=True):
                rows = store.read(parts.vocab).select(~is_repeated_row)
                append(rows.tokens, rows.lengths, rows.corpora)
                counts.add(rows.lengths, are_hinted=name == HINTED)
                bar.advance()
            if name == PLAIN:
                _count_repeated(parts, stores, is_repeated, counts)
    return counts


def say_tag_words(parts: Parts, encoded: Sequence[Artifact]) -> None:
    """Say which tags are also words of the sources."""
    tag_words = TagWords(parts.config.data.train)
    for part in encoded:
        tag_words.merge(read_json(part.file(REPORT))["tag_words"])
    for message in tag_words.messages():
        say(message)


def _count_repeated(
    parts: Parts, stores: Sequence[PartStore], is_repeated: IsRepeated, counts: Counts
) -> None:
    """Count the repeated pairs; the examples among them are read again from the corpora."""
    count = 0
    examples: list[dict[str, str]] = []
    for number, (store, is_repeated_row) in enumerate(zip(stores, is_repeated, strict=True), 1):
        rows = np.flatnonzero(is_repeated_row)
        count += len(rows)
        missing = EXAMPLES_PER_REASON - len(examples)
        first_row = parts.rows_of(number).start
        for place in store.find_places(rows[:missing]):
            row = first_row + place
            (pair,) = parts.rows.read(range(row, row + 1))
            examples.append(pair.excerpt())
    if count:
        counts.dropped.add_many("duplicate", count, examples)
