"""Weights for a larger vocabulary: rows of new pieces start from those that spell them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

SUPPRESSED_BIAS = -100.0
"""Symbols with an output bias of at most this are never produced.

Such a bias says nothing about a new piece.
"""

Spellings = Sequence[Sequence[int]]
"""For each new piece the ids of the old pieces that spell it."""


def grow_weights(
    weights: Mapping[str, Tensor], source: Spellings, target: Spellings
) -> dict[str, Tensor]:
    """Return weights with a row for each new piece after the rows of the old pieces.

    A new row is the mean of the rows that spell the piece, in embeddings, output and output bias.
    `weights`: by their names in an `EncoderDecoder`. An embedding that source and target share has
    the name of the target embedding, so it grows by the spellings of the target.
    """
    grown = dict(weights)
    for name, spellings in (
        ("source_embedding.weight", source),
        ("target_embedding.weight", target),
        ("output.weight", target),
        ("output_bias", target),
    ):
        if name in weights:
            grown[name] = _append_means(weights[name], spellings)
    return grown


def _append_means(rows: Tensor, spellings: Spellings) -> Tensor:
    """Return the rows (V, D), or biases (V), and the mean of some of them for each spelling."""
    means = [rows]
    for spelling in spellings:
        spelled = rows[torch.tensor(spelling, dtype=torch.long)]
        if rows.dim() == 1:
            spelled = spelled[spelled > SUPPRESSED_BIAS]
        # Nothing spells the piece, or all its parts are suppressed: start from a neutral row.
        mean = spelled.mean(dim=0) if len(spelled) else torch.zeros_like(rows[0])
        means.append(mean[None])
    return torch.cat(means)
