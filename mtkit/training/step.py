"""One training step.

The loss of a step is the mean over its target tokens, however they are divided into micro-batches
and processes: all tokens are counted before the first gradient is computed,

    gradient = Σ over micro-batches of ∇(summed loss of the micro-batch) / (tokens of the step).

So 1 batch of 8 sentences, 2 accumulated batches of 4, and 2 processes with 4 sentences each give
the same update. The loop in train.py does everything else: it prefetches batches, retries with
smaller ones when memory runs out, and logs.

Nothing here is copied from the device to the CPU, so Python never waits for the device. A step
whose loss or gradient is not finite is skipped by arithmetic, and sums stay on the device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.training.batch import Batch
from mtkit.training.data import seed_of
from mtkit.training.optimizers import step_where
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup
from mtkit.training.state import TrainState


class BatchTooLargeError(MtkitError):
    """There is not enough memory for the gradients of a step."""


def train_step(
    state: TrainState,
    batches: Sequence[Batch],
    tokens: int,
    rate: float,
    *,
    seed: int,
    clip_norm: float | None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> None:
    """Update the weights by the gradient of the mean loss, with the learning rate `rate`.

    `tokens` counts the target tokens of all processes. If the loss or the gradient is not finite,
    the weights stay unchanged.

    Raises:
        BatchTooLargeError: out of memory; `state` is unchanged, as after any other error.
    """
    try:
        sums = accumulate_gradients(state, batches, tokens, seed, group)
    except (RuntimeError, MemoryError) as error:
        state.gradients.clear()
        if not is_out_of_memory(error):
            raise
        reason = f"out of memory at step {state.progress.step + 1:,}; lower batching.max_tokens"
        # The frames of a traceback would keep the memory of this attempt.
        raise BatchTooLargeError(reason) from error.with_traceback(None)
    for parameters in state.optimizer.param_groups:
        parameters["lr"].fill_(rate)
    state.call("update", partial(_update, state, clip_norm), sums)
    state.complete_step(rate)


def accumulate_gradients(
    state: TrainState, batches: Sequence[Batch], tokens: int, seed: int, group: ProcessGroup
) -> Float[Tensor, " 3"]:
    """Divide the loss of each micro-batch by `tokens`, and add up the gradients of all processes.

    Return smoothed loss and nll, in nats, each summed over all processes; and `tokens`.
    """
    sums = state.figures.new_zeros(3)
    sums[2].fill_(tokens)
    share = (1 / sums[2]).float()
    for index, batch in enumerate(batches):
        # The dropout seed depends on the number of the micro-batch, counted over all processes: it
        # is the same in a resumed run, and in 2 processes as in 1 that accumulates 2 batches.
        torch.manual_seed(seed_of(seed, state.progress.step + 1, group.rank + index * group.size))
        inputs = batch.to(state.model.device), share
        sums[:2] += state.call("gradients", partial(_add_gradients, state), inputs)
    group.sum_gradients(state.gradients.flat)
    group.sum_tensor(sums[:2])
    return sums


def _add_gradients(state: TrainState, inputs: tuple[Batch, Tensor]) -> Float[Tensor, " 2"]:
    """Add the gradients of `factor` times the smoothed loss; return smoothed loss and nll."""
    batch, factor = inputs
    with state.autocast():
        loss = state.loss(batch)
    state.scaler.scale(loss.smoothed * factor).backward()
    return torch.stack([loss.smoothed.detach(), loss.nll]).to(state.figures.dtype)


def _update(state: TrainState, clip_norm: float | None, sums: Float[Tensor, " 3"]) -> Tensor:
    """Clip the gradients, update the weights, and count the step in the figures."""
    # Clipping (Pascanu et al. 2013) limits the norm of all gradients, seen as one vector.
    state.scaler.unscale_(state.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(
        state.model.parameters(), math.inf if clip_norm is None else clip_norm
    )
    healthy = sums[0].isfinite() & norm.isfinite()
    with state.autocast():  # Muon multiplies matrices, too
        step_where(healthy, state.optimizer)
    # In float16 a gradient may overflow; then the scaler halves its scale, but not below 1.
    overflow_is_normal = state.scaler.scale(torch.ones_like(norm)) > 1
    state.scaler.update()
    state.gradients.clear()
    state.add_figures(sums, norm, healthy, ~healthy & ~(overflow_is_normal & sums[0].isfinite()))
    return state.figures
