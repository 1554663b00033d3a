"""Memory: the largest batch that fits, and smaller batches when it runs out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import torch

from mtkit.batching.build import Batches
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.machine import memory_limit_bytes, peak_bytes
from mtkit.symbols import EOS
from mtkit.training.batch import Batch, pack_batch
from mtkit.training.data import StepData
from mtkit.training.process_group import ProcessGroup
from mtkit.training.state import TrainState

MIN_BATCH_TOKENS, MAX_BATCH_TOKENS = 512, 1 << 16
"""Range of the tokens in a batch; smaller ones are slow, and larger ones are not faster."""
MEMORY_SHARE = 0.7
"""Share of the free memory for batches; the rest is for validation and other programs."""


class BatchTooLargeError(MtkitError):
    """Memory does not suffice for the gradients of a step."""


@contextmanager
def oom_as_error(state: TrainState) -> Iterator[None]:
    """Drop the gradients if the block fails; raise BatchTooLargeError if memory ran out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        state.clear_gradients()
        if not is_out_of_memory(error):
            raise
        reason = f"out of memory at step {state.progress.step + 1:,}; lower batching.max_tokens"
        # Frames in the traceback would keep the memory of the attempt.
        raise BatchTooLargeError(reason) from error.with_traceback(None)


def halve_if_too_large(
    step: Callable[[Sequence[Batch]], None], data: StepData, device: torch.device
) -> None:
    """Make a step; if memory runs out, make it with every batch split in two.

    Raises:
        BatchTooLargeError: memory does not suffice for these, either.
    """
    with suppress(BatchTooLargeError):
        return step([batch.to(device) for batch in data.batches])
    return step([batch.to(device) for batch in data.halved()])


def largest_batch(state: TrainState, data: Batches, accumulate: int, group: ProcessGroup) -> int:
    """Return the most tokens, up to MAX_BATCH_TOKENS, whose gradients fit into memory.

    The sizes that are tried are powers of two, of pairs as long as the longest one. A CPU system
    kills a process rather than refuse memory, so a size is tried there only if twice the memory of
    the last one is available.
    """
    length = max(int(store.lengths.max()) for store in (data.train, data.valid)) + 1
    tokens = max(MIN_BATCH_TOKENS, 1 << (length - 1).bit_length())
    moments = [torch.zeros_like(p) for p in state.model.parameters() for _ in range(2)]
    _try_batch(state, tokens, length, group)  # if this is too large, its error says so
    while tokens < MAX_BATCH_TOKENS and _has_room_for_twice(state.model.device):
        try:
            with oom_as_error(state):
                _try_batch(state, 2 * tokens, length, group)
        except BatchTooLargeError:
            break
        tokens *= 2
    del moments  # as large as the optimizer's, which the first step allocates
    state.clear_gradients()
    return min(MAX_BATCH_TOKENS, -group.max(-tokens) * group.parts(accumulate))


def _try_batch(state: TrainState, tokens: int, length: int, group: ProcessGroup) -> None:
    """Compute the gradients of a batch of `tokens` tokens, in sentences of one length."""
    device = state.model.device
    count = tokens // length
    side = np.full(count * (length - 1), EOS), np.full(count, length - 1)
    batch = pack_batch(side, side).to(device)
    with group.no_sync(state.loss):  # processes may try different sizes
        with state.autocast():
            loss = state.loss(batch)
        loss.smoothed.backward()


def _has_room_for_twice(device: torch.device) -> bool:
    if device.type != "cpu":
        return True  # the allocator of a GPU refuses in time
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return 2 * processes * peak_bytes() < MEMORY_SHARE * memory_limit_bytes()
