"""Updates of the real training step on real batches, each with what it took."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import count

from mtkit.decoding.ahead import prefetch
from mtkit.report import progress
from mtkit.study.bench.workload import Workload
from mtkit.training.data.updates import Stream
from mtkit.training.state import TrainState
from mtkit.training.step import train_step

LEARNING_RATE = 1e-4
WARM_UPDATES = 3
"""Number before anything counts: kernels are chosen, memory is claimed, batches come ahead."""
WINDOWS = 10


@dataclass(frozen=True)
class Timed:
    """One update: its real target tokens, its seconds, and those of them spent waiting for data."""

    tokens: int
    seconds: float
    waited: float


def timed_updates(workload: Workload, state: TrainState) -> Generator[Timed]:
    """Trains without end, from the first batch on; what comes after some updates is told."""
    config, device = workload.config, state.model.output_weight.device
    training = config.training
    stream = Stream(
        workload.data, state.max_tokens, config.seed, training.accumulate, workload.segmentation
    )
    updates = prefetch(stream.updates(state.position))
    for number in count():
        began = time.perf_counter()
        update = next(updates)
        ready = time.perf_counter()
        batches = [batch.to(device) for batch in update.batches]
        report = train_step(
            state, batches, LEARNING_RATE, seed=config.seed, clip_norm=training.clip_norm
        )
        if number >= WARM_UPDATES:
            yield Timed(report.tokens, time.perf_counter() - began, ready - began)


def measure_updates(workload: Workload, state: TrainState, seconds: float) -> list[Timed]:
    """Every update of about `seconds` seconds."""
    counted: list[Timed] = []
    with (
        closing(timed_updates(workload, state)) as steps,
        progress("training", unit="updates") as shown,
    ):
        left = seconds
        while left > 0:
            counted.append(next(steps))
            left -= counted[-1].seconds
            shown.advance()
    return counted


def window_rates(steps: Sequence[Timed]) -> Iterator[float]:
    """Target tokens per second in up to `WINDOWS` spans of whole updates and about equal time."""
    length = sum(step.seconds for step in steps) / WINDOWS
    tokens, seconds = 0, 0.0
    for step in steps:
        tokens, seconds = tokens + step.tokens, seconds + step.seconds
        if seconds >= length:
            yield tokens / seconds
            tokens, seconds = 0, 0.0
