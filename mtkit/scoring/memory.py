"""A translation memory: the baseline that copies the target of the most similar training source.

A model that is no better than this baseline does no more than a look-up in the training data.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding_bag

from mtkit.batching.store import Store
from mtkit.progress import progress
from mtkit.tokenizer.codec import Tokenizer

BLOCK_SENTENCES, BLOCK_PAIRS = 1024, 4096
"""Numbers of sentences and training pairs that are compared in one piece, to limit memory."""


def find_nearest(
    sources: list[str], store: Store, tokenizer: Tokenizer
) -> tuple[list[str], list[float]]:
    """Return for each source the target of the most similar training source, and the similarity.

    The similarity, 0 to 1, is the Dice coefficient of the sets of subwords. Each subword has a
    weight: the negative logarithm of its relative frequency in the training sources.
    """
    every = np.arange(len(store))
    blocks = [every[first : first + BLOCK_PAIRS] for first in range(0, len(store), BLOCK_PAIRS)]
    counts = np.ones(tokenizer.source_vocab)
    for pairs in blocks:
        counts += np.bincount(store.side(pairs, target=False)[0], minlength=len(counts))
    weights = torch.from_numpy(-np.log(counts / counts.sum())).float()
    rows = np.zeros(len(sources), np.int64)
    similarity = np.zeros(len(sources), np.float32)
    starts = range(0, len(sources), BLOCK_SENTENCES)
    with progress("searching the training data", len(starts) * len(store), "pairs") as bar:
        for start in starts:
            block = slice(start, start + BLOCK_SENTENCES)
            table = weights.new_zeros(len(weights), len(sources[block]))  # (V, B)
            for column, ids in enumerate(tokenizer.encode_source(sources[block])):
                table[ids, column] = weights[ids]
            for pairs in blocks:
                best, at = _similarity(store, pairs, weights, table).max(dim=0)
                is_better = best.numpy() > similarity[block]
                rows[block][is_better] = pairs[at.numpy()[is_better]]
                similarity[block] = np.maximum(similarity[block], best.numpy())
                bar.advance(len(pairs))
    tokens, lengths = store.side(rows, target=True)
    targets = [ids.tolist() for ids in np.split(tokens, lengths.cumsum()[:-1])]
    return tokenizer.decode(targets), similarity.tolist()


def _similarity(store: Store, rows: NDArray[np.int64], weights: Tensor, table: Tensor) -> Tensor:
    """Return the similarity of the sources of `rows` to the sentences of `table`, (k, B)."""
    ids, lengths = store.side(rows, target=False)
    # Count a subword once per sentence: sort by pair and id, without duplicates.
    keys = np.unique(np.repeat(np.arange(len(rows)), lengths) * len(weights) + ids)
    pairs, distinct = np.divmod(keys, len(weights))
    offsets = torch.from_numpy(np.searchsorted(pairs, np.arange(len(rows))))
    bags = torch.from_numpy(distinct), offsets
    common, own = (
        embedding_bag(bags[0], of, bags[1], mode="sum") for of in (table, weights[:, None])
    )
    return 2 * common / (own + table.sum(dim=0)).clamp(min=1e-9)
