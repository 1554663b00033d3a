"""Weights for a changed vocabulary: rows of old pieces stay, new pieces get means of rows."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from mtkit.extras.adapt.new_pieces import NewRows

SUPPRESSED_BIAS = -100.0
"""Symbols with an output bias of at most this are never produced.

Such a bias says nothing about a new piece.
"""


def change_weights(
    weights: Mapping[str, Tensor], source: NewRows, target: NewRows
) -> dict[str, Tensor]:
    """Return weights with a row for each piece of the changed vocabularies.

    The row of a new piece is the mean of the rows that spell it, in embeddings, output and output
    bias. `weights`: by their names in an `EncoderDecoder`. An embedding that source and target
    share has the name of the target embedding, so its rows are those of the target.
    """
    changed = dict(weights)
    for name, rows in (
        ("source_embedding.weight", source),
        ("target_embedding.weight", target),
        ("output.weight", target),
        ("output_bias", target),
    ):
        if name in weights:
            changed[name] = _change_rows(weights[name], rows)
    return changed


def _change_rows(rows: Tensor, new: NewRows) -> Tensor:
    """Return some of the rows (V, D), or biases (V), and the means of the spellings."""
    changed = [rows[torch.tensor(new.kept, dtype=torch.long)]]
    for spelling in new.spellings:
        spelled = rows[torch.tensor(spelling, dtype=torch.long)]
        if rows.dim() == 1:
            spelled = spelled[spelled > SUPPRESSED_BIAS]
        # Nothing spells the piece, or all its parts are suppressed: start from a neutral row.
        mean = spelled.mean(dim=0) if len(spelled) else torch.zeros_like(rows[0])
        changed.append(mean[None])
    return torch.cat(changed)
