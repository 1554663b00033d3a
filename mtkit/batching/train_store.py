"""Write the token store "train": all encoded training pairs.

They are first written to a store with a hash of each pair. Then they are copied without repeated
pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.counts import Counts
from mtkit.batching.encode import Encoded
from mtkit.batching.store import Appender, Store, store_writer
from mtkit.batching.train_encoder import TrainEncoder
from mtkit.config.settings import Config, SetName
from mtkit.corpus.read import hash_texts
from mtkit.corpus.store import CorpusRows, find_repeated, map_numbers
from mtkit.progress import progress
from mtkit.tokenizer.codec import Tokenizer

ENCODED = "encoded"
"""The name of the first store."""
KEYED_ROW = np.dtype([("key", np.uint64), ("row", np.int64)])
"""A hash of a pair by which repeated pairs are found, and its row in the corpus store."""
COPIED_ROWS = 1 << 16
"""Number of rows that are copied at a time."""


def write_train(
    folder: Path,
    config: Config,
    tokenizer: Tokenizer,
    sets: Mapping[SetName, CorpusRows],
    cluster: str | None = None,
) -> Counts:
    """Write the token store "train", and return its counts; arguments are as in `build_batches`."""
    rows = sets["train"]
    counts = Counts()
    with (
        progress("encoding train", len(rows), "pairs") as bar,
        _writer(folder, tokenizer.vocab, rows) as append_chunk,
    ):
        for chunk in TrainEncoder.of(config, tokenizer, sets).encode_all(cluster):
            append_chunk(chunk, bar.count)
            for pair, reason in chunk.dropped:
                counts.dropped.add(pair, reason)
            bar.advance(chunk.pairs)
    keys = map_numbers(folder / f"{ENCODED}.keys", KEYED_ROW)
    is_repeated = np.zeros(len(keys), np.bool_)
    if config.batching.deduplicate:
        is_repeated = find_repeated(keys["key"])
    with store_writer(folder, "train", tokenizer.vocab) as append:
        _copy(folder, is_repeated, append, counts)
    for pair in rows.read(keys["row"][is_repeated]):
        counts.dropped.add(pair, "duplicate")
    # The batches are read without them.
    for file in folder.glob(f"{ENCODED}.*"):
        file.unlink()
    return counts


@contextmanager
def _writer(folder: Path, vocab: int, rows: CorpusRows) -> Iterator[Callable[[Encoded, int], None]]:
    """Yield a function that appends a chunk to the first store, and its keys to a file."""
    # Even equal pairs differ if their target tags do: a name may be the same in several languages.
    tags = [(corpus.target_tag or "").encode() for corpus in rows.corpora]
    tag_hashes = np.array([hash_texts(tag, tag) for tag in tags], np.uint64)
    with (
        store_writer(folder, ENCODED, vocab) as append_to_store,
        (folder / f"{ENCODED}.keys").open("wb") as keys_file,
    ):

        def append(chunk: Encoded, first_row: int) -> None:
            append_to_store(chunk.tokens, chunk.lengths, chunk.corpora)
            keys = np.empty(len(chunk.positions), KEYED_ROW)
            keys["row"] = first_row + chunk.positions
            keys["key"] = rows.keys[keys["row"]] ^ tag_hashes[chunk.corpora]
            keys_file.write(keys.tobytes())

        yield append


def _copy(folder: Path, is_repeated: NDArray[np.bool_], append: Appender, counts: Counts) -> None:
    """Append the pairs of the first store that are not repeated, and count them."""
    if not len(is_repeated):  # empty files cannot be opened
        return
    store = Store.open({file.name: file for file in folder.iterdir()}, ENCODED)
    for start in range(0, len(store), COPIED_ROWS):
        rows = slice(start, start + COPIED_ROWS)
        is_kept = ~is_repeated[rows]
        sizes = store.lengths[rows].sum(axis=1, dtype=np.int64)
        first = store.starts[start]
        tokens = store.tokens[first : first + sizes.sum()]
        lengths = store.lengths[rows][is_kept]
        append(tokens[np.repeat(is_kept, sizes)], lengths, store.corpora[rows][is_kept])
        counts.add(lengths)
