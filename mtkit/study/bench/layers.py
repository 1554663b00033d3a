"""`mtkit bench layers`: what a layer costs by sequence length, next to the theory.

Layers of equal width run forward and backward over one sequence (Vaswani et al. 2017, table 1). An
exponent p says that the cost grows as n^p; it is fitted to the longer half of the lengths. The
exponent of all operations of the layer, projections included, is shown too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    record_table,
)
from mtkit.study.plots.picture import check_picture, make_figure, save_picture

SEQUENCE_LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
LAYER_WIDTH, HEADS, RADIUS, KERNEL = 128, 4, 32, 3
ATTENTION_SHAPE = (LAYER_WIDTH, HEADS, 0.0)
LAYER_TYPES: Mapping[str, tuple[str, str, Callable[[], nn.Module]]] = {
    "self-attention": ("n²·d", "n²", partial(MultiHeadAttention, *ATTENTION_SHAPE)),
    f"restricted, r = {RADIUS}": (
        "r·n·d",
        "r·n",
        partial(NeighbourhoodAttention, *ATTENTION_SHAPE, RADIUS),
    ),
    "recurrent": ("n·d²", "n·d", partial(nn.LSTM, LAYER_WIDTH, LAYER_WIDTH, batch_first=True)),
    f"convolution, k = {KERNEL}": (
        "k·n·d²",
        "n·d",
        partial(nn.Conv1d, LAYER_WIDTH, LAYER_WIDTH, KERNEL, padding=KERNEL // 2),
    ),
}
"""Time and memory by the length n in theory, and what builds the layer, by its name."""
QUANTITIES = (("time", "seconds", 1e3, "ms"), ("memory", "bytes", 2**-20, "MiB"))
"""What is measured, its key in a record, and the unit it is shown in."""


def bench_layers(
    device: str,
    plot: Path | None,
    *,
    as_json: bool,
    lengths: Sequence[int] = SEQUENCE_LENGTHS,
    seconds_each: float = 0.2,
) -> None:
    """Measure every layer type at every length and write a table; `plot` draws it, log-log.

    Raises:
        UserError: the device is unavailable, or `plot` is not the name of a picture.
    """
    if plot is not None:
        check_picture(plot)
    place = pick_device(device)
    record: Record = {"width": LAYER_WIDTH, "heads": HEADS, "lengths": list(lengths), "layers": []}
    with progress("bench layers", len(LAYER_TYPES), "types of layers") as shown:
        for name, (time, memory, build) in LAYER_TYPES.items():
            torch.manual_seed(1)
            costs = _measure(build().to(place), place, lengths, seconds_each)
            exponents = {kind: fit_exponent(lengths, cost) for kind, cost in costs.items()}
            theory = {"time": time, "memory": memory}
            of = {"layer": name, "seconds": costs["time"], "bytes": costs["memory"]}
            record["layers"].append(of | {"exponents": exponents, "theory": theory})
            shown.advance()
    show(record | describe_machine(place), _text, as_json=as_json)
    if plot is not None:
        _draw(record["layers"], lengths, plot)


def _measure(
    layer: nn.Module, device: torch.device, lengths: Sequence[int], seconds_each: float
) -> dict[str, list[float]]:
    costs: dict[str, list[float]] = {"time": [], "arithmetic": [], "memory": []}
    for length in lengths:
        x = torch.randn(1, length, LAYER_WIDTH, device=device, requires_grad=True)
        step = partial(differentiate, layer, x)
        costs["arithmetic"].append(count_operations(step))  # allocates the gradients, too
        costs["memory"].append(count_peak_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        costs["time"].append(timer.blocked_autorange(min_run_time=seconds_each).median)
    return costs


def differentiate(layer: nn.Module, x: Tensor) -> None:
    """Run the layer forward and backward; x: (1, n, LAYER_WIDTH)."""
    match layer:
        case MultiHeadAttention():
            output = layer(x, layer.keys_values(x), None)[0]
        case nn.LSTM():
            output = layer(x)[0]
        case _:
            output = layer(x.mT).mT
    output.sum().backward()


def fit_exponent(lengths: Sequence[int], costs: Sequence[float]) -> float:
    """Return the p, to four digits, of the c·n^p that fits the longer half of the lengths best."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)


def _text(record: Record) -> Iterator[str]:
    yield "{processor}, {threads} threads, torch {torch}".format_map(record)
    yield f"width {LAYER_WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    lengths = {f"{n:,}": f"{{cost[{i}]:,.2f}}" for i, n in enumerate(record["lengths"])}
    for name, key, factor, unit in QUANTITIES:
        exponents = {"exponent": f"{{exponents[{name}]:.2f}}"}
        if name == "time":
            exponents["arithmetic"] = "{exponents[arithmetic]:.2f}"
        columns = {f"{unit} by length": "{layer}"} | lengths | exponents
        rows = [of | {"cost": [cost * factor for cost in of[key]]} for of in record["layers"]]
        yield ""
        yield from record_table(rows, columns | {"theory": f"O({{theory[{name}]}})"})


def _draw(layers: Sequence[Record], lengths: Sequence[int], path: Path) -> None:
    drawn, panels = make_figure(width=10, columns=2)
    for panel, (name, key, factor, unit) in zip(panels, QUANTITIES, strict=True):
        for of, marker in zip(layers, "os^D", strict=True):
            curve = f"{of['layer']}: n^{of['exponents'][name]:.2f}"
            panel.loglog(lengths, [cost * factor for cost in of[key]], f"{marker}-", label=curve)
        panel.set(xlabel="length n", ylabel=f"{name}, {unit}")
        panel.set_xticks(lengths, list(map(str, lengths)))
        panel.minorticks_off()
        panel.legend()
    save_picture(drawn, path)
