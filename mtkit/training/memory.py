"""Smaller batches when memory runs out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import torch

from mtkit.errors import MtkitError, is_out_of_memory
from mtkit.training.batch import Batch
from mtkit.training.data import StepData
from mtkit.training.state import TrainState


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
