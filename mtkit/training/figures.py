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
    """Number of target tokens of the step, on the device."""

    @staticmethod
    def zeros(tokens: int, like: Tensor) -> StepSums:
        """Return the sums before the first micro-batch of a step with `tokens` target tokens.

        The tensors have the device and the type of `like`.
        """
        # `fill_` passes a number to the device; a tensor of the CPU would have to be copied.
        on_device = like.new_zeros(()).fill_(tokens)
        return StepSums(losses=like.new_zeros(2), tokens=on_device)

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
        # In float32, the sum of a long window would lose digits; but MPS does not have float64.
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
        """Count a step, which was skipped unless `is_healthy`; return all values.

        Arithmetic takes the place of `if`, because Python must not wait for `is_healthy`.
        """
        self.smoothed += torch.where(is_healthy, sums.smoothed, 0)
        self.nll += torch.where(is_healthy, sums.nll, 0)
        self.tokens += torch.where(is_healthy, sums.tokens, 0)
        self.gradient_norm.copy_(torch.where(is_healthy, norm, self.gradient_norm))
        self.skipped += ~is_healthy
        self.skipped_in_a_row += 1
        self.skipped_in_a_row *= ~is_healthy  # a healthy step sets it to 0
        most = torch.maximum(self.most_skipped_in_a_row, self.skipped_in_a_row)
        self.most_skipped_in_a_row.copy_(most)
        return self.values
