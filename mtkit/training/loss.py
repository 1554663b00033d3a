"""Cross-entropy with label smoothing, fused with the output projection.

The loss of a token is -log p(y), smoothed by ε towards the uniform distribution over the V symbols
(Szegedy et al. 2016). With logits z and p = softmax(z),

    loss = (1 - ε) · -log p(y) + ε · mean over v of -log p(v)
         = log Σ exp(z) - (1 - ε) · z(y) - ε · mean(z),
    d loss / dz = p - (1 - ε) · onehot(y) - ε / V.

The logits of all target tokens would be by far the largest tensor of a large training step, and
reading and writing them its slowest part. Here only the logits of one chunk of CHUNK_TOKENS tokens
exist at a time; on a CPU the softmax works on pieces of a chunk that fit into the cache. The
forward pass also computes the gradients, from the softmax it has just computed. With z = h · W^T,

    d loss / dh = d loss / dz · W,        d loss / dW = Σ over tokens of (d loss / dz)^T · h.

The term - ε / V is the same for every token and symbol. It is not added to dz but to both products,
which saves reading and writing dz once more:

    - ε / V · Σ over v of W(v) = - ε · mean(W)            is added to d loss / dh of each token,
    - ε / V · Σ over tokens of h                          is added to d loss / dW of each symbol.

Shapes: R target tokens with padding, C tokens of a chunk, D the model size, V symbols.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from mtkit.models.acceleration import find_acceleration
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import PAD
from mtkit.training.batch import Batch

CHUNK_TOKENS = {"cpu": 1024, "cuda": 8192}
"""Number of tokens per chunk: large enough for efficient matrix products."""
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

    Matrix products use the data type of an enclosing autocast; softmax and sums use float32, or
    float64 if `hidden` is in float64.
    """
    device = hidden.device.type
    product_dtype = hidden.dtype
    if torch.is_autocast_enabled(device):
        product_dtype = torch.get_autocast_dtype(device)
    smoothed, nll = _ProjectedLoss.apply(hidden, weight, target, smoothing, product_dtype)  # type: ignore[no-untyped-call]
    return Loss(smoothed, nll)


class _ProjectedLoss(torch.autograd.Function):
    """The smoothed loss and the nll; the forward pass also computes the gradients, if needed."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        smoothing: float,
        product_dtype: torch.dtype,
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)  # the gradient of an output that nobody uses is None
        symbols = len(weight)
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        with torch.autocast(hidden.device.type, enabled=False):
            is_real = (target != PAD).unsqueeze(1)  # (R, 1)
            # Zero the hidden states of padding, so that they add nothing to the gradient of W.
            hidden = torch.where(is_real, hidden, 0)
            hidden_sum = hidden.to(exact).sum(dim=0)  # (D,)
            mean_weight = weight.to(exact).mean(dim=0)  # (D,)
            gradients = None
            if any(ctx.needs_input_grad):
                # d loss / dW starts with the term - ε / V of dz, the same for every symbol.
                gradients = _Gradients(
                    hidden=torch.empty(hidden.shape, dtype=exact, device=hidden.device),
                    weight=(hidden_sum * (-smoothing / symbols)).repeat(symbols, 1),
                )
            terms = _loss_terms(
                hidden.to(product_dtype),
                weight.to(product_dtype),
                target.unsqueeze(1),
                smoothing,
                gradients,
            )  # (R, 2)
            log_sums, gold_logits = torch.where(is_real, terms, 0).sum(dim=0)  # over all tokens
            mean_logits = hidden_sum @ mean_weight  # Σ over tokens of mean(z)
            nll = log_sums - gold_logits
            uniform_nll = log_sums - mean_logits  # Σ over tokens of the mean over v of -log p(v)
        if gradients is not None:
            # d loss / dh ends with the term - ε / V of dz.
            grad_hidden = gradients.hidden.sub_(smoothing * mean_weight)
            grad_hidden = torch.where(is_real, grad_hidden, 0)
            ctx.save_for_backward(grad_hidden, gradients.weight)
        ctx.mark_non_differentiable(nll)
        return (1 - smoothing) * nll + smoothing * uniform_nll, nll

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_loss = grads[0]
        if grad_loss is None:
            return None, None, None, None, None
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grad_loss, grad_weight * grad_loss, None, None, None


@dataclass(frozen=True)
class _Gradients:
    """Gradients of the summed loss, in the type of sums."""

    hidden: Float[Tensor, "R D"]
    weight: Float[Tensor, "V D"]


def _loss_terms(
    hidden: Float[Tensor, "R D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, "R 1"],
    smoothing: float,
    gradients: _Gradients | None,
) -> Float[Tensor, "R 2"]:
    """Return log Σ exp(logits) and the gold logit of each row.

    If `gradients` are given, write those of `hidden` and add to those of `weight`, both without the
    term - ε / V of dz.
    """
    exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
    rows = CHUNK_TOKENS.get(hidden.device.type, 1024)
    terms = [hidden.new_empty((0, 2), dtype=exact)]  # so that `cat` has a tensor if R is 0
    # All chunks use the same memory.
    buffer = weight.new_empty(min(rows, len(gold)), len(weight))
    fused_softmax = None
    if exact == torch.float32:
        fused_softmax = find_acceleration(hidden.device.type).find_softmax(buffer)
    for start in range(0, len(gold), rows):
        chunk = slice(start, start + rows)
        chunk_hidden = hidden[chunk]
        chunk_gold = gold[chunk]
        logits = torch.mm(chunk_hidden, weight.T, out=buffer[: len(chunk_gold)])  # (C, V)
        if fused_softmax is not None:
            terms.append(fused_softmax(logits, chunk_gold, smoothing))
        else:
            terms += _softmax_by_pieces(logits, chunk_gold, smoothing, exact)
        if gradients is not None:
            # The softmax has turned the logits into d loss / dz, without its term - ε / V.
            grad_logits = logits
            gradients.hidden[chunk] = grad_logits @ weight
            gradients.weight.add_(grad_logits.T @ chunk_hidden)
    return torch.cat(terms)


def _softmax_by_pieces(
    logits: Float[Tensor, "C V"], gold: Int[Tensor, "C 1"], smoothing: float, exact: torch.dtype
) -> Iterator[Float[Tensor, "P 2"]]:
    """Do what a `FusedSoftmax` does, on any device; yield the terms of P tokens at a time.

    The logits are changed in place, as far as the iterator has come.
    """
    rows = PIECE_TOKENS if logits.device.type == "cpu" else len(logits)
    for piece, piece_gold in zip(logits.split(rows), gold.split(rows), strict=True):
        values = piece.to(exact)  # the same tensor if the products are in float32
        gold_logit = values.gather(-1, piece_gold)  # (P, 1)
        largest = values.amax(dim=-1, keepdim=True)  # (P, 1)
        probs = torch.softmax(values, dim=-1, out=values)  # (P, V)
        # p = exp(z) / Σ, so log Σ = z - log p. The most probable symbol has the smallest error.
        log_sum = largest - probs.amax(dim=-1, keepdim=True).log()  # (P, 1)
        yield torch.cat([log_sum, gold_logit], dim=1)
        values.scatter_(-1, piece_gold, smoothing - 1, reduce="add")
        piece.copy_(values)


class TrainingLoss(nn.Module):
    """A model with the smoothed cross-entropy that training minimises."""

    def __init__(self, model: EncoderDecoder, smoothing: float) -> None:
        super().__init__()
        self.model = model
        self.smoothing = smoothing

    def forward(self, batch: Batch) -> Loss:
        """Return the loss of a batch, summed over its target tokens."""
        hidden = self.model.read(
            batch.source, batch.source_layout, batch.target_input, batch.target_layout
        )
        hidden, weight = self.model.output_factors(hidden)
        return projected_loss(hidden, weight, batch.target_output, self.smoothing)
