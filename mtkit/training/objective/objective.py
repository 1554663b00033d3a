"""What training minimises, as a function of a batch: a model with a loss on top."""

from __future__ import annotations

from jaxtyping import Int
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.terms import Batch, SourceIds
from mtkit.tokenizer.symbols import PAD
from mtkit.training.objective.loss import Loss, projected_loss


class Objective(nn.Module):
    """The smoothed cross-entropy of the references."""

    def __init__(self, model: EncoderDecoder, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(
        self, source: SourceIds, target_input: Int[Tensor, "B T"], target_output: Int[Tensor, "B T"]
    ) -> Loss:
        hidden = self.model(source, source != PAD, target_input)
        hidden, weight = self.model.output_factors(hidden)
        return projected_loss(hidden, weight, target_output, self.smoothing)

    def size(self, batch: Batch) -> int:
        """What the loss is a mean over: the target tokens, of all micro-batches of an update."""
        return batch.target_tokens

    def told(self, mean: float) -> dict[str, float]:
        """The mean loss as it is logged."""
        return {"smoothed_loss": mean}
