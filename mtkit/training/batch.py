"""Training batches: sentence pairs; the sentences of each side are laid end to end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from mtkit.batching.pack import Places, padded_tokens, place_pairs
from mtkit.models.interfaces import map_tensors
from mtkit.models.layout import Packed
from mtkit.symbols import BOS, EOS, PAD

Side = tuple[NDArray[np.integer[Any]], NDArray[np.int64]]
"""The ids of k sentences end to end, without BOS and EOS, and the (k,) lengths of the sentences."""


@dataclass(frozen=True)
class Batch:
    """Sentence pairs; each side is one sequence of sentences, with padding at its end.

    M and L count the tokens of source and target, with padding.
    """

    source: Int[Tensor, " M"]
    source_layout: Packed
    target_input: Int[Tensor, " L"]
    target_output: Int[Tensor, " L"]
    target_layout: Packed
    target_tokens: int
    """Number of tokens of `target_output` without padding; EOS counts."""

    def pinned(self) -> Batch:
        """Return the batch in pinned memory, from which a GPU copies; unchanged without a GPU."""
        return map_tensors(Tensor.pin_memory, self) if torch.cuda.is_available() else self

    def to(self, device: torch.device) -> Batch:
        """Return the batch on `device`; from pinned memory the copy is asynchronous."""
        return map_tensors(lambda tensor: tensor.to(device, non_blocking=True), self)


def pack_batch(source: Side, target: Side, min_width: int = 0) -> Batch:
    """Return the pairs as a batch: source `x EOS`, decoder input `BOS y`, labels `y EOS`.

    `min_width`: see `place_pairs`.
    """
    _, source_lengths = source
    _, target_lengths = target
    lengths = np.stack([source_lengths, target_lengths], axis=1) + 1  # (k, 2), with EOS
    places = place_pairs(lengths, min_width)
    return Batch(
        source=_end_to_end(source, EOS),
        source_layout=_layout(lengths[:, 0], places.column[:, 0], places),
        target_input=_end_to_end(target, BOS),
        target_output=_end_to_end(target, EOS),
        target_layout=_layout(lengths[:, 1], places.column[:, 1], places),
        target_tokens=int(lengths[:, 1].sum()),
    )


def _end_to_end(side: Side, symbol: int) -> Int[Tensor, " M"]:
    """Return the sentences end to end, each with BOS before it or EOS after it, then PAD."""
    ids, lengths = side
    total = int(lengths.sum()) + len(lengths)  # each sentence has one symbol more
    last = (lengths + 1).cumsum() - 1  # the last token of each sentence
    first = last - lengths  # with its symbol, a sentence has one token more than its length
    symbol_places = first if symbol == BOS else last
    is_id = np.ones(total, bool)
    is_id[symbol_places] = False
    tokens = np.full(padded_tokens(total), PAD, np.int64)
    tokens[:total] = symbol
    tokens[:total][is_id] = ids
    return torch.from_numpy(tokens)


def _layout(lengths: NDArray[np.int64], columns: NDArray[np.int64], places: Places) -> Packed:
    """Return the layout of one side: which token lies at which place of the padded rows.

    `lengths`: tokens of each sentence, with EOS; `columns`: the first column of each sentence.
    Padding follows the rule of `Packed`. `padded_tokens` and `place_pairs` leave room for it: the
    last token and the last place of all are padding.
    """
    total = int(lengths.sum())
    grid = (places.rows, places.width)
    area = places.rows * places.width
    # Values of the real tokens, (total,) each.
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    first_tokens = lengths.cumsum() - lengths  # (k,): the index of each sentence's first token
    position = np.arange(total) - first_tokens[sentence]
    first_places = places.row * places.width + columns  # (k,): its place, row by row
    place = first_places[sentence] + position
    # The same for all M tokens: padding has position 0, and refers to the last place.
    tokens = padded_tokens(total)
    position_of_token = np.zeros(tokens, np.int64)
    position_of_token[:total] = position
    place_of_token = np.full(tokens, area - 1, np.int64)
    place_of_token[:total] = place
    # The reverse: a place without a token refers to the last token, and has the sentence 0.
    token_of_place = np.full(area, tokens - 1)
    token_of_place[place] = np.arange(total)
    sentence_of_place = np.zeros(area, np.int64)
    sentence_of_place[place] = sentence + 1
    shared = torch.from_numpy(sentence_of_place).view(grid) if places.are_shared else None
    return Packed(
        mask=torch.from_numpy(sentence_of_place > 0).view(grid),
        place=torch.from_numpy(place_of_token),
        token=torch.from_numpy(token_of_place).view(grid),
        position=torch.from_numpy(position_of_token),
        sentence=shared,
    )


_NO_SENTENCES: Side = (np.empty(0, np.int64), np.empty(0, np.int64))
EMPTY_BATCH = pack_batch(_NO_SENTENCES, _NO_SENTENCES)
"""A batch without sentences, whose loss and gradient are 0."""
