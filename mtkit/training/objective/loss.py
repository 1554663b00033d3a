"""Cross-entropy with label smoothing, fused with the output projection.

The logits of all target tokens (4096 × 8000 floats) would be the largest tensor of a training step
by far, and reading and writing it the slowest part. Here they exist for one chunk of tokens at a
time; on a CPU the softmax runs over pieces of it that stay in the cache. Gradients with respect to
hidden states and output weights are made from the softmax of the same chunk, in the same pass: with
p = softmax(z),

    d loss / dz = p - (1 - ε) · onehot(y) - ε / V,

whose last term, the same for every token and symbol, is left to the sides of the two products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from mtkit.tokenizer.symbols import PAD

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
    return projected_loss(hidden.unsqueeze(0), weight, target, smoothing, cross_entropy)


@runtime_checkable
class RowLoss(Protocol):
    """A loss of the logits that P passes of the model have for the same tokens."""

    def __call__(
        self, logits: Float[Tensor, "P R V"], gold: Int[Tensor, "P R 1"], smoothing: float
    ) -> Float[Tensor, 3]:
        """Sums of log Σ exp(logits), of the gold logits, and of what is added to cross-entropy.

        `logits` become the gradient of the sum over passes, but for its term - ε / V.
        """


def cross_entropy(
    logits: Float[Tensor, "P R V"], gold: Int[Tensor, "P R 1"], smoothing: float
) -> Float[Tensor, 3]:
    """The row loss of each pass by itself."""
    log_sum, gold_logit = softmax_(logits, gold)
    subtract_gold_(logits, gold, smoothing)
    return torch.stack([log_sum, gold_logit, torch.zeros_like(log_sum)])


def softmax_(
    logits: Float[Tensor, "P R V"], gold: Int[Tensor, "P R 1"]
) -> tuple[Float[Tensor, ""], Float[Tensor, ""]]:
    """Turns logits into probabilities; returns the sums of log Σ exp(logits) and gold logits."""
    gold_logit, top = logits.gather(-1, gold).sum(), logits.amax(dim=-1, keepdim=True)
    total = logits.sub_(top).exp_().sum(dim=-1, keepdim=True)
    logits.div_(total)
    return (top + total.log()).sum(), gold_logit


def subtract_gold_(
    probs: Float[Tensor, "P R V"], gold: Int[Tensor, "P R 1"], smoothing: float
) -> None:
    """Turns probabilities into the gradient of cross-entropy, but for its term - ε / V."""
    probs.scatter_add_(-1, gold, probs.new_full((1, 1, 1), smoothing - 1).expand(gold.shape))


def projected_loss(
    hidden: Float[Tensor, "P B T D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    smoothing: float,
    row_loss: RowLoss,
) -> Loss:
    """The mean over P passes of `row_loss`, smoothed, at logits hidden · weight^T."""
    real = target != PAD
    device = hidden.device.type
    compute = hidden.dtype
    if torch.is_autocast_enabled(device):
        compute = torch.get_autocast_dtype(device)
    smoothed, nll = cast(
        tuple[Tensor, Tensor],
        _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
            hidden[:, real], weight, target[real], smoothing, row_loss, compute
        ),
    )
    return Loss(smoothed, nll)


class _ProjectedLoss(torch.autograd.Function):
    """Forward makes the gradients too, unless none are wanted; backward only scales them."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "P R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        smoothing: float,
        row_loss: RowLoss,
        compute: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        with torch.autocast(hidden.device.type, enabled=False):
            wanted = ctx.needs_input_grad[0] or ctx.needs_input_grad[1]
            return _forward(ctx, hidden, weight, target, smoothing, row_loss, compute, wanted)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        grad_hidden, grad_weight = ctx.saved_tensors
        scale = grads[0] / len(grad_hidden)
        return grad_hidden * scale, grad_weight * scale, None, None, None, None


def _forward(
    ctx: Any,
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    smoothing: float,
    row_loss: RowLoss,
    compute: torch.dtype,
    wanted: bool,
) -> tuple[Tensor, Tensor]:
    passes, count, width = hidden.shape
    accumulate = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    table, states = weight.detach().to(compute), hidden.to(compute)
    gold = target.unsqueeze(1).expand(passes, count, 1)
    size = CHUNK // passes
    piece = PIECE // passes if hidden.device.type == "cpu" else size
    sums = hidden.new_zeros(3, dtype=accumulate)
    buffer = table.new_empty(passes * min(size, count), len(weight))
    grad_hidden = torch.empty(hidden.shape, dtype=accumulate, device=hidden.device)
    grad_weight = torch.zeros(weight.shape if wanted else 0, dtype=accumulate, device=hidden.device)
    for start in range(0, count, size):
        chunk = slice(start, min(start + size, count))
        rows = states[:, chunk].reshape(-1, width)
        logits = torch.mm(rows, table.T, out=buffer[: len(rows)])
        parts = logits.view(passes, -1, len(weight)).split(piece, dim=1)
        for part, part_gold in zip(parts, gold[:, chunk].split(piece, dim=1), strict=True):
            values = part.to(accumulate)  # the logits themselves, where products are in float32
            sums += row_loss(values, part_gold, smoothing)
            if wanted:
                part.copy_(values)
        if wanted:
            grad_hidden[:, chunk] = (logits @ table).view(passes, -1, width)
            grad_weight += logits.T @ rows
    total_hidden = hidden.detach().to(accumulate).sum(dim=(0, 1))
    mean = weight.detach().to(accumulate).mean(dim=0)  # h · mean = the mean logit
    log_sum, gold_logit, added = sums
    nll, smooth = log_sum - gold_logit, log_sum - total_hidden @ mean
    if wanted:
        grad_hidden.sub_(smoothing * mean)
        grad_weight -= total_hidden * (smoothing / len(weight))
        ctx.save_for_backward(grad_hidden.to(hidden.dtype), grad_weight.to(weight.dtype))
    ctx.mark_non_differentiable(nll)
    return ((1 - smoothing) * nll + smoothing * smooth + added) / passes, nll / passes
