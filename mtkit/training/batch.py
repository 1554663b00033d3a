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
"""The ids of several sequences, laid end to end, and the length of each sequence."""


@dataclass(frozen=True)
class Batch:
    """Sentence pairs; each side is one sequence of sentences, with padding at its end."""

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
    lengths = np.stack([source[1], target[1]], axis=1) + 1
    places = place_pairs(lengths, min_width)
    return Batch(
        source=_end_to_end(source, EOS),
        source_layout=_layout(lengths[:, 0], places, 0),
        target_input=_end_to_end(target, BOS),
        target_output=_end_to_end(target, EOS),
        target_layout=_layout(lengths[:, 1], places, 1),
        target_tokens=int(lengths[:, 1].sum()),
    )


def _end_to_end(side: Side, symbol: int) -> Int[Tensor, " M"]:
    """Return the sentences end to end, each with BOS before it or EOS after it, then PAD."""
    ids, lengths = side
    total = int(lengths.sum()) + len(lengths)
    tokens = np.full(padded_tokens(total), PAD, np.int64)
    ends = (lengths + 1).cumsum()
    is_symbol = np.zeros(total, bool)
    is_symbol[ends - 1 - (lengths if symbol == BOS else 0)] = True
    tokens[:total] = symbol
    tokens[:total][~is_symbol] = ids
    return torch.from_numpy(tokens)


def _layout(lengths: NDArray[np.int64], places: Places, side: int) -> Packed:
    """Return where each sentence lies; `lengths` include EOS."""
    total, area = int(lengths.sum()), places.rows * places.width
    sentence = np.repeat(np.arange(len(lengths)), lengths)
    position = np.zeros(padded_tokens(total), np.int64)
    position[:total] = np.arange(total) - np.repeat(lengths.cumsum() - lengths, lengths)
    first = places.row * places.width + places.column[:, side]
    place = np.full_like(position, area - 1)
    place[:total] = first[sentence] + position[:total]
    token = np.full(area, len(position) - 1)
    token[place[:total]] = np.arange(total)
    number = np.zeros(area, np.int64)
    number[place[:total]] = sentence + 1
    rows = places.rows, places.width
    return Packed(
        mask=torch.from_numpy(number > 0).view(rows),
        place=torch.from_numpy(place),
        token=torch.from_numpy(token).view(rows),
        position=torch.from_numpy(position),
        sentence=torch.from_numpy(number).view(rows) if places.are_shared else None,
    )


_NOTHING = np.empty(0, np.int64), np.empty(0, np.int64)
EMPTY_BATCH = pack_batch(_NOTHING, _NOTHING)
"""A batch without sentences, whose loss and gradient are 0."""
