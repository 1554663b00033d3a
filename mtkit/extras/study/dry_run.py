"""`mtkit train --dry-run N`: what training with N processes would take, from a few measured steps.

One process computes the share of one of N processes, so no other process is needed. One process
cannot measure gradient synchronisation (all-reduce). Its time is computed from the size of the
gradients and the speed of a network. After the backward pass, each process replaces its gradients
by the sum over all processes. In a ring, each of N processes sends 2 (N - 1) / N times the size of
the gradients for this sum (Patarasuk and Yuan 2009), and computes nothing in the meantime.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch

from mtkit.batching.plan import Rows
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.extras.study.bench.results import TableRows, write_report
from mtkit.extras.study.bench.training_speed import describe_peak, peak_mib
from mtkit.extras.study.memory import check_memory, tabulate_memory
from mtkit.machine import check_single_process
from mtkit.models.device import pick_device
from mtkit.report import plural
from mtkit.training.data import Position, Stream
from mtkit.training.process_group import FirstOfSeveral
from mtkit.training.processes import threads_per_process
from mtkit.training.setup import RunInputs, open_inputs
from mtkit.training.speed import timed_steps
from mtkit.training.timing import window_rates

SECONDS = 3.0
"""Duration of a measurement, after a few steps that are not measured."""
LINKS = (10, 100, 400)
"""Speeds of networks, in Gbit/s: Ethernet, and the usual ones between servers with GPUs."""


@dataclass(frozen=True)
class Share:
    """What each of several processes does."""

    processes: int
    tokens: float
    """Mean number of target tokens of a step, of all processes."""
    seconds: float
    """Time in which one process computes its part of a step."""
    steps_per_epoch: int
    total_steps: int
    gradient_bytes: int
    peak: str
    model: str

    def all_reduce_seconds(self, link: int) -> float:
        """Return the time of an all-reduce of the gradients over a network of `link` Gbit/s."""
        sent_bytes = 2 * (self.processes - 1) / self.processes * self.gradient_bytes
        return 8 * sent_bytes / (1e9 * link)

    def speedup(self, alone: Share, all_reduce_seconds: float) -> float:
        """Return the speed of all processes together, in tokens, relative to `alone`."""
        speed = self.tokens / (self.seconds + all_reduce_seconds)
        return speed / (alone.tokens / alone.seconds)


def dry_run(config: Config, processes: int) -> None:
    """Write to stdout what training would take; nothing is written to the run.

    Raises:
        UserError: an earlier stage is missing, torchrun has started several processes, or the model
            does not fit into memory.
        BatchTooLargeError: out of memory.
    """
    check_single_process()
    inputs = open_inputs(config)
    write = partial(
        write_report, record={}, device=pick_device(config.training.device), as_json=False
    )
    memory = list(tabulate_memory(config, inputs.tokenizer, inputs.data))
    try:
        check_memory(config, inputs.tokenizer, inputs.data)
    except UserError:
        write(config.run, tables=[memory])
        raise
    torch.set_num_threads(threads_per_process(processes))
    plan = Stream(config, inputs.data).plan(Position())
    share = _measure(inputs, plan, processes)
    alone = share if processes == 1 else _measure(inputs, plan, 1)
    task = f"{config.run}: {share.model}, {plural(processes, 'process')}"
    write(task, tables=[_figures(share), memory, _times(share, alone)])


def _measure(inputs: RunInputs, plan: Sequence[Rows], processes: int) -> Share:
    """Train for some seconds, as the first of `processes` processes.

    `plan`: the batches of the first block of an epoch, which any number of processes have.
    """
    group = FirstOfSeveral(processes)
    state = inputs.initial_state()
    stream = inputs.stream(state.model, group)
    tokens = stream.count_tokens(plan) / stream.count_steps(plan)
    speed = median(window_rates(list(timed_steps(inputs, state, SECONDS, group))))
    parameters = sum(parameter.numel() for parameter in state.model.parameters())
    precision = state.progress.precision
    return Share(
        processes=processes,
        tokens=tokens,
        seconds=tokens / speed,
        steps_per_epoch=stream.steps_per_epoch(plan),
        total_steps=stream.total_steps(),
        gradient_bytes=state.gradients.flat.nbytes,
        peak=describe_peak(peak_mib(state.model.device, group)),
        model=f"{inputs.config.model.kind}, {parameters:,} parameters, {precision}",
    )


def _figures(share: Share) -> TableRows:
    return [
        ["target tokens per process and step", f"{share.tokens / share.processes:,.0f}"],
        ["steps per epoch", f"{share.steps_per_epoch:,}"],
        ["steps of the run", f"{share.total_steps:,}"],
        ["peak memory per process", share.peak],
        ["gradients", f"{share.gradient_bytes / 2**20:,.1f} MiB"],
    ]


def _times(share: Share, alone: Share) -> TableRows:
    """Return the times of a step, an epoch and the run, without validations, and the speedup."""
    rows = [["without validations", "step", "epoch", "run", "speed"]]
    rows.append(["1 process", *_times_of(alone, alone, 0.0)])
    if share.processes > 1:
        for link in LINKS:
            times = _times_of(share, alone, share.all_reduce_seconds(link))
            rows.append([f"{share.processes:,} processes, {link} Gbit/s", *times])
    return rows


def _times_of(share: Share, alone: Share, all_reduce_seconds: float) -> list[str]:
    step = share.seconds + all_reduce_seconds
    times = [step, step * share.steps_per_epoch, step * share.total_steps]
    speedup = share.speedup(alone, all_reduce_seconds)
    return [*map(_describe_seconds, times), f"{speedup:,.1f} ×"]


def _describe_seconds(seconds: float) -> str:
    """Return a duration in the largest unit that is not above it, such as "8.6 h"."""
    for unit, length in (("h", 3600.0), ("min", 60.0), ("s", 1.0)):
        if seconds >= length:
            return f"{seconds / length:,.1f} {unit}"
    return f"{seconds * 1e3:,.1f} ms"
