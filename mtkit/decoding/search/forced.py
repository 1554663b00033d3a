"""Teacher forcing: the predictions and the attention of a model for a given translation."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mtkit.errors import UserError
from mtkit.models.interfaces import Decoded, Memory, TranslationModel
from mtkit.shapes import SourceIds, TargetIds
from mtkit.symbols import BOS, EOS, PAD


def teacher_force(
    model: TranslationModel[Any, Any],
    source: SourceIds,
    target: TargetIds,
    *,
    keep_encoder_attention: bool = False,
) -> tuple[Memory, Decoded]:
    """Return the encoder memory, and the decoder's output and attention for a given `target`.

    `source` (B, S) ends in EOS; `target` (N, T) has K translations of each sentence, N = B·K, next
    to each other and without BOS; both are padded. `keep_encoder_attention`: keep the attention
    weights of the encoder in the memory.
    """
    translations_per_sentence = len(target) // len(source)  # K
    memory = model.encode(source, source != PAD, attention=keep_encoder_attention)
    state = model.start(memory, translations_per_sentence)
    return memory, model.decode(memory, state, shift_right(target), attention=True)


def shift_right(target: TargetIds) -> TargetIds:
    """Return the decoder's input when it predicts `target`: BOS, then all symbols but the last."""
    return F.pad(target[:, :-1], (1, 0), value=BOS)


@torch.no_grad()
def log_probabilities(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, " N"]:
    """Return log P of each translation, as the search computes it: without PAD and BOS.

    `target` ends in EOS, which counts. Arguments are as in `teacher_force`.
    """
    _, decoded = teacher_force(model, source, target)
    logits = model.project(decoded.hidden).float()  # (N, T, V)
    logits[..., [PAD, BOS]] = float("-inf")
    is_text = target != PAD
    # A place after EOS gets any symbol that has a finite log probability.
    symbols = target.where(is_text, EOS).unsqueeze(2)
    log_probs = logits.log_softmax(dim=2).gather(2, symbols).squeeze(2)
    return (log_probs * is_text).sum(dim=1)


def attention_to_source(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, "N T S"]:
    """Return the weights of `find_attention`.

    Raises:
        UserError: the model has no attention.
    """
    weights = find_attention(model, source, target)
    if weights is None:
        raise UserError(
            "the model has no attention (model.attention: none); choose a model with attention"
        )
    return weights


@torch.no_grad()
def find_attention(
    model: TranslationModel[Any, Any], source: SourceIds, target: TargetIds
) -> Float[Tensor, "N T S"] | None:
    """Return the attention to the source at the prediction of each target symbol; rows sum to 1.

    None: the model has no attention. The weights are the mean of all H heads of the last decoder
    layer, which gives the best alignments on the demo (`tests/benchmarks/alignment_error.py`).
    Arguments are as in `teacher_force`.
    """
    _, decoded = teacher_force(model, source, target)
    if decoded.attention is None:
        return None
    last_layer = decoded.attention[:, -1]  # (N, H, T, S)
    return last_layer.mean(dim=1).float()


def check_attention(model: TranslationModel[Any, Any]) -> None:
    """Raise UserError if the model has no attention."""
    # An attempt with the shortest sentence shows it for every kind of model.
    end = torch.full((1, 1), EOS, device=model.device)
    attention_to_source(model, end, end)
