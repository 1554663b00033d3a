"""Teacher forcing: what a model predicts and attends to if it is made to write a given translation.

Alignments are read from the attention of the decoder's last layer, the mean of its heads, at the
step that predicts a symbol: the best choice on the demo (`tests/benchmarks/alignment_error.py`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mtkit.errors import UserError
from mtkit.models.interfaces import Decoded, Memory, TranslationModel
from mtkit.symbols import BOS, EOS, PAD
from mtkit.terms import SourceIds, TargetIds


def teacher_force(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    target: TargetIds,
    *,
    encoder: bool = False,
) -> tuple[Memory, Decoded]:
    """Return memory and predictions for a given `target`, with the decoder's attention weights.

    `source` ends in EOS, `target` is without BOS; both are padded, and `target` has N = B·K rows
    for the B of `source`. With `encoder` the memory holds the encoder's own attention as well.
    """
    memory = model.encode(source, source != PAD, attention=encoder)
    state = model.start(memory, len(target) // len(source))
    return memory, model.decode(memory, state, shift_right(target), attention=True)


def shift_right(target: TargetIds) -> TargetIds:
    """Return what the decoder reads as it predicts `target`: BOS, then all symbols but the last."""
    return F.pad(target[:, :-1], (1, 0), value=BOS)


@torch.no_grad()
def attention_to_source(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, "N T S"]:
    """Return the attention of each target symbol to each source symbol as it is predicted.

    The arguments are those of `teacher_force`. Each row sums to 1, EOS included.

    Raises:
        UserError: the model has no attention.
    """
    _, decoded = teacher_force(model, source, target)
    if decoded.attention is None:
        raise UserError("alignments: a model has no attention (model.attention: none)")
    return decoded.attention[:, -1].mean(dim=1).float()  # (N, T, S)


def check_attention(model: TranslationModel[Any, Any]) -> None:
    """Raise UserError at once for a model without attention."""
    end = torch.full((1, 1), EOS, device=model.device)
    attention_to_source(model, end, end)
