"""`mtkit bench layers`: what a layer costs by sequence length, next to the theory.

Compares self-attention, restricted self-attention, recurrent and convolutional layers of equal
width, forward and backward over one sequence (Vaswani et al. 2017, table 1). An exponent p says
that the cost grows as n^p. It is fitted by least squares on logarithms to the longer half of the
lengths. The theory counts what dominates in very long sequences. The exponent of all operations of
the layer, projections included, is shown too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.progress import progress
from mtkit.report import show
from mtkit.study.bench.machine import (
    Record,
    count_operations,
    count_peak_bytes,
    describe_machine,
    machine_line,
    record_table,
)
from mtkit.study.plots.picture import check_picture, make_figure, save_picture

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTH, HEADS, RADIUS, KERNEL = 128, 4, 32, 3
QUANTITIES = (
    ("time", "seconds", 1e3, "ms", "ms, forward and backward"),
    ("memory", "bytes", 2**-20, "MiB", "MiB at most"),
)
"""What is measured: its name, its key in a record, the unit it is shown in, and an axis label."""


@dataclass(frozen=True)
class LayerType:
    """A type of layer, and how its time and memory grow with the length n in theory."""

    name: str
    time: str
    memory: str
    build: Callable[[], nn.Module]


SHAPE = (WIDTH, HEADS, 0.0)
LAYER_TYPES = (
    LayerType("self-attention", "n²·d", "n²", partial(MultiHeadAttention, *SHAPE)),
    LayerType(
        f"restricted, r = {RADIUS}", "r·n·d", "r·n", partial(NeighbourhoodAttention, *SHAPE, RADIUS)
    ),
    LayerType("recurrent", "n·d²", "n·d", partial(nn.LSTM, WIDTH, WIDTH, batch_first=True)),
    LayerType(
        f"convolution, k = {KERNEL}",
        "k·n·d²",
        "n·d",
        partial(nn.Conv1d, WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
    ),
)


def bench_layers(
    device: str,
    plot: Path | None,
    *,
    as_json: bool,
    lengths: Sequence[int] = LENGTHS,
    seconds_each: float = 0.2,
) -> None:
    """Measure every layer type at every length and write a table; `plot` draws it, log-log.

    Raises:
        UserError: the device is unavailable, or `plot` is not the name of a picture.
    """
    if plot is not None:
        check_picture(plot)
    place = pick_device(device)
    record: Record = {"width": WIDTH, "heads": HEADS} | describe_machine(place)
    costs = []
    with progress("bench layers", len(LAYER_TYPES), "types of layers") as shown:
        for layer_type in LAYER_TYPES:
            costs.append(_measure(layer_type, place, lengths, seconds_each))
            shown.advance()
    show(record | {"lengths": list(lengths), "layers": costs}, _text, as_json=as_json)
    if plot is not None:
        _draw(costs, lengths, plot)


def _measure(
    layer_type: LayerType, device: torch.device, lengths: Sequence[int], seconds_each: float
) -> Record:
    torch.manual_seed(1)
    layer = layer_type.build().to(device)
    costs: dict[str, list[float]] = {"time": [], "arithmetic": [], "memory": []}
    for length in lengths:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
        step = partial(differentiate, layer, x)
        costs["arithmetic"].append(count_operations(step))  # allocates the gradients, too
        costs["memory"].append(count_peak_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        costs["time"].append(timer.blocked_autorange(min_run_time=seconds_each).median)
    return {
        "layer": layer_type.name,
        "seconds": costs["time"],
        "bytes": costs["memory"],
        "exponents": {name: fit_exponent(lengths, cost) for name, cost in costs.items()},
        "theory": {"time": layer_type.time, "memory": layer_type.memory},
    }


def apply_layer(layer: nn.Module, x: Tensor) -> Tensor:
    """Return the output of the layer for a sequence; both (1, n, WIDTH)."""
    output: Tensor
    match layer:
        case MultiHeadAttention():
            output = layer(x, layer.keys_values(x), None)[0]
        case nn.LSTM():
            output = layer(x)[0]
        case _:
            output = layer(x.mT).mT
    return output


def differentiate(layer: nn.Module, x: Tensor) -> None:
    """Run the layer forward and backward."""
    apply_layer(layer, x).sum().backward()


def fit_exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Return the p, to four digits, of the c·n^p that fits the longer half of the lengths best."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)


def _text(record: Record) -> Iterator[str]:
    yield machine_line(record)
    yield f"width {WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    lengths = {f"{n:,}": f"{{cost[{i}]:,.2f}}" for i, n in enumerate(record["lengths"])}
    for name, key, scale, unit, _ in QUANTITIES:
        exponents = {"exponent": f"{{exponents[{name}]:.2f}}"}
        if name == "time":
            exponents["arithmetic"] = "{exponents[arithmetic]:.2f}"
        columns = {f"{unit} by length": "{layer}"} | lengths | exponents
        rows = [of | {"cost": [cost * scale for cost in of[key]]} for of in record["layers"]]
        yield ""
        yield from record_table(rows, columns | {"theory": f"O({{theory[{name}]}})"})


def _draw(layers: Sequence[Record], lengths: Sequence[int], path: Path) -> None:
    drawn, panels = make_figure(width=10, columns=2)
    for panel, (name, key, scale, _, label) in zip(panels, QUANTITIES, strict=True):
        for of, marker in zip(layers, "os^D", strict=True):
            curve = f"{of['layer']}: n^{of['exponents'][name]:.2f}"
            panel.loglog(lengths, [cost * scale for cost in of[key]], f"{marker}-", label=curve)
        panel.set(xlabel="length n", ylabel=label)
        panel.set_xticks(lengths, list(map(str, lengths)))
        panel.minorticks_off()
        panel.legend()
    save_picture(drawn, path)
