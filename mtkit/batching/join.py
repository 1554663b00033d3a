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
            repeated = [np.zeros(len(store), np.bool_) for store in stores]
            if parts.config.batching.deduplicate:
                repeated = find_repeated(stores)
            for store, is_repeated in zip(stores, repeated, strict=True):
                rows = store.read(parts.vocab, ~is_repeated)
                append(rows.tokens, rows.lengths, rows.corpora)
                counts.add(rows.lengths, is_hinted=name == HINTED)
                bar.advance()
            if name == PLAIN:
                _count_repeated(parts, stores, repeated, counts)
    return counts


def say_tag_words(parts: Parts, encoded: Sequence[Artifact]) -> None:
    """Say which tags are also words of the sources."""
    tag_words = TagWords(parts.config.data.train)
    for part in encoded:
        tag_words.merge(read_json(part.file(REPORT))["tag_words"])
    for message in tag_words.messages():
        say(message)


def _count_repeated(
    parts: Parts,
    stores: Sequence[PartStore],
    repeated: Sequence[NDArray[np.bool_]],
    counts: Counts,
) -> None:
    """Count the repeated pairs; the examples among them are read again from the corpora.

    `repeated`: for each store, whether each of its rows is repeated.
    """
    count = sum(int(is_repeated.sum()) for is_repeated in repeated)
    if not count:
        return
    examples: list[dict[str, str]] = []
    for number, (store, is_repeated) in enumerate(zip(stores, repeated, strict=True), 1):
        missing = EXAMPLES_PER_REASON - len(examples)
        if not missing:
            break
        first_row = parts.rows_of(number).start
        for position in store.find_positions(np.flatnonzero(is_repeated)[:missing]):
            row = first_row + position
            (pair,) = parts.rows.read(range(row, row + 1))
            examples.append(pair.excerpt())
    counts.dropped.add_many("duplicate", count, examples)
