"""What training minimises, as a function of a batch: a model with a loss on top."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.config import TrainingSettings
from mtkit.models import TranslationModel
from mtkit.symbols import EOS, PAD, UNK
from mtkit.terms import SourceIds
from mtkit.training.loss import Loss, projected_cross_entropy, projected_loss
from mtkit.training.r_drop import Agreement


def build_objective(model: TranslationModel, settings: TrainingSettings) -> Objective:
    """The loss that the settings ask for, on top of `model`."""
    shared = (model, settings.label_smoothing, settings.source_dropout)
    return Objective(*shared) if settings.r_drop is None else RDrop(*shared, settings.r_drop)


class Objective(nn.Module):
    """Cross-entropy with label smoothing."""

    def __init__(
        self, model: TranslationModel, smoothing: float, token_dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.token_dropout = TokenDropout(token_dropout)

    def forward(
        self,
        source: SourceIds,
        target_input: Int[Tensor, "B T"],
        target_output: Int[Tensor, "B T"],
    ) -> Loss:
        factors = self.output_factors(source, target_input)
        return projected_cross_entropy(*factors, target_output, self.smoothing)

    def output_factors(
        self, source: SourceIds, target_input: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "V D"]]:
        """The matrices whose product are the logits, with dropout of all kinds."""
        hidden = self.model(self.token_dropout(source), source != PAD, target_input)
        return self.model.output_factors(hidden)


class RDrop(Objective):
    """The mean loss of two passes, and how far they are apart."""

    def __init__(
        self, model: TranslationModel, smoothing: float, token_dropout: float, alpha: float
    ) -> None:
        super().__init__(model, smoothing, token_dropout)
        self.agreement = Agreement(alpha)

    def forward(
        self,
        source: SourceIds,
        target_input: Int[Tensor, "B T"],
        target_output: Int[Tensor, "B T"],
    ) -> Loss:
        hidden, weight = self.output_factors(source.repeat(2, 1), target_input.repeat(2, 1))
        passes = hidden.unflatten(0, (2, -1))  # (2, B, T, D)
        return projected_loss(passes, weight, target_output, self.smoothing, self.agreement)


class TokenDropout(nn.Module):
    """In training, each word piece becomes UNK with probability p (Gal and Ghahramani 2016).

    So that the model learns to make out a word from those around it; Sennrich and Zhang 2019 found
    that it helps where there is little data. The end of the sentence and padding stay.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, ids: SourceIds) -> SourceIds:
        if not self.training or self.p == 0:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device) < self.p
        return ids.masked_fill(dropped & (ids != PAD) & (ids != EOS), UNK)
