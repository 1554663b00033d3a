"""A translation memory: the baseline that copies the target of the most similar training source.

A model that is no better than this baseline does no more than a look-up in the training data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from mtkit.batching.plan import Rows
from mtkit.batching.store import Store
from mtkit.progress import progress
from mtkit.tokenizer.codec import Tokenizer

BLOCK_SENTENCES, BLOCK_PAIRS = 1024, 4096
"""Numbers of sentences and training pairs that are compared at once, to limit memory."""


@dataclass(frozen=True)
class MemoryTranslations:
    """What a translation memory makes of some sources."""

    targets: list[str]
    """For each source, the target of the most similar training source."""
    similarity: list[float]
    """How similar that training source is, from 0 to 1."""


def translate_by_memory(
    sources: list[str], store: Store, tokenizer: Tokenizer
) -> MemoryTranslations:
    """Find the training source that is most similar to each source, and copy its target.

    The similarity is the Dice coefficient of the sets of subwords. Each subword has a weight: the
    negative logarithm of its relative frequency in the training sources.
    """
    blocks = _divide(len(store))
    weights = _weigh_subwords(store, blocks, tokenizer.source_vocab)
    best_rows = np.zeros(len(sources), np.int64)
    similarity = np.zeros(len(sources), np.float32)
    starts = range(0, len(sources), BLOCK_SENTENCES)
    with progress("searching the training data", len(starts) * len(store), "pairs") as bar:
        for start in starts:
            chosen = slice(start, start + BLOCK_SENTENCES)
            table = _weight_table(tokenizer.encode_source(sources[chosen]), weights)
            for rows in blocks:
                best, places = _similarity(store, rows, weights, table).max(dim=0)
                is_better = best.numpy() > similarity[chosen]
                best_rows[chosen][is_better] = rows[places.numpy()[is_better]]
                similarity[chosen] = np.maximum(similarity[chosen], best.numpy())
                bar.advance(len(rows))
    tokens, lengths = store.side(best_rows, target=True)
    ends = lengths.cumsum()[:-1]
    targets = [ids.tolist() for ids in np.split(tokens, ends)]
    return MemoryTranslations(tokenizer.decode(targets), similarity.tolist())


def _divide(pairs: int) -> list[Rows]:
    """Return the rows of a store, block by block."""
    rows = np.arange(pairs)
    return [rows[start : start + BLOCK_PAIRS] for start in range(0, pairs, BLOCK_PAIRS)]


def _weigh_subwords(store: Store, blocks: Sequence[Rows], vocabulary: int) -> Tensor:
    """Return the weight of each subword by its id, (V,)."""
    # Start from 1, so that a subword that training lacks has a weight.
    counts = np.ones(vocabulary)
    for rows in blocks:
        ids, _ = store.side(rows, target=False)
        counts += np.bincount(ids, minlength=vocabulary)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()


def _weight_table(sentences: Sequence[Sequence[int]], weights: Tensor) -> Tensor:
    """Return the weight of each subword in each sentence; 0 if the sentence lacks it. (V, B)."""
    table = weights.new_zeros(len(weights), len(sentences))
    for column, ids in enumerate(sentences):
        table[ids, column] = weights[ids]
    return table


def _similarity(store: Store, rows: Rows, weights: Tensor, table: Tensor) -> Tensor:
    """Return the similarity of the sources of `rows` to the sentences of `table`, (k, B)."""
    ids, lengths = store.side(rows, target=False)
    # Count a subword once per sentence: number the combinations of pair and id, and drop doubles.
    pair_of_id = np.repeat(np.arange(len(rows)), lengths)
    combinations = np.unique(pair_of_id * len(weights) + ids)
    pairs, distinct_ids = np.divmod(combinations, len(weights))
    starts = torch.from_numpy(np.searchsorted(pairs, np.arange(len(rows))))
    subwords = torch.from_numpy(distinct_ids)
    common = embedding_bag(subwords, table, starts, mode="sum")
    pair_weight = embedding_bag(subwords, weights[:, None], starts, mode="sum")
    total = pair_weight + table.sum(dim=0)
    # Two empty sentences have nothing in common: 0, not 0/0.
    return 2 * common / total.clamp(min=1e-9)
