"""What to do when memory does not suffice, and how to find what it suffices for."""

from __future__ import annotations

import ctypes
import math
import os
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import torch

from mtkit.batching.build import Batches
from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.machine import peak_bytes
from mtkit.symbols import EOS, PAD
from mtkit.terms import Batch
from mtkit.training.processes import Ranks
from mtkit.training.state import StepReport, TrainState

FEWEST_TOKENS, MOST_TOKENS = 512, 1 << 16
"""Number of tokens in a batch: with fewer, training is not worth while; with more, not faster."""
GIVE_BACK_UPDATES = 64
"""Number of updates after which memory is given back; claiming it again takes 1 % of their time."""
MEMORY_SHARE = 0.7
"""The part of free memory that batches may take: the rest is for validation and other programs."""


class BatchRefused(MtkitError):  # noqa: N818 - it says what happened
    """Memory does not suffice for the gradients of an update."""


@contextmanager
def refusals_named(state: TrainState) -> Iterator[None]:
    """Around gradients: those of a failed attempt are dropped; for want of memory, BatchRefused."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        state.optimizer.zero_grad(set_to_none=True)
        if not is_out_of_memory(error):
            raise
        reason = f"out of memory at step {state.step + 1}: lower batching.max_tokens"
        # Frames of the attempt would hold on to its memory.
        raise BatchRefused(reason) from error.with_traceback(None)


def split_if_refused(
    step: Callable[[Sequence[Batch], float], StepReport], batches: Sequence[Batch], rate: float
) -> StepReport:
    """`step` with `batches`; where memory refuses them, with each of them split in two.

    Raises BatchRefused where memory does not suffice for these either.
    """
    with suppress(BatchRefused):
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


def largest_batch(state: TrainState, data: Batches, accumulate: int, ranks: Ranks) -> int:
    """The most tokens, up to MOST_TOKENS, whose gradients fit into the memory of all ranks.

    What is tried are pairs as long as the longest of training and validation. The sizes are powers
    of two, doubled until one is refused or, where the system would rather end the process than
    refuse, until twice the memory that the last one took is more than there is.
    """
    longest = max(int(store.lengths.max()) for store in (data.train, data.valid)) + 1
    tokens = max(FEWEST_TOKENS, 1 << (longest - 1).bit_length())
    moments = [torch.zeros_like(p) for p in state.model.parameters() for _ in range(2)]
    _attempt(state, tokens, longest, ranks)  # if not even this fits, its error says so
    while tokens < MOST_TOKENS and _has_room_for_twice(state.model.device):
        try:
            with refusals_named(state):
                _attempt(state, 2 * tokens, longest, ranks)
        except BatchRefused:
            break
        tokens *= 2
    del moments  # the optimizer's, which are made in the first update
    state.optimizer.zero_grad(set_to_none=True)
    return min(MOST_TOKENS, -ranks.max(-tokens) * ranks.parts(accumulate))


def _attempt(state: TrainState, tokens: int, longest: int, ranks: Ranks) -> None:
    """Gradients of a batch of `tokens` tokens, in sentences of the length `longest`."""
    device = state.model.device
    ids = torch.full((tokens // longest, longest), EOS, device=device)
    with ranks.accumulating(state.parallel):  # ranks may differ in what they try
        with state.autocast():
            loss = state.parallel(ids, ids, ids)
        loss.smoothed.backward()


def give_back() -> None:
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
    return 2 * processes * peak_bytes() < MEMORY_SHARE * limit_bytes()


def limit_bytes() -> float:
    """Bytes that this process may hold: what is free now and what it has, unless bounded lower."""
    limits, meminfo = [math.inf], Path("/proc/meminfo")
    if meminfo.exists():
        fields = dict(line.split(":", 1) for line in meminfo.read_text().splitlines())
        limits.append(float(fields["MemAvailable"].split()[0]) * 1024 + peak_bytes())
    bound = resource.getrlimit(resource.RLIMIT_AS)[0]
    if bound != resource.RLIM_INFINITY:
        limits.append(bound)
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        if Path(path).exists() and (text := Path(path).read_text().strip()) != "max":
            limits.append(float(text))
    return min(limits)
