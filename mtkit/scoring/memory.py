"""A translation memory: the baseline that copies the target of the most similar training source.

A model that is no better than this baseline does no more than a look-up in the training data. The
baseline does not depend on the vocabulary of the model: it compares words, or characters if the
sources are written without spaces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from mtkit.corpus.read import Pair
from mtkit.corpus.rules import normalised
from mtkit.progress import Progress, progress
from mtkit.scoring.writing import Writing

BLOCK_SENTENCES, BLOCK_PAIRS = 1024, 4096
"""Numbers of sentences and training pairs that are compared at once, to limit memory."""
MAX_COMPARISONS = 250_000_000
"""Most comparisons of a sentence with a training source; they take about half a minute."""
MIN_SAMPLED, MAX_SAMPLED = 10_000, 250_000
"""Fewest and most training pairs that are compared, if there are more."""


def count_compared(sentences: int) -> int:
    """Return how many training pairs can be compared with so many sentences in bounded time."""
    size = MAX_COMPARISONS // max(1, sentences)
    return min(MAX_SAMPLED, max(MIN_SAMPLED, size))


@dataclass(frozen=True)
class _Terms:
    """The words, or characters, of sentences: distinct in each sentence, and numbered."""

    ids: np.ndarray
    """The terms of all sentences, one after another."""
    starts: np.ndarray
    """For each sentence, the place of its first term."""

    def block(self, start: int, end: int) -> tuple[Tensor, Tensor]:
        """Return the terms of the sentences from `start` to `end`, and their starts."""
        bounds = np.append(self.starts, len(self.ids))[start : end + 1]
        first, last = bounds[0], bounds[-1]
        return torch.from_numpy(self.ids[first:last]), torch.from_numpy(bounds[:-1] - first)


def group_by_tag(pairs: Sequence[Pair]) -> dict[str | None, list[int]]:
    """Return the rows of the pairs with each target tag, sorted by tag."""
    rows: dict[str | None, list[int]] = {}
    for row, pair in enumerate(pairs):
        rows.setdefault(pair.target_tag, []).append(row)
    return dict(sorted(rows.items(), key=lambda item: item[0] or ""))


def translate_each_by_memory(pairs: Sequence[Pair], training: Sequence[Pair]) -> list[str]:
    """Translate the sources by the memory, each by the training pairs with the same target tag."""
    targets = [""] * len(pairs)
    for tag, rows in group_by_tag(pairs).items():
        of_tag = [pair for pair in training if pair.target_tag == tag]
        if not of_tag:  # the training text has changed
            continue
        memory = translate_by_memory([pairs[row].source for row in rows], of_tag)
        for row, target in zip(rows, memory, strict=True):
            targets[row] = target
    return targets


def translate_by_memory(sources: Sequence[str], training: Sequence[Pair]) -> list[str]:
    """Return the target of the training source that is most similar to each source.

    The similarity is the Dice coefficient of the sets of terms, which are words or characters. Each
    term has a weight: the negative logarithm of its relative frequency in the training sources.
    """
    has_words = Writing.of(None, sources).has_words
    numbers: dict[str, int] = {}
    searched = _number_terms(sources, numbers, has_words=has_words)
    searched_terms = len(numbers)
    trained = _number_terms([pair.source for pair in training], numbers, has_words=has_words)
    weights = _weigh_terms(trained, len(numbers))

    best_rows: list[int] = []
    starts = range(0, len(sources), BLOCK_SENTENCES)
    with progress("searching the training data", len(starts) * len(training), "pairs") as bar:
        for start in starts:
            end = min(start + BLOCK_SENTENCES, len(sources))
            table = _weight_table(searched.block(start, end), weights[:searched_terms])
            best_rows += _find_most_similar(trained, weights, table, bar).tolist()
    if not training:
        return [""] * len(sources)
    return [training[row].target for row in best_rows]


def _number_terms(texts: Iterable[str], numbers: dict[str, int], *, has_words: bool) -> _Terms:
    """Return the distinct terms of each text; `numbers` gets the terms that it lacks."""
    ids: list[int] = []
    starts: list[int] = []
    for text in texts:
        words = normalised(text).split()
        terms = words if has_words else "".join(words)
        starts.append(len(ids))
        ids += sorted({numbers.setdefault(term, len(numbers)) for term in terms})
    return _Terms(np.array(ids, np.int64), np.array(starts, np.int64))


def _weigh_terms(trained: _Terms, count: int) -> Tensor:
    """Return the weight of each term by its number, (V,)."""
    # Start from 1, so that a term that training lacks has a weight.
    counts = 1.0 + np.bincount(trained.ids, minlength=count)
    return torch.from_numpy(-np.log(counts / counts.sum())).float()


def _weight_table(block: tuple[Tensor, Tensor], weights: Tensor) -> Tensor:
    """Return the weight of each term in each sentence; 0 if the sentence lacks it. (V + 1, B).

    V counts the terms of all searched sentences; the last row stands for all other terms.
    """
    ids, starts = block
    lengths = torch.diff(torch.cat([starts, torch.tensor([len(ids)])]))
    columns = torch.repeat_interleave(torch.arange(len(starts)), lengths)
    table = weights.new_zeros(len(weights) + 1, len(starts))
    table[ids, columns] = weights[ids]
    return table


def _find_most_similar(trained: _Terms, weights: Tensor, table: Tensor, bar: Progress) -> Tensor:
    """Return the row of the source that is most like each sentence, (B,).

    The row is 0 if no source has a term of the sentence.
    """
    sources = len(trained.starts)
    sentences = table.shape[1]
    rows = torch.zeros(sentences, dtype=torch.int64)
    largest = torch.zeros(sentences)
    for start in range(0, sources, BLOCK_PAIRS):
        end = min(start + BLOCK_PAIRS, sources)
        similarity = _similarity(trained.block(start, end), weights, table)  # (k, B)
        largest_of_block, places = similarity.max(dim=0)
        is_better = largest_of_block > largest
        rows = torch.where(is_better, start + places, rows)
        largest = torch.maximum(largest, largest_of_block)
        bar.advance(end - start)
    return rows


def _similarity(block: tuple[Tensor, Tensor], weights: Tensor, table: Tensor) -> Tensor:
    """Return the similarity of the sources of a block to the sentences of `table`, (k, B)."""
    ids, starts = block
    other_terms = len(table) - 1
    common = embedding_bag(ids.clamp(max=other_terms), table, starts, mode="sum")
    pair_weight = embedding_bag(ids, weights[:, None], starts, mode="sum")
    total = pair_weight + table.sum(dim=0)
    # Two empty sentences have nothing in common: 0, not 0/0.
    return 2 * common / total.clamp(min=1e-9)
