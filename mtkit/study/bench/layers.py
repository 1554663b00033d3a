"""`mtkit bench layers`: what a layer costs by the length of its sequence, beside the theory.

The comparison of Vaswani et al. 2017, table 1: self-attention, restricted self-attention, recurrent
and convolutional layers of equal width, forward and backward over one sequence. An exponent p says
that the cost grows as n^p; it is fitted to the longer half of the lengths by least squares on
logarithms. The theory counts what dominates in very long sequences; beside it stands the exponent
of all multiplications of the layer at the lengths that were measured, projections included.
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
from torch.utils.flop_counter import FlopCounterMode

from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.report import progress, show
from mtkit.study.bench.record import MACHINE, Record, describe_machine, listed
from mtkit.study.bench.watching import claimed_bytes, plain_kernels
from mtkit.study.plots.picture import check_picture, figure, save

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTH = 128
HEADS = 4
RADIUS = 32
KERNEL = 3
SECONDS_EACH = 0.2
"""How long each measurement is repeated; the median counts."""
QUANTITIES = (("time", "seconds", 1e3, "ms"), ("memory", "bytes", 2**-20, "MiB"))
"""What is measured, where a record has it, and in which unit it is shown."""


@dataclass(frozen=True)
class Layer:
    """A kind of layer, and what theory says of its time and memory by the length n."""

    name: str
    time: str
    memory: str
    make: Callable[[], nn.Module]


ATTENTION = (WIDTH, HEADS, 0.0)
LAYERS = (
    Layer("self-attention", "n²·d", "n²", lambda: MultiHeadAttention(*ATTENTION)),
    Layer(
        f"restricted, r = {RADIUS}",
        "r·n·d",
        "r·n",
        lambda: NeighbourhoodAttention(*ATTENTION, RADIUS),
    ),
    Layer("recurrent", "n·d²", "n·d", lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True)),
    Layer(
        f"convolution, k = {KERNEL}",
        "k·n·d²",
        "n·d",
        lambda: nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
    ),
)


def bench_layers(device: str, plot: Path | None, *, as_json: bool) -> None:
    """Measures every kind of layer at every length and writes a table; `plot` draws it, log-log.

    Raises UserError for a device that is not there, or a `plot` that is no picture.
    """
    if plot is not None:
        check_picture(plot)
    place = pick_device(device)
    record: Record = {"width": WIDTH, "heads": HEADS} | describe_machine(place)
    with progress("bench layers", len(LAYERS) * len(LENGTHS), "measurements") as shown:
        costs = [measure(layer, place, shown.advance) for layer in LAYERS]
    show(record | {"lengths": list(LENGTHS), "layers": costs}, _text, as_json=as_json)
    if plot is not None:
        _draw(costs, plot)


def measure(layer: Layer, device: torch.device, advance: Callable[[], None]) -> Record:
    """Time and peak memory of forward and backward, of one float32 sequence of each length."""
    torch.manual_seed(1)
    module = layer.make().to(device)
    costs: dict[str, list[float]] = {"time": [], "arithmetic": [], "memory": []}
    for length in LENGTHS:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
        step = partial(learn_from, module, x)
        costs["arithmetic"].append(count_operations(step))  # makes gradients, which are no cost
        costs["memory"].append(claimed_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        costs["time"].append(timer.blocked_autorange(min_run_time=SECONDS_EACH).median)
        advance()
    return {
        "layer": layer.name,
        "seconds": costs["time"],
        "bytes": costs["memory"],
        "exponents": {name: exponent(LENGTHS, cost) for name, cost in costs.items()},
        "theory": {"time": layer.time, "memory": layer.memory},
    }


def apply(layer: nn.Module, x: Tensor) -> Tensor:
    """What the layer makes of a sequence (1, n, WIDTH): one of that shape."""
    output: Tensor
    match layer:
        case MultiHeadAttention():
            output = layer(x, layer.keys_values(x), None)[0]
        case nn.LSTM():
            output = layer(x)[0]
        case _:
            output = layer(x.mT).mT
    return output


def learn_from(layer: nn.Module, x: Tensor) -> None:
    apply(layer, x).sum().backward()


def count_operations(step: Callable[[], None]) -> int:
    """Additions and multiplications of matrix products and convolutions, as torch counts them."""
    with plain_kernels(), FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """p of the c·n^p that fits the longer half best, to four digits."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)


def _text(record: Record) -> Iterator[str]:
    yield MACHINE.format_map(record)
    yield f"width {WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    lengths = {f"{length:,}": f"{{cost[{i}]:,.2f}}" for i, length in enumerate(LENGTHS)}
    for kind, key, scale, unit in QUANTITIES:
        exponents = {"exponent": f"{{exponents[{kind}]:.2f}}"}
        if kind == "time":
            exponents["arithmetic"] = "{exponents[arithmetic]:.2f}"
        columns = {f"{unit} by length": "{layer}"} | lengths | exponents
        rows = [of | {"cost": [cost * scale for cost in of[key]]} for of in record["layers"]]
        yield ""
        yield from listed(rows, columns | {"theory": f"O({{theory[{kind}]}})"})


def _draw(layers: Sequence[Record], path: Path) -> None:
    drawn, panels = figure(width=10, columns=2)
    labels = ("ms, forward and backward", "MiB at most")
    for panel, (kind, key, scale, _), label in zip(panels, QUANTITIES, labels, strict=True):
        for of, marker in zip(layers, "os^D", strict=True):
            name = f"{of['layer']}: n^{of['exponents'][kind]:.2f}"
            panel.loglog(LENGTHS, [cost * scale for cost in of[key]], f"{marker}-", label=name)
        panel.set(xlabel="length n", ylabel=label)
        panel.set_xticks(LENGTHS, list(map(str, LENGTHS)))
        panel.minorticks_off()
        panel.legend()
    save(drawn, path)
