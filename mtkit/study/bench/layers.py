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
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.report import progress, show, table
from mtkit.study.bench.products import plain_kernels
from mtkit.study.bench.profiling import peak_bytes
from mtkit.study.bench.record import Record, describe_machine, machine_text
from mtkit.study.plots.picture import check_picture, figure, save

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
WIDTH = 128
HEADS = 4
RADIUS = 32
KERNEL = 3
SECONDS_EACH = 0.2
"""How long each measurement is repeated; the median counts."""


@dataclass(frozen=True)
class Layer:
    """A kind of layer, and what theory says of its time and memory by the length n."""

    name: str
    make: Callable[[], nn.Module]
    apply: Callable[[nn.Module, Tensor], Tensor]
    """What the layer makes of a sequence (1, n, WIDTH): one of that shape."""
    time: str
    memory: str


def _attend(layer: nn.Module, x: Tensor) -> Tensor:
    assert isinstance(layer, MultiHeadAttention)
    output: Tensor = layer(x, layer.look_at(x), None)[0]
    return output


LAYERS = (
    Layer("self-attention", lambda: MultiHeadAttention(WIDTH, HEADS, 0.0), _attend, "n²·d", "n²"),
    Layer(
        f"restricted, r = {RADIUS}",
        lambda: NeighbourhoodAttention(WIDTH, HEADS, 0.0, RADIUS),
        _attend,
        "r·n·d",
        "r·n",
    ),
    Layer(
        "recurrent",
        lambda: nn.LSTM(WIDTH, WIDTH, batch_first=True),
        lambda lstm, x: lstm(x)[0],
        "n·d²",
        "n·d",
    ),
    Layer(
        f"convolution, k = {KERNEL}",
        lambda: nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2),
        lambda convolution, x: convolution(x.mT).mT,
        "k·n·d²",
        "n·d",
    ),
)


def bench_layers(*, device: str = "auto", plot: Path | None = None, as_json: bool = False) -> None:
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
    seconds: list[float] = []
    operations: list[int] = []
    sizes: list[int] = []
    for length in LENGTHS:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)

        def step(x: Tensor = x) -> None:
            layer.apply(module, x).sum().backward()

        operations.append(count_operations(step))  # also makes gradients, which are no cost
        sizes.append(peak_bytes(step, device))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        seconds.append(float(timer.blocked_autorange(min_run_time=SECONDS_EACH).median))
        advance()
    return {
        "layer": layer.name,
        "seconds": seconds,
        "bytes": sizes,
        "exponents": {
            "time": exponent(LENGTHS, seconds),
            "arithmetic": exponent(LENGTHS, operations),
            "memory": exponent(LENGTHS, sizes),
        },
        "theory": {"time": layer.time, "memory": layer.memory},
    }


def count_operations(step: Callable[[], None]) -> int:
    """Additions and multiplications of matrix products and convolutions, as torch counts them."""
    with plain_kernels(), FlopCounterMode(display=False) as counter:
        step()
    return int(counter.get_total_flops())


def exponent(lengths: Sequence[int], costs: Sequence[int | float]) -> float:
    """p of the c·n^p that fits the longer half best, to four digits."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return round(float(slope), 4)


def _text(record: Record) -> Iterator[str]:
    yield machine_text(record)
    yield f"width {WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    lengths = [f"{length:,}" for length in LENGTHS]
    times = [["ms by length", *lengths, "exponent", "arithmetic", "theory"]]
    sizes = [["MiB by length", *lengths, "exponent", "theory"]]
    for cost in record["layers"]:
        fit = {name: f"{power:.2f}" for name, power in cost["exponents"].items()}
        theory = {name: f"O({order})" for name, order in cost["theory"].items()}
        ms = [f"{seconds * 1e3:,.2f}" for seconds in cost["seconds"]]
        times.append([cost["layer"], *ms, fit["time"], fit["arithmetic"], theory["time"]])
        mib = [f"{size / 2**20:,.2f}" for size in cost["bytes"]]
        sizes.append([cost["layer"], *mib, fit["memory"], theory["memory"]])
    for rows in (times, sizes):
        yield ""
        yield from table(rows)


def _draw(costs: Sequence[Record], path: Path) -> None:
    drawn, panels = figure(width=10, columns=2)
    kinds = [("time", "seconds", 1e3, "ms, forward and backward")]
    kinds += [("memory", "bytes", 2**-20, "MiB at most")]
    for panel, (kind, values, scale, unit) in zip(panels, kinds, strict=True):
        for cost, marker in zip(costs, "os^D", strict=True):
            name = f"{cost['layer']}: n^{cost['exponents'][kind]:.2f}"
            panel.loglog(LENGTHS, [v * scale for v in cost[values]], f"{marker}-", label=name)
        panel.set(xlabel="length n", ylabel=unit)
        panel.set_xticks(LENGTHS, list(map(str, LENGTHS)))
        panel.minorticks_off()
        panel.legend()
    save(drawn, path)
