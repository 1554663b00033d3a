"""What to do when memory does not suffice, and how to find what it suffices for."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from mtkit.batching.build import Batches
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.machine import memory_limit_bytes, peak_bytes
from mtkit.symbols import EOS, PAD
from mtkit.terms import Batch
from mtkit.training.process_group import ProcessGroup
from mtkit.training.state import StepReport, TrainState

MIN_BATCH_TOKENS, MAX_BATCH_TOKENS = 512, 1 << 16
"""Number of tokens in a batch: with fewer, training is not worth while; with more, not faster."""
TRIM_EVERY_STEPS = 64
"""Number of updates after which memory is given back; claiming it again takes 1 % of their time."""
MEMORY_SHARE = 0.7
"""The part of free memory that batches may take: the rest is for validation and other programs."""


class BatchTooLarge(MtkitError):  # noqa: N818 - it says what happened
    """Memory does not suffice for the gradients of an update."""


@contextmanager
def oom_as_error(state: TrainState) -> Iterator[None]:
    """Drop the gradients if the block fails, and raise BatchTooLarge if memory ran out."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        state.optimizer.zero_grad(set_to_none=True)
        if not is_out_of_memory(error):
            raise
        reason = f"out of memory at step {state.step + 1}: lower batching.max_tokens"
        # Frames of the attempt would hold on to its memory.
        raise BatchTooLarge(reason) from error.with_traceback(None)


def halve_if_too_large(
    step: Callable[[Sequence[Batch], float], StepReport], batches: Sequence[Batch], rate: float
) -> StepReport:
    """`step` with `batches`; where memory refuses them, with each of them split in two.

    Raises BatchTooLarge where memory does not suffice for these either.
    """
    with suppress(BatchTooLarge):
        return step(batches, rate)
    return step([half for batch in batches for half in _halves(batch)], rate)


def _halves(batch: Batch) -> list[Batch]:
    """The same sentences as two batches, or as one where there is only one."""
    size = -(-len(batch.source) // 2)
    sides = batch.source, batch.target_input, batch.target_output
    parts = zip(*(side.split(size) for side in sides), strict=True)
    return [
        Batch(source, before, output, int((output != PAD).sum()))
        for source, before, output in parts
    ]


def largest_batch(state: TrainState, data: Batches, accumulate: int, group: ProcessGroup) -> int:
    """The most tokens, up to MAX_BATCH_TOKENS, whose gradients fit into the memory of all ranks.

    What is tried are pairs as long as the longest of training and validation. The sizes are powers
    of two, doubled until one is refused or, where the system would rather end the process than
    refuse, until twice the memory that the last one took is more than there is.
    """
    longest = max(int(store.lengths.max()) for store in (data.train, data.valid)) + 1
    tokens = max(MIN_BATCH_TOKENS, 1 << (longest - 1).bit_length())
    moments = [torch.zeros_like(p) for p in state.model.parameters() for _ in range(2)]
    _attempt(state, tokens, longest, group)  # if not even this fits, its error says so
    while tokens < MAX_BATCH_TOKENS and _has_room_for_twice(state.model.device):
        try:
            with oom_as_error(state):
                _attempt(state, 2 * tokens, longest, group)
        except BatchTooLarge:
            break
        tokens *= 2
    del moments  # the optimizer's, which are made in the first update
    state.optimizer.zero_grad(set_to_none=True)
    return min(MAX_BATCH_TOKENS, -group.max(-tokens) * group.parts(accumulate))


def _attempt(state: TrainState, tokens: int, longest: int, group: ProcessGroup) -> None:
    """Gradients of a batch of `tokens` tokens, in sentences of the length `longest`."""
    device = state.model.device
    ids = torch.full((tokens // longest, longest), EOS, device=device)
    with group.no_sync(state.parallel):  # ranks may differ in what they try
        with state.autocast():
            loss = state.parallel(ids, ids, ids)
        loss.smoothed.backward()


def trim_heap() -> None:
    """Returns memory that freed tensors left to the system, where the C library is glibc.

    No two batches have the same shape, so that glibc finds ever fewer of the holes it keeps large
    enough: on Multi30k they are two thirds of the memory after a few hundred updates.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _has_room_for_twice(device: torch.device) -> bool:
    if device.type != "cpu":
        return True  # the allocator of a GPU refuses in time
    processes = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))  # set by torchrun
    return 2 * processes * peak_bytes() < MEMORY_SHARE * memory_limit_bytes()
