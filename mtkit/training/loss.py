"""Cross-entropy with label smoothing, fused with the output projection.

The logits of all target tokens (4096 × 8000 floats) would be the largest tensor of a training step
by far, and reading and writing it the slowest part. Here they exist for one chunk of tokens at a
time, in a buffer that all chunks share; on a CPU the softmax runs over pieces of it that stay in
the cache. Gradients with respect to hidden states and output weights are made from the softmax of
the same chunk, in the same pass: with e = exp(z - max z) and s = Σ e,

    d loss / dz = (e - (1 - ε) s · onehot(y)) / s - ε / V,

whose division by s is left to the sides of the two products that are D wide, not V.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models import TranslationModel
from mtkit.symbols import PAD
from mtkit.terms import SourceIds

CHUNK = 1024
"""Tokens whose logits exist at once: large enough for the matrix products."""
PIECE = 32
"""Tokens of a chunk whose softmax is taken at once: 1 MB of float32 for 8000 subwords."""


@dataclass(frozen=True)
class Loss:
    """Sums over the real tokens of a batch, in nats."""

    smoothed: Float[Tensor, ""]
    """What is minimised."""
    nll: Float[Tensor, ""]
    """The negative log-likelihood, for perplexity; carries no gradient."""


class Objective(nn.Module):
    """What is minimised, as a function of a batch: a model with its loss on top."""

    def __init__(self, model: TranslationModel, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(
        self,
        source: SourceIds,
        target_input: Int[Tensor, "B T"],
        target_output: Int[Tensor, "B T"],
    ) -> Loss:
        hidden = self.model(source, source != PAD, target_input)
        factors = self.model.output_factors(hidden)
        return projected_cross_entropy(*factors, target_output, self.smoothing)


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
    table, states = weight.detach().to(compute), hidden.to(compute)
    mean = weight.detach().to(accumulate).mean(dim=0)  # h · mean = the mean logit
    gold = target.unsqueeze(1)
    count, piece = len(hidden), PIECE if hidden.device.type == "cpu" else CHUNK
    top, total, gold_logit = hidden.new_empty(3, count, 1, dtype=accumulate)
    buffer = table.new_empty(min(CHUNK, count), len(weight))
    grad_hidden = torch.empty(hidden.shape, dtype=accumulate, device=hidden.device)
    grad_weight = torch.zeros(weight.shape if wanted else 0, dtype=accumulate, device=hidden.device)
    for start in range(0, count, CHUNK):
        chunk = slice(start, min(start + CHUNK, count))
        logits = torch.mm(states[chunk], table.T, out=buffer[: chunk.stop - start])  # (chunk, V)
        for first in range(start, chunk.stop, piece):
            rows = slice(first, min(first + piece, chunk.stop))
            part = logits[first - start : rows.stop - start]
            exps = part.to(accumulate)  # the logits themselves, where products are in float32
            gold_logit[rows] = exps.gather(1, gold[rows])
            torch.amax(exps, dim=-1, keepdim=True, out=top[rows])
            torch.sum(exps.sub_(top[rows]).exp_(), dim=-1, keepdim=True, out=total[rows])
            if wanted:
                exps.scatter_add_(1, gold[rows], (smoothing - 1) * total[rows])
                part.copy_(exps)
        if wanted:
            grad_hidden[chunk] = logits @ table
            grad_weight += logits.T @ (states[chunk] / total[chunk]).to(compute)
    log_sum, mean_logit = top + total.log(), hidden.to(accumulate) @ mean
    nll, smooth = (log_sum - gold_logit).sum(), log_sum.sum() - mean_logit.sum()
    if wanted:
        grad_hidden.div_(total).sub_(smoothing * mean)
        grad_weight -= hidden.to(accumulate).sum(dim=0) * (smoothing / len(weight))
        ctx.save_for_backward(grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype))
    ctx.mark_non_differentiable(nll)
    return (1 - smoothing) * nll + smoothing * smooth, nll
