"""`mtkit bench train`: how fast a config or a model size trains on this machine."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from tempfile import TemporaryDirectory
from typing import Any

import torch

from mtkit.artifacts.manifest import open_artifact
from mtkit.batching.build import open_batches
from mtkit.batching.plan import padding, plan_epoch
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.machine import peak_bytes
from mtkit.models.device import pick_device
from mtkit.prefetch import prefetch
from mtkit.progress import progress
from mtkit.report import plural, show
from mtkit.study.bench.sample import describe_machine, draw_batches, draw_tokenizer, size_config
from mtkit.tokenizer.codec import Tokenizer
from mtkit.training.process_group import SINGLE_PROCESS, ProcessGroup, connect_processes
from mtkit.training.processes import count_processes, start_processes
from mtkit.training.setup import RunInputs
from mtkit.training.state import TrainState
from mtkit.training.step import train_step

LEARNING_RATE = 1e-4
WARM_UP_STEPS = 3
"""Steps before the measurement, in which kernels are chosen and memory is allocated."""
WINDOWS = 10
"""Number of time windows that a measurement is divided into; the median window is reported."""
REPORT = """\
{workload}: {model}, {parameters:,} parameters
{precision}, {processes} x {processor}, {threads}, torch {torch}

target tokens/s   {rate[median]:,.0f}  ({rate[min]:,.0f} to {rate[max]:,.0f} in {windows} windows)
step              {step_ms:,.1f} ms  ({steps:,} steps, {tokens_per_step:,.0f} target tokens each)
waiting for data  {waiting_for_data:.2%}
padding           {padding:.2%}
peak memory       {peak}"""


@dataclass(frozen=True)
class TimedStep:
    """Target tokens of a step, its seconds, and how many of them it waited for data."""

    tokens: int
    seconds: float
    waiting_seconds: float


def timed_steps(
    inputs: RunInputs, state: TrainState, seconds: float, group: ProcessGroup = SINGLE_PROCESS
) -> Generator[TimedStep]:
    """Train for about `seconds` seconds after the warm-up and yield each step."""
    clip_norm, seed = inputs.config.training.clip_norm, inputs.config.seed
    make_step = partial(train_step, state, seed=seed, clip_norm=clip_norm, group=group)
    stream = inputs.stream(state.model, group)
    last = time.perf_counter()
    for number, step in enumerate(prefetch(stream.steps(state.progress.position))):
        ready = time.perf_counter()
        make_step(step.batches, step.tokens, LEARNING_RATE)
        before, last = last, time.perf_counter()
        if number >= WARM_UP_STEPS:
            yield TimedStep(step.tokens, last - before, ready - before)
            seconds -= group.max(round((last - before) * 1e6)) / 1e6
            if seconds <= 0:
                return


def window_rates(steps: Sequence[TimedStep]) -> list[float]:
    """Return the target tokens per second of up to WINDOWS equal windows of whole steps."""
    length = sum(step.seconds for step in steps) / WINDOWS
    rates, tokens, seconds = [], 0, 0.0
    for step in steps:
        tokens, seconds = tokens + step.tokens, seconds + step.seconds
        if seconds >= length:
            rates.append(tokens / seconds)
            tokens, seconds = 0, 0.0
    return rates


@contextmanager
def open_training_sample(
    config_file: Path | None, size: str, overrides: Sequence[str]
) -> Iterator[tuple[str, RunInputs]]:
    """Open the batches of a config's run, or draw batches for a model size; yield a name, too.

    Raises:
        UserError: the config or an override is not valid, or the run has no batches.
    """
    if config_file is not None:
        config = load_config(config_file, overrides)
        run = Path(config.run)
        tokenizer = Tokenizer.load(open_artifact(run / "tokenizer", "tokenizer"))
        yield config.run, RunInputs(config, open_batches(run / "batches"), tokenizer, None)
        return
    config = size_config(size, overrides)
    if config.training.subword_sampling is not None:
        raise UserError("training.subword_sampling needs training text; give its config with -c")
    vocab = config.tokenizer.vocab_size
    with TemporaryDirectory(prefix="mtkit-bench-") as folder:
        data = draw_batches(Path(folder), vocab, config.seed)
        name = f"{size}, sentences as long as Multi30k's"
        yield name, RunInputs(config, data, draw_tokenizer(vocab), None)


def bench_train(
    config_file: Path | None, size: str, overrides: Sequence[str], seconds: float, as_json: bool
) -> None:
    """Train for about `seconds` seconds and write a report; keep no files.

    Starts as many processes as `mtkit train` would.
    """
    with open_training_sample(config_file, size, overrides) as (name, inputs):
        processes = count_processes(inputs.config, inputs.tokenizer)
        if processes > 1:
            arguments = config_file, size, overrides, seconds, as_json
            start_processes(bench_train, processes, *arguments)
            return
        with connect_processes(pick_device(inputs.config.training.device)) as group:
            record = {"workload": name, **_measure(inputs, seconds, group)}
            if group.is_main:
                show(record, _text, as_json=as_json)


def _measure(inputs: RunInputs, seconds: float, group: ProcessGroup) -> dict[str, Any]:
    state, config = inputs.initial_state(group), inputs.config
    device, lengths, steps = state.model.device, inputs.data.train.lengths, []
    with progress("training", unit="steps") as shown:
        for step in timed_steps(inputs, state, seconds, group):
            steps.append(step)
            shown.advance()
    rates, total = window_rates(steps), sum(step.seconds for step in steps)
    peak = {"resident": sum(group.gather(peak_bytes())) >> 20}
    if device.type == "cuda":
        peak["gpu"] = torch.cuda.max_memory_allocated(device) >> 20
    max_tokens = config.batching.max_tokens
    plan = plan_epoch(lengths, max_tokens=max_tokens, seed=config.seed, epoch=0)
    record = {
        "model": config.model.kind,
        "parameters": sum(parameter.numel() for parameter in state.model.parameters()),
        "precision": state.progress.precision,
        "max_tokens": max_tokens,
        "processes": group.size,
        "tokens_per_second": {of.__name__: round(of(rates), 1) for of in (median, min, max)},
        "windows": len(rates),
        "steps": len(steps),
        "step_ms": round(median(step.seconds for step in steps) * 1e3, 2),
        "tokens_per_step": round(mean(step.tokens for step in steps), 1),
        "waiting_for_data": round(sum(step.waiting_seconds for step in steps) / total, 4),
        "padding": round(padding(lengths, plan), 4),
        "peak_mib": peak,
    }
    return record | describe_machine(device)


def _text(record: dict[str, Any]) -> Iterator[str]:
    peak = ", ".join(f"{mib:,} MiB {place}" for place, mib in record["peak_mib"].items())
    shown = {"rate": record["tokens_per_second"], "threads": plural(record["threads"], "thread")}
    yield REPORT.format_map(record | shown | {"peak": peak})
