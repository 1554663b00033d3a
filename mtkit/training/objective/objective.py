"""What training minimises, as a function of a batch: a model with a loss on top."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from mtkit.config.settings import Learning
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.terms import Batch, SourceIds
from mtkit.tokenizer.symbols import EOS, PAD, UNK
from mtkit.training.objective.loss import Agreement, Loss, RowLoss, cross_entropy, projected_loss


def build_objective(model: EncoderDecoder, settings: Learning) -> Objective:
    """The loss that the settings ask for, on top of `model`."""
    shared = (model, settings.label_smoothing, settings.source_dropout)
    if settings.r_drop is None:
        return Objective(*shared)
    return Objective(*shared, Agreement(settings.r_drop), passes=2)


class Objective(nn.Module):
    """The mean of a row loss over passes with different dropout: plain cross-entropy has one."""

    def __init__(
        self,
        model: EncoderDecoder,
        smoothing: float,
        token_dropout: float = 0.0,
        row_loss: RowLoss = cross_entropy,
        passes: int = 1,
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.token_dropout = TokenDropout(token_dropout)
        self.row_loss, self.passes = row_loss, passes

    def forward(
        self, source: SourceIds, target_input: Int[Tensor, "B T"], target_output: Int[Tensor, "B T"]
    ) -> Loss:
        source, target_input = source.repeat(self.passes, 1), target_input.repeat(self.passes, 1)
        hidden = self.model(self.token_dropout(source), source != PAD, target_input)
        hidden, weight = self.model.output_factors(hidden)
        hidden = hidden.unflatten(0, (self.passes, -1))  # (P, B, T, D)
        return projected_loss(hidden, weight, target_output, self.smoothing, self.row_loss)

    def size(self, batch: Batch) -> int:
        """What the loss is a mean over: the target tokens, of all micro-batches of an update."""
        return batch.target_tokens


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
