"""What training minimises, as a function of a batch: a model with a loss on top."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.terms import Batch, SourceIds
from mtkit.tokenizer.symbols import BOS, EOS, PAD, UNK
from mtkit.training.objective.loss import CROSS_ENTROPY, Loss, RowLoss, projected_loss


class Objective(nn.Module):
    """A row loss of as many passes as it compares, each with dropout of its own.

    Words are hidden from all passes but the first with probability `cut`, in the source and in what
    the decoder reads. Gao et al. 2022 make their embeddings 0. Here they become UNK, as in
    `TokenDropout`: of any model a symbol can be changed, whatever it does with embeddings, and they
    still count as words in every mask, which is made of PAD.
    """

    def __init__(
        self,
        model: EncoderDecoder,
        smoothing: float,
        row_loss: RowLoss = CROSS_ENTROPY,
        cut: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.cut = TokenDropout(cut)
        self.row_loss = row_loss

    def forward(
        self, source: SourceIds, target_input: Int[Tensor, "B T"], target_output: Int[Tensor, "B T"]
    ) -> Loss:
        passes = len(self.row_loss.shares)
        source = self._cut(source.repeat(passes, 1), len(source))
        target_input = self._cut(target_input.repeat(passes, 1), len(target_input))
        hidden = self.model(source, source != PAD, target_input)
        hidden, weight = self.model.output_factors(hidden)
        hidden = hidden.unflatten(0, (passes, -1))  # (P, B, T, D)
        return projected_loss(hidden, weight, target_output, self.smoothing, self.row_loss)

    def _cut(self, ids: Int[Tensor, "N L"], plain: int) -> Int[Tensor, "N L"]:
        """With words hidden, but for the first `plain` rows."""
        return torch.cat([ids[:plain], self.cut(ids[plain:])])

    def size(self, batch: Batch) -> int:
        """What the loss is a mean over: the target tokens, of all micro-batches of an update."""
        return batch.target_tokens

    def told(self, mean: float) -> dict[str, float]:
        """The mean loss as it is logged."""
        return {"smoothed_loss": mean}


class TokenDropout(nn.Module):
    """In training, each word piece becomes UNK with probability p (Gal and Ghahramani 2016).

    Both ends of the sentence, and padding, stay.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, ids: Int[Tensor, "N L"]) -> Int[Tensor, "N L"]:
        if not self.training or self.p == 0:
            return ids
        dropped = torch.rand(ids.shape, device=ids.device) < self.p
        return ids.masked_fill(dropped & (ids != PAD) & (ids != BOS) & (ids != EOS), UNK)
