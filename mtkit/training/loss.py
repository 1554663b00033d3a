"""Cross-entropy with label smoothing, fused with the output projection.

The loss of a token is -log p(y), smoothed by ε towards the uniform distribution over the V symbols
(Szegedy et al. 2016). With logits z and p = softmax(z),

    loss = (1 - ε) · -log p(y) + ε · mean over v of -log p(v)
         = log Σ exp(z) - (1 - ε) · z(y) - ε · mean(z),
    d loss / dz = p - (1 - ε) · onehot(y) - ε / V.

The logits of all target tokens (4,096 × 8,000 floats) would be by far the largest tensor of a
training step, and reading and writing them its slowest part. Here only the logits of one chunk of
tokens exist at a time; on a CPU the softmax works on pieces of a chunk that fit into the cache. The
forward pass also computes the gradients, from the softmax it has just computed. With z = h · W^T,

    d loss / dh = d loss / dz · W,        d loss / dW = Σ over tokens of (d loss / dz)^T · h.

The term - ε / V is the same for every token and symbol. It is not added to dz but to both products,
which saves reading and writing dz once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.models.fast.accelerate import runs_triton
from mtkit.symbols import PAD
from mtkit.training.batch import Batch

CHUNK_TOKENS = {"cpu": 1024, "cuda": 8192}
"""Number of tokens per chunk: large enough for efficient matrix products."""
MAX_FUSED = 1 << 16
"""Largest vocabulary for the fused kernel: logits of one token that fit into a GPU's registers."""
PIECE_TOKENS = 32
"""Number of tokens per softmax on a CPU; with 8,000 subwords they take 1 MB of float32."""


@dataclass(frozen=True)
class Loss:
    """The loss of a batch in nats, summed over its target tokens."""

    smoothed: Float[Tensor, ""]
    """Cross-entropy with label smoothing, which training minimises."""
    nll: Float[Tensor, ""]
    """Negative log-likelihood, for perplexity; without gradient."""


def projected_loss(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, " R"],
    smoothing: float,
) -> Loss:
    """Return the cross-entropy of the logits hidden · weight^T with `target`, ignoring padding.

    Matrix products use the data type of an enclosing autocast; softmax and sums use float32 (or
    float64).
    """
    device, compute = hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(device):
        compute = torch.get_autocast_dtype(device)
    return Loss(*_ProjectedLoss.apply(hidden, weight, target, smoothing, compute))  # type: ignore[no-untyped-call]


class _ProjectedLoss(torch.autograd.Function):
    """The smoothed loss and the nll; the forward pass also computes the gradients, if needed."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        smoothing: float,
        compute: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        needs_gradients = any(ctx.needs_input_grad)
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        with torch.autocast(hidden.device.type, enabled=False):
            real = (target != PAD).unsqueeze(1)  # (R, 1)
            # Zero the hidden states of padding, so that they add nothing to the gradient of W.
            hidden = torch.where(real, hidden, 0)
            total, mean = hidden.to(exact).sum(dim=0), weight.to(exact).mean(dim=0)  # (D,)
            grad_hidden = torch.empty(hidden.shape, dtype=exact, device=hidden.device)
            grad_weight = (total * (-smoothing / len(weight))).repeat(
                len(weight) * needs_gradients, 1
            )
            terms = _loss_terms(
                hidden.to(compute),
                weight.to(compute),
                target.unsqueeze(1),
                smoothing,
                (grad_hidden, grad_weight) if needs_gradients else None,
            )
            log_sum, gold_logit = torch.where(real, terms, 0).sum(dim=0)
            nll, uniform = log_sum - gold_logit, log_sum - total @ mean
        if needs_gradients:
            grad_hidden = torch.where(real, grad_hidden.sub_(smoothing * mean), 0)
            ctx.save_for_backward(grad_hidden, grad_weight)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if grads[0] is None:
            return None, None, None, None, None
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None, None


def _loss_terms(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, "R 1"],
    smoothing: float,
    gradients: tuple[Float[Tensor, "R D"], Float[Tensor, "V D"]] | None,
) -> Float[Tensor, "R 2"]:
    """Return log Σ exp(logits) and the gold logit of each row.

    Write the first of `gradients` and add to the second, both without the term - ε / V of dz.
    """
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    rows = CHUNK_TOKENS.get(hidden.device.type, 1024)
    terms = [hidden.new_empty((0, 2), dtype=exact)]
    is_fused = runs_triton(hidden.device) and exact == torch.float32 and len(weight) <= MAX_FUSED
    buffer = weight.new_empty(min(rows, len(gold)), len(weight))
    for start in range(0, len(gold), rows):
        chunk = slice(start, start + rows)
        logits = torch.mm(hidden[chunk], weight.T, out=buffer[: len(gold[chunk])])  # (C, V)
        if is_fused:
            terms.append(_fused_softmax(logits, gold[chunk], smoothing))
        else:
            terms += _softmax_by_pieces(logits, gold[chunk], smoothing, exact)
        if gradients is not None:  # the buffer now holds d loss / dz without its term - ε / V
            gradients[0][chunk] = logits @ weight
            gradients[1].add_(logits.T @ hidden[chunk])
    return torch.cat(terms)


def _fused_softmax(logits: Tensor, gold: Tensor, smoothing: float) -> Float[Tensor, "R 2"]:
    from mtkit.models.fast.kernels import subtract_targets  # a machine without a GPU has no Triton

    return subtract_targets(logits, gold, smoothing)


def _softmax_by_pieces(
    logits: Float[Tensor, "R V"], gold: Int[Tensor, "R 1"], smoothing: float, exact: torch.dtype
) -> Iterator[Float[Tensor, "P 2"]]:
    """Do what kernels.subtract_targets does, on any device."""
    rows = PIECE_TOKENS if logits.device.type == "cpu" else len(logits)
    for part, part_gold in zip(logits.split(rows), gold.split(rows), strict=True):
        values = part.to(exact)  # the same tensor if the products are in float32
        gold_logit, top = values.gather(-1, part_gold), values.amax(dim=-1, keepdim=True)
        probs = torch.softmax(values, dim=-1, out=values)
        # For the most probable symbol: log Σ = z - log p
        log_sum = top - probs.amax(dim=-1, keepdim=True).log()
        yield torch.cat([log_sum, gold_logit], dim=1)
        values.scatter_(-1, part_gold, smoothing - 1, reduce="add")
        part.copy_(values)


class TrainingLoss(nn.Module):
    """A model with the smoothed cross-entropy that training minimises."""

    def __init__(self, model: EncoderDecoder, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> Loss:
        hidden = self.model.read(
            batch.source, batch.source_layout, batch.target_input, batch.target_layout
        )
        hidden, weight = self.model.output_factors(hidden)
        return projected_loss(hidden, weight, batch.target_output, self.smoothing)
