"""One training step.

The loss of a step is the mean over its target tokens, however these are spread over the
micro-batches of all processes: all tokens are counted before the first gradient is computed,

    gradient = Σ over micro-batches of ∇(their summed losses) / (target tokens of all of them),

so that 1 batch of 8 sentences, 2 accumulated ones of 4, and 2 processes with 4 each change the
weights alike. The loop in train.py does everything else: it prefetches batches, retries with
smaller ones when memory runs out, and returns freed memory to the system.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext

import torch

from mtkit.terms import Batch
from mtkit.training.data import EMPTY_BATCH, seed_of
from mtkit.training.memory import oom_as_error
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup
from mtkit.training.state import StepReport, TrainState


def train_step(
    state: TrainState,
    batches: Sequence[Batch],
    rate: float,
    *,
    seed: int,
    clip_norm: float | None,
    group: ProcessGroup = SINGLE_PROCESS,
) -> StepReport:
    """Update the weights by the gradient of the mean loss, with the learning rate `rate`.

    If the loss or the gradient is not finite, the step is skipped and the weights stay unchanged.

    Raises:
        BatchTooLargeError: out of memory; `state` is unchanged, as after any other error.
    """
    (tokens,) = group.sum(sum(batch.target_tokens for batch in batches))
    with oom_as_error(state):
        smoothed, nll = accumulate_gradients(state, batches, tokens, seed, group)
    # Clipping (Pascanu et al. 2013) limits the norm of all gradients together, as one vector.
    state.scaler.unscale_(state.optimizer)
    norm = torch.nn.utils.clip_grad_norm_(
        state.model.parameters(), math.inf if clip_norm is None else clip_norm
    ).item()
    # In float16 the scaler itself skips a step that overflows, and halves its scale down to 1.
    overflow_is_normal = state.scaler.is_enabled() and state.scaler.get_scale() > 1
    healthy = math.isfinite(smoothed) and (math.isfinite(norm) or overflow_is_normal)
    if healthy:
        for parameters in state.optimizer.param_groups:
            parameters["lr"] = rate
        with state.autocast():  # Muon multiplies matrices, too
            state.scaler.step(state.optimizer)
    state.scaler.update()
    state.optimizer.zero_grad(set_to_none=True)  # frees their memory between steps
    progress = state.progress
    progress.step += 1
    progress.skipped += not healthy
    progress.skipped_in_a_row = 0 if healthy else progress.skipped_in_a_row + 1
    return StepReport(smoothed, nll, int(tokens), rate, norm, skipped=not healthy)


def accumulate_gradients(
    state: TrainState, batches: Sequence[Batch], tokens: int | float, seed: int, group: ProcessGroup
) -> tuple[float, float]:
    """Add up the gradients of all micro-batches, of their losses divided by `tokens`.

    Return the sums of smoothed loss and nll over all processes, in nats.
    """
    total = torch.zeros(2, dtype=torch.float64)
    for index, batch in enumerate(batches):
        # Dropout is seeded by the place of the micro-batch among those of all processes: it stays
        # the same in a resumed run, and with 2 processes instead of 1 that accumulates 2 batches.
        torch.manual_seed(seed_of(seed, state.progress.step + 1, group.rank + index * group.size))
        is_last = index + 1 == len(batches)  # whose backward pass sums the gradients of processes
        with nullcontext() if is_last else group.no_sync(state.loss):
            with state.autocast():
                loss = state.loss(batch.source, batch.target_input, batch.target_output)
            # DistributedDataParallel averages gradients over processes; here they are to be summed.
            state.scaler.scale(loss.smoothed * (group.size / tokens)).backward()
        total += torch.stack([loss.smoothed.detach(), loss.nll]).to(total)
    smoothed, nll = group.sum(*total.tolist())
    return smoothed, nll


def warm_up_ddp(state: TrainState, group: ProcessGroup) -> None:
    """Let DistributedDataParallel choose its buckets of gradients before the first real step.

    It does so after a first backward pass, which changes the order of sums: without this a resumed
    run would change that order at another step than an uninterrupted one.
    """
    for _ in range(2):
        accumulate_gradients(state, [EMPTY_BATCH.to(state.model.device)], 1, 0, group)
    state.optimizer.zero_grad(set_to_none=True)
