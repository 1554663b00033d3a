"""One update.

The loss of an update is the mean over its target tokens,
however these are spread over the micro-batches of all ranks: all are counted before the first
gradient is taken,

    gradient = Σ over micro-batches of ∇(their summed losses) / (target tokens of all of them),

so that 1 batch of 8 sentences, 2 accumulated ones of 4, and 2 ranks with 4 each move the weights
alike. What the update rides on stands around it in the loop (train.py): batches loaded ahead, a
second try where memory refuses a batch, memory given back to the system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from mtkit.terms import Batch
from mtkit.training.data import NOTHING, seed_of
from mtkit.training.memory import refusals_named
from mtkit.training.processes import ALONE, Ranks
from mtkit.training.state import StepReport, TrainState


def train_step(
    state: TrainState,
    batches: Sequence[Batch],
    rate: float,
    *,
    seed: int,
    clip_norm: float | None,
    ranks: Ranks = ALONE,
) -> StepReport:
    """One update of `state`, by the gradient of the mean loss.

    Skipped where loss or gradient are not finite. Raises BatchRefused where memory does not suffice
    for the gradients; then, as after any other error, `state` is as it was.
    """
    (tokens,) = ranks.sum(sum(batch.target_tokens for batch in batches))
    with refusals_named(state):
        smoothed, nll = gradients(state, batches, tokens, seed, ranks)
    # Clipping (Pascanu et al. 2013) bounds the length of all gradients together, as one vector.
    state.scaler.unscale_(state.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(
        state.model.parameters(), math.inf if clip_norm is None else clip_norm
    ).item()
    # fp16: the scaler skips that update itself, and halves the scale, as far as there is one.
    overflow_is_normal = state.scaler.is_enabled() and state.scaler.get_scale() > 1
    healthy = math.isfinite(smoothed) and (math.isfinite(norm) or overflow_is_normal)
    if healthy:
        for group in state.optimizer.param_groups:
            group["lr"] = rate
        with state.autocast():  # Muon multiplies matrices as well
            state.scaler.step(state.optimizer)
    state.scaler.update()
    state.optimizer.zero_grad(set_to_none=True)  # between updates their memory is of better use
    state.step += 1
    state.skipped += not healthy
    state.skipped_in_a_row = 0 if healthy else state.skipped_in_a_row + 1
    return StepReport(smoothed, nll, int(tokens), rate, norm, skipped=not healthy)


def gradients(
    state: TrainState, batches: Sequence[Batch], tokens: int | float, seed: int, ranks: Ranks
) -> tuple[float, float]:
    """Adds up the gradients of all micro-batches, of their losses divided by `tokens`.

    Returns the sums of smoothed loss and nll over all ranks, in nats.
    """
    total = torch.zeros(2, dtype=torch.float64)
    for index, batch in enumerate(batches):
        # Dropout is drawn from the place of the micro-batch among those of all ranks: a run that
        # is resumed, or that 2 ranks share instead of 1 accumulating, draws the same.
        torch.manual_seed(seed_of(seed, state.step + 1, ranks.index + index * ranks.count))
        is_last = index + 1 == len(batches)  # with which gradients of all ranks are summed
        with nullcontext() if is_last else ranks.accumulating(state.parallel):
            with state.autocast():
                loss = state.parallel(batch.source, batch.target_input, batch.target_output)
            # Ranks exchange means of their gradients, and the sum is wanted.
            state.scaler.scale(loss.smoothed * (ranks.count / tokens)).backward()
        total += torch.stack([loss.smoothed.detach(), loss.nll]).to(total)
    smoothed, nll = ranks.sum(*total.tolist())
    return smoothed, nll


def settle(state: TrainState, ranks: Ranks) -> None:
    """Lets torch decide which gradients travel together, before the first update that counts.

    It does so after a first backward pass, and sums come out in another order then: a run that is
    resumed must not pass that point at another update than one that is not.
    """
    for _ in range(2):
        gradients(state, [NOTHING.to(state.model.device)], 1, 0, ranks)
    state.optimizer.zero_grad(set_to_none=True)
