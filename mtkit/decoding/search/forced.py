"""Teacher forcing: the predictions and the attention of a model for a given translation."""

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
    """Return the encoder memory, and the decoder's output and attention for a given `target`.

    `source` (B, S) ends in EOS; `target` (N = B·K, T) has no BOS; both are padded. `encoder`: keep
    the attention weights of the encoder in the memory.
    """
    memory = model.encode(source, source != PAD, attention=encoder)
    state = model.start(memory, len(target) // len(source))
    return memory, model.decode(memory, state, shift_right(target), attention=True)


def shift_right(target: TargetIds) -> TargetIds:
    """Return the decoder's input when it predicts `target`: BOS, then all symbols but the last."""
    return F.pad(target[:, :-1], (1, 0), value=BOS)


@torch.no_grad()
def attention_to_source(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, "N T S"]:
    """Return the attention to the source at the prediction of each target symbol; rows sum to 1.

    The weights are the mean of all heads of the last decoder layer, which gives the best alignments
    on the demo (`tests/benchmarks/alignment_error.py`). Arguments are as in `teacher_force`.

    Raises:
        UserError: the model has no attention.
    """
    _, decoded = teacher_force(model, source, target)
    if decoded.attention is None:
        raise UserError(
            "the model has no attention (model.attention: none); choose a model with attention"
        )
    return decoded.attention[:, -1].mean(dim=1).float()  # (N, T, S)


def check_attention(model: TranslationModel[Any, Any]) -> None:
    """Raise UserError if the model has no attention."""
    end = torch.full((1, 1), EOS, device=model.device)
    attention_to_source(model, end, end)
