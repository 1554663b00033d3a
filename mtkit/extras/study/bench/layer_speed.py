"""`mtkit bench layers`: the cost of a layer by sequence length, compared with theory.

Layers of equal width run forward and backward over one sequence (Vaswani et al. 2017, table 1). The
cost grows as n^p; the exponent p is fitted to the longer half of the lengths.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

from mtkit.extras.study.bench.results import TableRows, write_report
from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.models.layout import Layout
from mtkit.progress import progress

SEQUENCE_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, HEADS, RADIUS, KERNEL = 128, 4, 32, 3
TASK = f"forward and backward over one sequence: width {WIDTH}, {HEADS} heads, float32"
UNITS = {"seconds": ("ms", 1e3), "bytes": ("MiB", 2**-20)}
"""What is measured; the unit of its table, and the factor from one to the other."""


@dataclass(frozen=True)
class LayerType:
    """A kind of layer, and its cost in theory by the length n and the width d."""

    name: str
    theory: dict[str, str]
    build: Callable[[], nn.Module]


LAYER_TYPES = (
    LayerType(
        "self-attention",
        theory={"seconds": "n²·d", "bytes": "n²"},
        build=lambda: MultiHeadAttention(WIDTH, HEADS, 0.0),
    ),
    LayerType(
        f"restricted, r = {RADIUS}",
        theory={"seconds": "r·n·d", "bytes": "r·n"},
        build=lambda: NeighbourhoodAttention(WIDTH, HEADS, 0.0, RADIUS),
    ),
    LayerType(
        "recurrent",
        theory={"seconds": "n·d²", "bytes": "n·d"},
        build=lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True),
    ),
    LayerType(
        f"convolution, k = {KERNEL}",
        theory={"seconds": "k·n·d²", "bytes": "n·d"},
        build=lambda: nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
    ),
)


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
    place = pick_device(device)
    layers = []
    with progress("bench layers", len(LAYER_TYPES), "types of layers") as shown:
        for layer in LAYER_TYPES:
            layers.append(_measure(layer, place, lengths, seconds_each))
            shown.advance()
    record = {"width": WIDTH, "heads": HEADS, "lengths": list(lengths), "layers": layers}
    tables = [_tabulate(record, cost) for cost in UNITS]
    write_report(TASK, record, tables, place, as_json=as_json)


def _measure(
    layer_type: LayerType, device: torch.device, lengths: Sequence[int], seconds_each: float
) -> dict[str, Any]:
    """Return the costs of a layer at each length, in seconds and bytes, and their exponents."""
    torch.manual_seed(1)
    layer = layer_type.build().to(device)
    seconds: list[float] = []
    peaks: list[float] = []
    for length in lengths:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
        step = partial(_differentiate, layer, x)
        step()  # this first step allocates the gradients
        peaks.append(count_peak_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        seconds.append(timer.blocked_autorange(min_run_time=seconds_each).median)
    costs = {"seconds": seconds, "bytes": peaks}
    exponents = {cost: fit_exponent(lengths, values) for cost, values in costs.items()}
    return {"layer": layer_type.name, **costs, "exponents": exponents, "theory": layer_type.theory}


def _tabulate(record: dict[str, Any], cost: str) -> TableRows:
    """Return a column for each layer: one of UNITS by length, its exponent, and the theory."""
    unit, factor = UNITS[cost]
    lengths = [f"{length:,}" for length in record["lengths"]]
    columns = [[f"{unit} by length", *lengths, "exponent", "theory"]]
    for layer in record["layers"]:
        exponent = layer["exponents"][cost]
        theory = layer["theory"][cost]
        column = [layer["layer"]]
        for value in layer[cost]:
            column.append(f"{factor * value:,.2f}")
        columns.append([*column, f"{exponent:.2f}", f"O({theory})"])
    return list(zip(*columns, strict=True))


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
    activities = [ProfilerActivity.CPU]
    if device.type == "cuda":
        activities.append(ProfilerActivity.CUDA)
    with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
        compute()
    results: Any = profiler.profiler
    allocations = [
        event
        for event in results.kineto_results.events()
        if event.name() == "[memory]" and event.device_type().name.lower() == device.type
    ]
    allocations.sort(key=lambda event: event.start_ns())
    # A release is an allocation of a negative number of bytes.
    allocated = accumulate((int(event.nbytes()) for event in allocations), initial=0)
    return max(allocated)


def fit_exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Return p, to four digits, such that c·n^p fits the longer half of the lengths best."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)
