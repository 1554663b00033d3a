"""Muon for the matrices between layers, Adam for all else: one optimizer in two parts.

Muon (Jordan et al. 2024) makes the update of a matrix orthogonal, so that no direction of it is
learnt more slowly than another. Its step is scaled to be as large as Adam's (Liu et al. 2025,
"Muon is Scalable for LLM Training", equation 4): both parts share one learning rate.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from mtkit.config import Muon
from mtkit.models import TranslationModel


class MuonAndAdam(torch.optim.Optimizer):
    """torch.optim.Muon and torch.optim.AdamW with one state: `matrices` first, then `others`."""

    def __init__(
        self, matrices: list[nn.Parameter], others: list[nn.Parameter], settings: Muon
    ) -> None:
        self._muon = torch.optim.Muon(
            matrices,
            lr=0.0,
            weight_decay=settings.weight_decay,
            momentum=settings.momentum,
            adjust_lr_fn="match_rms_adamw",
        )
        self._adam = torch.optim.AdamW(
            others,
            lr=0.0,
            betas=(settings.beta1, settings.beta2),
            eps=settings.eps,
            weight_decay=settings.weight_decay,
            fused=True,
        )
        super().__init__([*self._muon.param_groups, *self._adam.param_groups], {})
        self._share()

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One update of both parts."""
        self._muon.step()
        self._adam.step()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """As of any optimizer."""
        super().load_state_dict(state_dict)
        self._share()

    def _share(self) -> None:
        """Lets the parts work on this optimizer's groups and moments."""
        self._muon.state = self._adam.state = self.state
        self._muon.param_groups, self._adam.param_groups = (
            self.param_groups[:1],
            self.param_groups[1:],
        )


def build_muon(model: TranslationModel, settings: Muon) -> MuonAndAdam:
    """Muon for the matrices of layers; not for tables of words or positions, nor for the output."""
    layers = [m for m in model.modules() if isinstance(m, nn.Linear | nn.RNNBase)]
    weights = [p for m in layers for p in m.parameters(recurse=False) if p.dim() == 2]
    matrices = [weight for weight in weights if weight is not model.output_weight]
    chosen = {id(matrix) for matrix in matrices}
    return MuonAndAdam(matrices, [p for p in model.parameters() if id(p) not in chosen], settings)
