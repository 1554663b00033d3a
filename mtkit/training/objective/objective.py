"""What training minimises, as a function of a batch: a model with a loss on top."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.terms import Batch, SourceIds
from mtkit.tokenizer.symbols import PAD
from mtkit.training.objective.loss import CROSS_ENTROPY, Loss, RowLoss, projected_loss


class Objective(nn.Module):
    """A row loss of as many passes as it compares, each with dropout of its own."""

    def __init__(
        self, model: EncoderDecoder, smoothing: float, row_loss: RowLoss = CROSS_ENTROPY
    ) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing
        self.row_loss = row_loss

    def forward(
        self, source: SourceIds, target_input: Int[Tensor, "B T"], target_output: Int[Tensor, "B T"]
    ) -> Loss:
        passes = self.row_loss.passes
        source, target_input = (side.repeat(passes, 1) for side in (source, target_input))
        hidden = self.model(source, source != PAD, target_input)
        hidden, weight = self.model.output_factors(hidden)
        hidden = hidden.unflatten(0, (passes, -1))  # (P, B, T, D)
        return projected_loss(hidden, weight, target_output, self.smoothing, self.row_loss)

    def size(self, batch: Batch) -> int:
        """What the loss is a mean over: the target tokens, of all micro-batches of an update."""
        return batch.target_tokens

    def told(self, mean: float) -> dict[str, float]:
        """The mean loss as it is logged."""
        return {"smoothed_loss": mean}
