"""`mtkit bench train`: how fast a config or size trains here, and what holds it back.

With a breakdown, also where the time of an update goes: to parts of the model and the loop, and to
operators.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from statistics import mean, median
from typing import Any

import torch
from torch.autograd.graph import register_multi_grad_hook
from torch.profiler import profile

from mtkit.batching.plan import padding
from mtkit.machine import peak_bytes
from mtkit.models.device import pick_device
from mtkit.report import progress, show
from mtkit.study.bench.ceiling import middling_batch, product_seconds, products_of
from mtkit.study.bench.record import MACHINE, Record, describe_training, listed
from mtkit.study.bench.watching import part_names, profiling, telling
from mtkit.study.bench.workload import Timed, Workload
from mtkit.training.launcher import launch
from mtkit.training.processes import connected_ranks
from mtkit.training.setup import REPAYING_STEPS, ranks_to_start, repays_compiling
from mtkit.training.state import TrainState

WINDOWS = 10
DATA, OPTIMIZER = "data", "optimizer"
"""What of an update is before the forward pass, and what is after the backward pass."""
UPDATES = 5
"""Number that is divided among the parts, and as many again among operators."""
SMALLEST_SHARE = 0.0005
"""Share of an update below which a part is left out."""
OPERATORS_SHOWN = 10

SPEED = """\
target tokens/s   {rate[median]:,.0f}  ({rate[min]:,.0f} to {rate[max]:,.0f} in {windows} windows)
of the limit      {share_of_limit:.1%}  of {limit_tokens_per_second:,.0f}, what its products allow
update            {update_ms:,.1f} ms  ({updates:,} of them, {each:,.0f} target tokens each)
waiting for data  {waiting_for_data:.2%}
padding           {padding:.2%}
peak memory       {peak}"""


def bench_train(
    workload: Workload, command: Sequence[str], *, seconds: float, breakdown: bool, as_json: bool
) -> None:
    """Trains for about `seconds` seconds and writes a report; nothing is kept.

    On as many ranks as `mtkit train` would, which `command` makes of this very measurement. A
    breakdown is that of a single process, as is all that is measured with it.
    """
    training = workload.config.training
    count = 1 if breakdown else ranks_to_start(workload.config, workload.tokenizer)
    if count > 1:
        launch(command, count)
        return
    with connected_ranks(pick_device(training.device), training.rank_timeout) as ranks:
        record = _measure(replace(workload, ranks=ranks), seconds, breakdown)
        if ranks.is_first:
            show(record, _text, as_json=as_json)


def _measure(workload: Workload, seconds: float, breakdown: bool) -> Record:
    """Memory is read before the limit and the breakdown are measured."""
    state, ranks = workload.fresh_state(), workload.ranks
    device, training = state.model.device, workload.config.training
    compiled = repays_compiling(training.compile, device, training.steps or REPAYING_STEPS)
    if compiled:
        state.model.compile(dynamic=True)
    record: Record = {"workload": workload.name, "model": workload.config.model.name}
    record |= describe_training(state) | {"ranks": ranks.count, "compiled": compiled}
    record |= _speed(_updates(workload, state, seconds))
    padded = padding(workload.data.train.lengths, workload.first_epoch(state.max_tokens))
    resident = sum(ranks.gather(peak_bytes())) >> 20
    record |= {"padding": round(padded, 4), "peak_mib": {"resident": resident}}
    if device.type == "cuda":
        record["peak_mib"]["gpu"] = torch.cuda.max_memory_allocated(device) >> 20
    batch = middling_batch(workload, state)
    products = products_of(state, batch)
    limits: dict[str, float] = defaultdict(float)
    for product, taken in zip(products, product_seconds(products, batch), strict=True):
        limits[product.part] += taken
    limit = sum(ranks.gather(batch.target_tokens / sum(limits.values())))
    record["limit_tokens_per_second"] = round(limit, 1)
    record["share_of_limit"] = round(record["tokens_per_second"]["median"] / limit, 4)
    del state
    if breakdown:
        record |= measure_breakdown(workload, limits)
    return record


def _updates(workload: Workload, state: TrainState, seconds: float) -> list[Timed]:
    """Every update of about `seconds` seconds."""
    counted: list[Timed] = []
    with closing(workload.updates(state)) as updates, progress("training", unit="updates") as shown:
        while seconds > 0:
            counted.append(next(updates))
            seconds -= workload.ranks.max(round(counted[-1].seconds * 1e6)) / 1e6
            shown.advance()
    return counted


def _speed(updates: Sequence[Timed]) -> Record:
    rates = list(window_rates(updates))
    total = sum(update.seconds for update in updates)
    return {
        "tokens_per_second": {of.__name__: round(of(rates), 1) for of in (median, min, max)},
        "windows": len(rates),
        "updates": len(updates),
        "update_ms": round(median(update.seconds for update in updates) * 1e3, 2),
        "tokens_per_update": round(mean(update.tokens for update in updates), 1),
        "waiting_for_data": round(sum(update.waited for update in updates) / total, 4),
    }


def window_rates(updates: Sequence[Timed]) -> Iterator[float]:
    """Target tokens per second in up to `WINDOWS` spans of whole updates and about equal time."""
    length = sum(update.seconds for update in updates) / WINDOWS
    tokens, seconds = 0, 0.0
    for update in updates:
        tokens, seconds = tokens + update.tokens, seconds + update.seconds
        if seconds >= length:
            yield tokens / seconds
            tokens, seconds = 0, 0.0


class Clock:
    """Divides time: what lies between one name told and the next is of the first."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._told: list[tuple[str, Any]] = []

    def tell(self, name: str) -> None:
        moment: float | torch.Event = time.perf_counter()
        if self._device.type != "cpu":  # which works off later what it is given now
            moment = torch.Event(self._device, enable_timing=True)
            moment.record()
        self._told.append((name, moment))

    def milliseconds(self) -> dict[str, float]:
        """By name; the name that was told last has none."""
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)
        taken = dict.fromkeys((name for name, _ in self._told), 0.0)
        for (name, start), (_, end) in pairwise(self._told):
            is_event = isinstance(start, torch.Event)
            taken[name] += start.elapsed_time(end) if is_event else 1e3 * (end - start)
        return taken


def measure_breakdown(workload: Workload, limits: Mapping[str, float]) -> Record:
    """Milliseconds of an update, by part and by operator; the means of some.

    `limits` are the seconds that the products of a part take by themselves. The state is fresh and
    not compiled; operators are timed by the profiler, which makes small ones dearer than they are.
    """
    state = workload.fresh_state()
    device = state.model.device
    clock = Clock(device)
    with closing(workload.updates(state)) as updates:
        next(updates)
        parameters = list(state.model.parameters())
        after = register_multi_grad_hook(parameters, lambda _: clock.tell(OPTIMIZER))
        with after, telling(state.objective, clock.tell):
            for _ in range(UPDATES):
                clock.tell(DATA)
                next(updates)
            clock.tell(DATA)
        with profiling(device) as profiler:
            for _ in range(UPDATES):
                next(updates)
    parts = part_names(state.objective) | {DATA: DATA, OPTIMIZER: OPTIMIZER}
    taken: dict[str, float] = defaultdict(float)
    for name, ms in clock.milliseconds().items():
        taken[parts[name]] += ms / UPDATES
    total = sum(taken.values())
    return {
        "divided_update_ms": round(total, 2),
        "breakdown": {
            part: {
                "ms": round(ms, 2),
                "share": round(ms / total, 4),
                "limit_ms": round(1e3 * limits.get(part, 0.0), 2),
            }
            for part, ms in Counter(taken).most_common()
            if ms > SMALLEST_SHARE * total
        },
        "operators": _operators(profiler, device),
    }


def _operators(profiler: profile, device: torch.device) -> list[Record]:
    """The costliest, what they call left out, and their shares of all."""
    own = "self_cpu_time_total" if device.type == "cpu" else "self_device_time_total"
    kinds = [kind for kind in profiler.key_averages() if not kind.is_user_annotation]
    kinds.sort(key=lambda kind: -getattr(kind, own))
    total = sum(getattr(kind, own) for kind in kinds)
    return [
        {
            "name": kind.key,
            "calls": round(kind.count / UPDATES, 1),
            "ms": round(getattr(kind, own) / UPDATES / 1e3, 2),
            "share": round(getattr(kind, own) / total, 4),
        }
        for kind in kinds[:OPERATORS_SHOWN]
    ]


def _text(record: Record) -> Iterator[str]:
    yield "{workload}: {model}, {parameters:,} parameters".format_map(record)
    compiled = ", compiled" if record["compiled"] else ""
    each = f"{record['ranks']} ranks, each " if record["ranks"] > 1 else ""
    yield f"{record['precision']}{compiled}, {each}{MACHINE.format_map(record)}"
    yield ""
    rate, each = record["tokens_per_second"], record["tokens_per_update"]
    peak = ", ".join(f"{mib:,} MiB {where}" for where, mib in record["peak_mib"].items())
    yield SPEED.format(**record, rate=rate, each=each, peak=peak)
    if "breakdown" in record:
        whole = f"of {record['divided_update_ms']:,.1f} ms"
        costs = {"ms": "{ms:,.1f}", "share": "{share:.1%}"}
        parts = [{"part": part} | of for part, of in record["breakdown"].items()]
        yield ""
        yield from listed(parts, {whole: "{part}"} | costs | {"products, ms": "{limit_ms:,.1f}"})
        names = {"costliest operators": "{name}", "calls": "{calls:,.0f}"}
        yield ""
        yield from listed(record["operators"], names | costs)
