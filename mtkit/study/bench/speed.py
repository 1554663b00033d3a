"""Measures training: real steps of a config on batches, each with its time."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from statistics import median

from mtkit.batching.build import Batches
from mtkit.config.settings import Config
from mtkit.prefetch import prefetch
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.data import Stream
from mtkit.training.memory import largest_batch
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup
from mtkit.training.setup import MIN_STEPS_TO_COMPILE, initial_state, should_compile
from mtkit.training.state import TrainState
from mtkit.training.step import train_step

LEARNING_RATE = 1e-4
WARM_UP_STEPS = 3
"""Number of steps before anything counts: kernels are chosen, memory and batches are prefetched."""
WINDOWS = 10
"""Number of spans of time that a measurement is divided into; the median span counts."""


@dataclass(frozen=True)
class TrainingSample:
    """What is trained: a config, batches and their tokenizer."""

    name: str
    config: Config
    data: Batches
    tokenizer: Tokenizer

    def new_state(self, group: ProcessGroup = SINGLE_PROCESS) -> TrainState:
        """Return the state before the first step, compiled where training would compile it."""
        training = self.config.training
        state = initial_state(self.config, self.tokenizer, group)
        if not state.progress.max_tokens:
            state.progress.max_tokens = largest_batch(state, self.data, training.accumulate, group)
        steps = training.steps or MIN_STEPS_TO_COMPILE
        if should_compile(training.compile, state.model.device, steps):
            state.model.compile(dynamic=True)
        return state


@dataclass(frozen=True)
class TimedStep:
    """One training step: its target tokens, its seconds, and those of them spent on waiting."""

    tokens: int
    seconds: float
    """Seconds since the end of the step before."""
    waiting_seconds: float
    """Seconds until its batches were there."""


def training_speed(
    config: Config,
    data: Batches,
    tokenizer: Tokenizer,
    seconds: float,
    group: ProcessGroup = SINGLE_PROCESS,
) -> float:
    """Return the target tokens per second of training for some seconds in this process."""
    sample = TrainingSample(config.run, config, data, tokenizer)
    steps = timed_steps(sample, sample.new_state(group), seconds, group)
    return median(window_rates(list(steps)))


def timed_steps(
    sample: TrainingSample, state: TrainState, seconds: float, group: ProcessGroup = SINGLE_PROCESS
) -> Generator[TimedStep]:
    """Train for about `seconds` seconds after the warm-up and yield each step."""
    config = sample.config
    stream = Stream(config, sample.data, sample.tokenizer, state.progress.max_tokens, group)
    last = time.perf_counter()
    for number, step in enumerate(prefetch(stream.steps(state.progress.position))):
        ready = time.perf_counter()
        batches = [batch.to(state.model.device) for batch in step.batches]
        clip_norm, seed = config.training.clip_norm, config.seed
        report = train_step(
            state, batches, LEARNING_RATE, seed=seed, clip_norm=clip_norm, group=group
        )
        before, last = last, time.perf_counter()
        if number >= WARM_UP_STEPS:
            yield TimedStep(report.tokens, last - before, ready - before)
            seconds -= group.max(round((last - before) * 1e6)) / 1e6
            if seconds <= 0:
                return


def window_rates(steps: Sequence[TimedStep]) -> list[float]:
    """Return the target tokens per second of up to WINDOWS spans of whole steps and equal time."""
    length = sum(step.seconds for step in steps) / WINDOWS
    rates, tokens, seconds = [], 0, 0.0
    for step in steps:
        tokens, seconds = tokens + step.tokens, seconds + step.seconds
        if seconds >= length:
            rates.append(tokens / seconds)
            tokens, seconds = 0, 0.0
    return rates
