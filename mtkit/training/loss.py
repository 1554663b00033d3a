"""Cross-entropy with label smoothing, fused with the output projection.

The loss of a token is -log p(y), smoothed by ε towards the uniform distribution over the V symbols
(Szegedy et al. 2016): with logits z and p = softmax(z),

    loss = (1 - ε) · -log p(y) + ε · mean over v of -log p(v)
         = log Σ exp(z) - (1 - ε) · z(y) - ε · mean(z),
    d loss / dz = p - (1 - ε) · onehot(y) - ε / V.

The logits of all target tokens (4096 × 8000 floats) would be the largest tensor of a training step
by far, and reading and writing it the slowest part. Here they exist for one chunk of tokens at a
time; on a CPU the softmax runs over pieces of it that stay in the cache. The softmax, of which the
gradients are made, is at hand just then, so that the forward pass makes them too: with z = h · W^T,

    d loss / dh = d loss / dz · W,        d loss / dW = Σ over tokens of (d loss / dz)^T · h.

The term - ε / V, the same for every token and symbol, is left out of dz, which would have to be
read and written once more for it, and is added to both products instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import PAD
from mtkit.terms import Batch, SourceIds

CHUNK_TOKENS = 1024
"""Number of tokens whose logits exist at once: large enough for the matrix products."""
PIECE_TOKENS = 32
"""Number of tokens whose softmax is taken at once: 1 MB of float32 for 8000 subwords."""


@dataclass(frozen=True)
class Loss:
    """In nats, summed over the real tokens: of the whole batch, and of each of its sentences."""

    smoothed: Float[Tensor, ""]
    """The loss that is minimised."""
    nll: Float[Tensor, ""]
    """The negative log-likelihood, for perplexity; carries no gradient."""
    smoothed_of: Float[Tensor, " B"]
    """The loss of each sentence: an objective over whole sentences starts from here."""
    nll_of: Float[Tensor, " B"]
    """The negative log-likelihood of each sentence; carries no gradient."""


def projected_loss(
    hidden: Float[Tensor, "B T D"],
    weight: Float[Tensor, "V D"],
    target: Int[Tensor, "B T"],
    smoothing: float,
) -> Loss:
    """Cross-entropy of the logits hidden · weight^T for `target`, but for its padding.

    Products run in autocast's type where that is on; softmax and sums in float32 (or float64).
    """
    real, device, compute = target != PAD, hidden.device.type, hidden.dtype
    if torch.is_autocast_enabled(device):
        compute = torch.get_autocast_dtype(device)
    smoothed, nll, smoothed_rows, nll_rows = _ProjectedLoss.apply(  # type: ignore[no-untyped-call]
        hidden[real], weight, target[real], _Fused(smoothing, compute)
    )
    return Loss(smoothed, nll, _by_sentence(smoothed_rows, real), _by_sentence(nll_rows, real))


def _by_sentence(rows: Float[Tensor, " R"], real: Bool[Tensor, "B T"]) -> Float[Tensor, " B"]:
    return rows.new_zeros(real.shape).masked_scatter(real, rows).sum(dim=1)


class _ProjectedLoss(torch.autograd.Function):
    """Forward makes the gradients of the sum too, unless none are wanted; backward scales them.

    Where sentences count differently, which only backward knows, it makes them anew.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Float[Tensor, "R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        fused: _Fused,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        wanted = any(ctx.needs_input_grad[:2])
        with torch.autocast(hidden.device.type, enabled=False):
            terms, *gradients = fused(hidden, hidden, weight, target, wanted=wanted)
            exact = hidden.to(terms.dtype)
            mean = weight.to(terms.dtype).mean(dim=0)  # h · mean = the mean logit
            smoothed, nll = fused.smoothed(terms.sum(dim=1), exact.sum(dim=0) @ mean)
            smoothed_rows, nll_rows = fused.smoothed(terms, exact @ mean)  # (R,)
        if wanted:
            ctx.fused = fused
            ctx.save_for_backward(hidden, weight, target, *gradients)
        ctx.mark_non_differentiable(nll, nll_rows)
        return smoothed, nll, smoothed_rows, nll_rows

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        hidden, weight, target, grad_hidden, grad_weight = ctx.saved_tensors
        of_sum, _, of_rows, _ = grads
        if of_sum is None and of_rows is None:
            return None, None, None, None
        if of_rows is not None:
            factors = (of_rows if of_sum is None else of_rows + of_sum).unsqueeze(-1)  # (R, 1)
            with torch.autocast(hidden.device.type, enabled=False):
                _, grad_hidden, grad_weight = ctx.fused(
                    hidden, hidden * factors, weight, target, wanted=True
                )
            grad_hidden, of_sum = grad_hidden * factors, None
        scale = 1.0 if of_sum is None else of_sum
        return grad_hidden * scale, grad_weight * scale, None, None


@dataclass(frozen=True)
class _Fused:
    """Cross-entropy of logits that exist for one chunk of tokens at a time."""

    smoothing: float
    compute: torch.dtype
    """The number format of matrix products."""

    def smoothed(
        self, terms: Float[Tensor, "2 ..."], mean_logit: Float[Tensor, ...]
    ) -> tuple[Float[Tensor, ...], Float[Tensor, ...]]:
        """The loss and its nll, of the terms of rows or of their sums."""
        log_sum, gold_logit = terms
        nll, uniform = log_sum - gold_logit, log_sum - mean_logit
        return (1 - self.smoothing) * nll + self.smoothing * uniform, nll

    def __call__(
        self,
        hidden: Float[Tensor, "R D"],
        factors: Float[Tensor, "R D"],
        weight: Float[Tensor, "V D"],
        target: Int[Tensor, " R"],
        *,
        wanted: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """log Σ exp(logits) and gold logit of rows (2, R), gradients like `hidden` and `weight`.

        The gradient of `weight` is made from `factors`: `hidden`, perhaps weighed row by row.
        Where no gradients are `wanted`, what is returned for them means nothing.
        """
        exact = torch.float64 if hidden.dtype == torch.float64 else torch.float32
        table, states, weighed = (x.to(self.compute) for x in (weight, hidden, factors))
        gold = target.unsqueeze(1)
        piece = PIECE_TOKENS if hidden.device.type == "cpu" else CHUNK_TOKENS
        terms = [hidden.new_empty((0, 2), dtype=exact)]
        buffer = table.new_empty(min(CHUNK_TOKENS, len(gold)), len(weight))
        grad_hidden = torch.empty(hidden.shape, dtype=exact, device=hidden.device)
        total = factors.to(exact).sum(dim=0)
        grad_weight = (total * (-self.smoothing / len(weight))).repeat(len(weight) * wanted, 1)
        for start in range(0, len(gold), CHUNK_TOKENS):
            chunk = slice(start, start + CHUNK_TOKENS)
            logits = torch.mm(states[chunk], table.T, out=buffer[: len(gold[chunk])])  # (C, V)
            for part, part_gold in zip(logits.split(piece), gold[chunk].split(piece), strict=True):
                values = part.to(exact)  # the logits themselves, where products are in float32
                terms.append(torch.cat(_softmax(values, part_gold), dim=1))
                if wanted:
                    _subtract_gold(values, part_gold, self.smoothing)
                    part.copy_(values)
            if wanted:  # logits have become d loss / dz, but for its term - ε / V
                grad_hidden[chunk] = logits @ table
                grad_weight += logits.T @ weighed[chunk]
        if wanted:
            mean = weight.to(exact).mean(dim=0)
            grad_hidden.sub_(self.smoothing * mean)
        return torch.cat(terms).T, grad_hidden, grad_weight


def _softmax(
    logits: Float[Tensor, "R V"], gold: Int[Tensor, "R 1"]
) -> tuple[Float[Tensor, "R 1"], Float[Tensor, "R 1"]]:
    """Turns logits into probabilities; returns log Σ exp(logits) and the gold logits."""
    gold_logit, top = logits.gather(-1, gold), logits.amax(dim=-1, keepdim=True)
    probs = torch.softmax(logits, dim=-1, out=logits)
    highest = probs.amax(dim=-1, keepdim=True)
    return top - highest.log(), gold_logit  # log p = z - log Σ holds for the highest of them


def _subtract_gold(probs: Float[Tensor, "R V"], gold: Int[Tensor, "R 1"], smoothing: float) -> None:
    """Turns probabilities into the gradient of cross-entropy, but for its term - ε / V."""
    probs.scatter_(-1, gold, smoothing - 1, reduce="add")


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
