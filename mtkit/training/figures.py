"""What a run counts on its device: losses, tokens, skipped steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor


@dataclass(frozen=True)
class StepSums:
    """Sums over the target tokens of a step, in all its micro-batches and processes."""

    losses: Float[Tensor, " 2"]
    """Smoothed loss and negative log-likelihood in nats; processes exchange them by one sum."""
    tokens: Float[Tensor, ""]

    @staticmethod
    def zeros(tokens: int, like: Tensor) -> StepSums:
        """Return the sums before the first micro-batch of a step that has so many tokens."""
        # `fill_` passes a number to the device; a tensor of the CPU would have to be copied.
        return StepSums(like.new_zeros(2), like.new_zeros(()).fill_(tokens))

    @property
    def smoothed(self) -> Float[Tensor, ""]:
        return self.losses[0]

    @property
    def nll(self) -> Float[Tensor, ""]:
        return self.losses[1]


class Figures:
    """Numbers on the device; each is a view of one tensor, which one copy brings to the CPU.

    They are changed in place, because a CUDA graph writes where it wrote when it was recorded.
    """

    def __init__(self, device: torch.device) -> None:
        # With float32, the sum of a long window would lose digits; but MPS has nothing else.
        dtype = torch.float32 if device.type == "mps" else torch.float64
        self.values: Float[Tensor, " 7"] = torch.zeros(7, dtype=dtype, device=device)
        (
            self.smoothed,
            self.nll,
            self.tokens,
            self.gradient_norm,
            self.skipped,
            self.skipped_in_a_row,
            self.most_skipped_in_a_row,
        ) = self.values.unbind()

    def add(
        self, sums: StepSums, norm: Float[Tensor, ""], is_healthy: Bool[Tensor, ""]
    ) -> Float[Tensor, " 7"]:
        """Count a step, which was skipped unless `is_healthy`; return all values."""
        self.smoothed += torch.where(is_healthy, sums.smoothed, 0)
        self.nll += torch.where(is_healthy, sums.nll, 0)
        self.tokens += torch.where(is_healthy, sums.tokens, 0)
        self.gradient_norm.copy_(torch.where(is_healthy, norm, self.gradient_norm))
        self.skipped += ~is_healthy
        self.skipped_in_a_row += 1
        self.skipped_in_a_row *= ~is_healthy
        most = torch.maximum(self.most_skipped_in_a_row, self.skipped_in_a_row)
        self.most_skipped_in_a_row.copy_(most)
        return self.values
