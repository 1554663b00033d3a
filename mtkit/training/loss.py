"""Cross-entropy with label smoothing, fused with the output projection.

The logits of all target tokens (4096 × 8000 floats) would be the largest tensor of a training step
by far, and reading and writing it the slowest part. Here they exist for one chunk of tokens at a
time; the gradients with respect to hidden states and output weights are made from the softmax of
the same chunk, in the same pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.symbols import PAD

CHUNK = 512
"""Tokens whose logits exist at once: large enough for the matrix products, small for the caches."""


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, in nats."""

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    nll: Float[Tensor, ""]
    """The negative log-likelihood, for perplexity; carries no gradient."""


def projected_cross_entropy(
    hidden: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    smoothing: float,
) -> Loss:
    """(1 - ε) · -log p(y) + ε · mean over v of -log p(v), p = softmax(hidden · weight^T).

    Label smoothing of Szegedy et al. 2016 with the uniform distribution over the vocabulary.
    Products run in autocast's type where that is on; softmax and sums in float32 (or float64).
    """
    real = target != PAD
    device = hidden.device.type
    compute = hidden.dtype
    if torch.is_autocast_enabled(device):
        compute = torch.get_autocast_dtype(device)
    smoothed, nll = cast(
        tuple[Tensor, Tensor],
        _ProjectedCrossEntropy.apply(  # type: ignore[no-untyped-call]
            hidden[real], weight, target[real], smoothing, compute
        ),
    )
    return Loss(smoothed, nll)


class _ProjectedCrossEntropy(torch.autograd.Function):
    """Forward makes the gradients too, unless none are wanted; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        smoothing: float,
        compute: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
            return _forward(ctx, hidden, weight, target, smoothing, compute, wanted)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None, None


def _forward(
    ctx: Any,
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    compute: torch.dtype,
    wanted: bool,
) -> tuple[Tensor, Tensor]:
    accumulate = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    table = weight.detach().to(compute)
    mean = weight.detach().to(accumulate).mean(dim=0)  # h · mean = the mean logit
    nll = hidden.new_zeros((), dtype=accumulate)
    smooth = nll.clone()
    grad_hidden = torch.empty(hidden.shape, dtype=accumulate, device=hidden.device)
    grad_weight = torch.zeros(weight.shape if wanted else 0, dtype=accumulate, device=hidden.device)
    for start in range(0, len(hidden), CHUNK):
        rows = slice(start, start + CHUNK)
        states, gold = hidden[rows].to(compute), target[rows].unsqueeze(1)
        logits = (states @ table.T).to(accumulate)  # (chunk, V)
        top, place = logits.max(dim=-1, keepdim=True)
        gold_logit = logits.gather(1, gold)
        probs = torch.softmax(logits, dim=-1)
        # log Σ exp from the largest probability, which is never tiny: no second exponential.
        log_sum = top - probs.gather(1, place).log()
        nll += (log_sum - gold_logit).sum()
        smooth += (log_sum - (hidden[rows].to(accumulate) @ mean).unsqueeze(1)).sum()
        if wanted:
            probs.scatter_add_(1, gold, torch.full_like(gold_logit, smoothing - 1))
            slope = probs.to(compute)  # d loss / d logits, all but the uniform share of smoothing
            grad_hidden[rows] = (slope @ table).to(accumulate) - smoothing * mean
            grad_weight += (slope.T @ states).to(accumulate)
    if wanted:
        grad_weight -= hidden.to(accumulate).sum(dim=0) * (smoothing / len(weight))
        ctx.save_for_backward(grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype))
    ctx.mark_non_differentiable(nll)
    return (1 - smoothing) * nll + smoothing * smooth, nll
