"""`mtkit bench layers`: the cost of a layer by sequence length, compared with theory.

Layers of equal width run forward and backward over one sequence (Vaswani et al. 2017, table 1). The
cost grows as n^p; the exponent p is fitted to the longer half of the lengths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.models.layout import Layout
from mtkit.progress import progress
from mtkit.report import plural, show, table
from mtkit.study.bench.sample import describe_machine

SEQUENCE_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, HEADS, RADIUS, KERNEL = 128, 4, 32, 3
LAYER_TYPES: Mapping[str, tuple[str, str, Callable[[], nn.Module]]] = {
    "self-attention": ("n²·d", "n²", lambda: MultiHeadAttention(WIDTH, HEADS, 0.0)),
    f"restricted, r = {RADIUS}": (
        "r·n·d",
        "r·n",
        lambda: NeighbourhoodAttention(WIDTH, HEADS, 0.0, RADIUS),
    ),
    "recurrent": ("n·d²", "n·d", lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True)),
    f"convolution, k = {KERNEL}": (
        "k·n·d²",
        "n·d",
        lambda: nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
    ),
}
"""By layer name: time and memory in theory, by length n, and a function that builds the layer."""
QUANTITIES = (("time", "seconds", 1e3, "ms"), ("memory", "bytes", 2**-20, "MiB"))
"""Each measured quantity: name, key in a record, factor and unit for people."""


def bench_layers(
    device: str,
    *,
    as_json: bool,
    lengths: Sequence[int] = SEQUENCE_LENGTHS,
    seconds_each: float = 0.2,
) -> None:
    """Measure every layer type at every length and write a table.

    Raises:
        UserError: the device is unavailable.
    """
    place, layers = pick_device(device), []
    with progress("bench layers", len(LAYER_TYPES), "types of layers") as shown:
        for name, (time, memory, build) in LAYER_TYPES.items():
            torch.manual_seed(1)
            costs = _measure(build().to(place), place, lengths, seconds_each)
            exponents = {kind: fit_exponent(lengths, costs[key]) for kind, key, *_ in QUANTITIES}
            theory = {"time": time, "memory": memory}
            layers.append({"layer": name, **costs, "exponents": exponents, "theory": theory})
            shown.advance()
    record = {"width": WIDTH, "heads": HEADS, "lengths": list(lengths), "layers": layers}
    show(record | describe_machine(place), _text, as_json=as_json)


def _measure(
    layer: nn.Module, device: torch.device, lengths: Sequence[int], seconds_each: float
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {"seconds": [], "bytes": []}
    for length in lengths:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
        step = partial(_differentiate, layer, x)
        step()  # this first step allocates the gradients
        costs["bytes"].append(count_peak_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        costs["seconds"].append(timer.blocked_autorange(min_run_time=seconds_each).median)
    return costs


def _differentiate(layer: nn.Module, x: Tensor) -> None:
    """Run the layer forward and backward; x: (1, n, WIDTH)."""
    match layer:
        case MultiHeadAttention():
            layout = Layout.full(x)
            output = layer(*layer.query_keys_values(x, layout), None, layout)[0]
        case nn.LSTM():
            output = layer(x)[0]
        case _:
            output = layer(x.mT).mT
    output.sum().backward()


def count_peak_bytes(compute: Callable[[], object], device: torch.device) -> int:
    """Return the most memory that `compute` has allocated on the device at a time; reproducible."""
    # Without this, torch writes to stderr in the first profile of a process.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    activities = [ProfilerActivity.CPU] + [ProfilerActivity.CUDA] * (device.type == "cuda")
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        compute()
    results: Any = profiler.profiler
    events = [event for event in results.kineto_results.events() if event.name() == "[memory]"]
    events = [event for event in events if event.device_type().name.lower() == device.type]
    events.sort(key=lambda event: event.start_ns())
    return max(accumulate((int(event.nbytes()) for event in events), initial=0))


def fit_exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Return p, to four digits, such that c·n^p fits the longer half of the lengths best."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)


def _text(record: dict[str, Any]) -> Iterator[str]:
    threads = plural(record["threads"], "thread")
    yield f"{record['processor']}, {threads}, torch {record['torch']}"
    yield f"width {WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    lengths = [f"{length:,}" for length in record["lengths"]]
    for name, key, factor, unit in QUANTITIES:
        columns = [[f"{unit} by length", *lengths, "exponent", "theory"]]
        for of in record["layers"]:
            costs = [f"{cost * factor:,.2f}" for cost in of[key]]
            theory = f"O({of['theory'][name]})"
            columns.append([of["layer"], *costs, f"{of['exponents'][name]:.2f}", theory])
        yield ""
        yield from table(zip(*columns, strict=True))
