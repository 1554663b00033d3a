"""Given translations: what the model reads, predicts and attends to where it is made to write them.

Alignments are read from the attention of the decoder's last layer, the mean of its heads, at the
step that predicts a symbol: what errs least on the validation set of the demo, whose alignments are
known. The demo's Transformer errs there in 22 %, as by the mean of its layers, by the layer before
the last in 34. The step that reads the symbol, which Chen et al. 2020 found better in deeper
models, errs in over 70 % (`tests/benchmarks/alignment_error.py`).
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


def force(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    target: TargetIds,
    *,
    encoder: bool = False,
) -> tuple[Memory, Decoded]:
    """The model as it reads `source` and predicts `target`, with the decoder's attention weights.

    `source` ends in EOS, `target` is without BOS; both are padded, and `target` has N = B·K rows
    for the B of `source`. With `encoder`, the memory holds the encoder's own attention, too.
    """
    memory = model.encode(source, source != PAD, attention=encoder)
    state = model.start(memory, len(target) // len(source))
    return memory, model.decode(memory, state, shifted(target), attention=True)


def shifted(target: TargetIds) -> TargetIds:
    """What the decoder reads as it predicts `target`: each symbol one step later, BOS first."""
    return F.pad(target[:, :-1], (1, 0), value=BOS)


@torch.no_grad()
def attention_to_source(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, "N T S"]:
    """How much of its attention each target symbol gives to each source symbol as it is predicted.

    The arguments are those of `force`. Each row sums to 1, EOS included. Raises UserError for a
    model without attention.
    """
    _, decoded = force(model, source, target)
    if decoded.attention is None:
        raise UserError("a model has no attention (model.attention: none): nothing to align by")
    return decoded.attention[:, -1].mean(dim=1).float()  # (N, T, S)


def check_attention(model: TranslationModel[Any, Any]) -> None:
    """Raises UserError for a model without attention, at once."""
    end = torch.full((1, 1), EOS, device=model.device)
    attention_to_source(model, end, end)
