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
from mtkit.training.figures import StepSums
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
        message = f"out of memory at step {state.progress.step + 1:,}; lower batching.max_tokens"
        # The frames of a traceback would keep the memory of this attempt.
        raise BatchTooLargeError(message) from error.with_traceback(None)
    for parameters in state.optimizer.param_groups:
        parameters["lr"].fill_(rate)
    state.launcher.call("update", partial(_update, state, clip_norm), sums)
    state.complete_step(rate)


def accumulate_gradients(
    state: TrainState, batches: Sequence[Batch], tokens: int, seed: int, group: ProcessGroup
) -> StepSums:
    """Divide the loss of each micro-batch by `tokens`, and add up the gradients of all processes.

    Return the losses, summed over all processes, and `tokens`.
    """
    step = state.progress.step + 1
    sums = StepSums.zeros(tokens, like=state.figures.values)
    factor = (1 / sums.tokens).float()
    for index, batch in enumerate(batches):
        # The dropout seed depends on the number of the micro-batch, counted over all processes. So
        # it is the same in a resumed run, and 2 processes have the seeds of 1 process that
        # accumulates 2 batches.
        micro_batch = group.rank + index * group.size
        torch.manual_seed(seed_of(seed, step, micro_batch))
        inputs = (batch.to(state.model.device), factor)
        losses = state.launcher.call("gradients", partial(_add_gradients, state), inputs)
        sums.losses.add_(losses)  # now, because a CUDA graph will overwrite `losses`
    group.sum_gradients(state.gradients.flat)
    group.sum_tensor(sums.losses)
    return sums


def _add_gradients(state: TrainState, inputs: tuple[Batch, Tensor]) -> Float[Tensor, " 2"]:
    """Add the gradients of `factor` times the smoothed loss; return smoothed loss and nll."""
    batch, factor = inputs
    with state.autocast():
        loss = state.loss(batch)
    (loss.smoothed * factor).backward()
    return torch.stack([loss.smoothed.detach(), loss.nll]).to(state.figures.values.dtype)


def _update(state: TrainState, clip_norm: float | None, sums: StepSums) -> Tensor:
    """Clip the gradients, update the weights, and count the step; return the values of `figures`.

    A step whose loss or norm is not finite changes no weights.
    """
    # Clipping (Pascanu et al. 2013) limits the norm of all gradients, seen as one vector.
    max_norm = math.inf if clip_norm is None else clip_norm  # the norm is logged in any case
    norm = torch.nn.utils.clip_grad_norm_(state.model.parameters(), max_norm)
    is_healthy = sums.smoothed.isfinite() & norm.isfinite()
    with state.autocast():  # Muon multiplies matrices, too
        step_where(is_healthy, state.optimizer)
    state.gradients.clear()
    return state.figures.add(sums, norm, is_healthy)
