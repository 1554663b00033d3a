"""Train for some seconds, to measure how fast this machine trains."""

from __future__ import annotations

import time
from collections.abc import Generator
from functools import partial

from mtkit.prefetch import prefetch
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup
from mtkit.training.setup import RunInputs
from mtkit.training.state import TrainState
from mtkit.training.step import train_step
from mtkit.training.timing import TimedWork, Work, time_work
from mtkit.training.train import halve_if_too_large

LEARNING_RATE = 1e-4
WARM_UP_STEPS = 3
"""Steps before the measurement, in which kernels are chosen and memory is allocated."""


def timed_steps(
    inputs: RunInputs, state: TrainState, seconds: float, group: ProcessGroup = SINGLE_PROCESS
) -> Generator[TimedWork]:
    """Train for about `seconds` seconds after the warm-up and yield each step."""

    def slowest(taken: float) -> float:
        """Return the longest duration of a step among all processes: they must stop together."""
        return group.max(round(taken * 1e6)) / 1e6

    steps = _train_steps(inputs, state, group)
    return time_work(steps, seconds, warm_up=WARM_UP_STEPS, agree_on_seconds=slowest)


def _train_steps(inputs: RunInputs, state: TrainState, group: ProcessGroup) -> Generator[Work]:
    """Train without end, and yield each step."""
    stream = inputs.stream(state.model, group)
    before = time.perf_counter()
    for step in prefetch(stream.steps(state.progress.position)):
        waiting_seconds = time.perf_counter() - before
        attempt = partial(
            train_step,
            state,
            tokens=step.tokens,
            rate=LEARNING_RATE,
            seed=inputs.config.seed,
            clip_norm=inputs.config.training.clip_norm,
            group=group,
        )
        if group.size == 1:  # as in training
            halve_if_too_large(attempt, step)
        else:
            attempt(step.batches)
        yield Work(tokens=step.tokens, waiting_seconds=waiting_seconds)
        before = time.perf_counter()
