"""All attention weights of a sentence pair, and those of one kind as a map between words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.models.base import TranslationModel

Kind = Literal["cross", "encoder", "decoder"]
"""Encoder-decoder attention, the encoder's self-attention, the decoder's masked self-attention."""


@dataclass(frozen=True)
class HeatMap:
    """Where the words of a sentence look in another, or in the same one."""

    queries: list[str]
    """Who looks. On the target side: the word that is being written."""
    keys: list[str]
    weights: Float[Tensor, "L H J I"]
    """Of every layer and head; rows sum to 1."""

    def averaged(self) -> HeatMap:
        """The mean of all layers and heads, as if it were the only one."""
        return HeatMap(self.queries, self.keys, self.weights.mean(dim=(0, 1), keepdim=True))


@torch.inference_mode()
def all_weights(
    model: TranslationModel, source: Int[Tensor, "1 S"], target: Int[Tensor, "1 T"]
) -> dict[Kind, Float[Tensor, "L H Q K"]]:
    """By kind, of those that the model has; float32, on the CPU.

    `source` ends in EOS and `target` begins with BOS, so that there is a query for each symbol that
    is written, EOS included.
    """
    memory = model.encode(source, torch.ones_like(source, dtype=torch.bool), attention=True)
    decoded = model.decode(memory, model.start(memory), target, attention=True)
    found: dict[Kind, Tensor | None] = {
        "cross": decoded.attention,
        "encoder": torch.stack(memory.attention, dim=1) if memory.attention else None,
        "decoder": decoded.self_attention,
    }
    return {
        kind: weights[0].float().cpu() for kind, weights in found.items() if weights is not None
    }
