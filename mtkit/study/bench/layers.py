"""`mtkit bench layers`: what a layer costs by the length of its sequence, beside the theory.

The comparison of Vaswani et al. 2017, table 1: self-attention, restricted self-attention, recurrent
and convolutional layers of equal width, forward and backward over one sequence. An exponent p says
that the cost grows as n^p; it is fitted to the longer half of the lengths by least squares on
logarithms. The theory counts what dominates in very long sequences; beside it stands the exponent
of all multiplications of the layer at the lengths that were measured, projections included.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from mtkit.config.model import LstmEncoderSettings
from mtkit.models.attention import MultiHeadAttention, NeighbourhoodAttention
from mtkit.models.device import pick_device
from mtkit.models.recurrent import EncoderLayer
from mtkit.report import data, progress, table
from mtkit.study.bench.allocated import peak_bytes
from mtkit.study.bench.machine import processor
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
    """A kind of layer; `time` and `memory` are what theory says of each."""

    name: str
    make: Callable[[], nn.Module]
    flops: Callable[[int], int]
    """Of the forward pass, by the length."""
    time: str
    memory: str


@dataclass(frozen=True)
class Cost:
    layer: Layer
    seconds: Sequence[float]
    """By length, as are the bytes."""
    bytes: Sequence[int]


class _Attending(nn.Module):
    """Self-attention on its own."""

    def __init__(self, attention: MultiHeadAttention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.attention(x, self.attention.look_at(x), None)[0]
        return output


class _Recurrent(nn.Module):
    """The LSTM of mtkit's encoder, in one direction."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = EncoderLayer(LstmEncoderSettings(bidirectional=False), WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x, torch.ones(x.shape[:2], dtype=torch.bool, device=x.device))[
            0
        ]
        return output


class _Convolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(WIDTH, WIDTH, KERNEL, padding=KERNEL // 2)

    def forward(self, x: Tensor) -> Tensor:
        output: Tensor = self.layer(x.mT).mT
        return output


LAYERS = (
    Layer(
        "self-attention",
        lambda: _Attending(MultiHeadAttention(WIDTH, HEADS, 0.0)),
        lambda n: 8 * n * WIDTH**2 + 4 * n**2 * WIDTH,
        "n²·d",
        "n²",
    ),
    Layer(
        f"restricted, r = {RADIUS}",
        lambda: _Attending(NeighbourhoodAttention(WIDTH, HEADS, 0.0, RADIUS)),
        lambda n: 8 * n * WIDTH**2 + 4 * n * 3 * RADIUS * WIDTH,
        "r·n·d",
        "r·n",
    ),
    Layer("recurrent", _Recurrent, lambda n: 16 * n * WIDTH**2, "n·d²", "n·d"),
    Layer(
        f"convolution, k = {KERNEL}",
        _Convolution,
        lambda n: 2 * KERNEL * n * WIDTH**2,
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
    with progress("bench layers", len(LAYERS) * len(LENGTHS), "measurements") as shown:
        costs = [measure(layer, place, shown.advance) for layer in LAYERS]
    head = {
        "width": WIDTH,
        "heads": HEADS,
        "device": place.type,
        "processor": processor(place),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    data(_json(head, costs) if as_json else "\n".join([*_text(head, costs), ""]))
    if plot is not None:
        _draw(costs, plot)


def measure(layer: Layer, device: torch.device, advance: Callable[[], None]) -> Cost:
    """Time and peak memory of forward and backward, of one float32 sequence of each length."""
    torch.manual_seed(1)
    module = layer.make().to(device)
    seconds, sizes = [], []
    for length in LENGTHS:
        x = torch.randn(1, length, WIDTH, device=device, requires_grad=True)

        def step(x: Tensor = x) -> None:
            module(x).sum().backward()

        step()  # makes the gradients, which are no part of the cost
        sizes.append(peak_bytes(step))
        timer = Timer("step()", globals={"step": step}, num_threads=torch.get_num_threads())
        seconds.append(float(timer.blocked_autorange(min_run_time=SECONDS_EACH).median))
        advance()
    return Cost(layer, seconds, sizes)


def exponent(lengths: Sequence[int], costs: Sequence[int | float]) -> float:
    """p of the c·n^p that fits the longer half best."""
    half = len(lengths) // 2
    slope, _ = np.polyfit(np.log(lengths[half:]), np.log(costs[half:]), 1)
    return float(slope)


def _exponents(cost: Cost) -> dict[str, float]:
    """Of time and memory as measured, and of time by the arithmetic."""
    return {
        "time": exponent(LENGTHS, cost.seconds),
        "arithmetic": exponent(LENGTHS, [cost.layer.flops(length) for length in LENGTHS]),
        "memory": exponent(LENGTHS, cost.bytes),
    }


def _json(head: dict[str, Any], costs: Sequence[Cost]) -> str:
    layers = [
        {
            "layer": cost.layer.name,
            "seconds": list(cost.seconds),
            "bytes": list(cost.bytes),
            "exponents": {name: round(found, 4) for name, found in _exponents(cost).items()},
            "theory": {"time": cost.layer.time, "memory": cost.layer.memory},
        }
        for cost in costs
    ]
    record = head | {"lengths": list(LENGTHS), "layers": layers}
    return json.dumps(record, indent=2, ensure_ascii=False) + "\n"


def _text(head: dict[str, Any], costs: Sequence[Cost]) -> Iterator[str]:
    yield f"{head['processor']}, {head['threads']} threads, torch {head['torch']}"
    yield f"width {WIDTH}, {HEADS} heads, float32, forward and backward over one sequence"
    yield ""
    lengths = [f"{length:,}" for length in LENGTHS]
    rows = [["ms by length", *lengths, "exponent", "arithmetic", "theory"]]
    for cost in costs:
        found, times = _exponents(cost), [f"{seconds * 1e3:,.2f}" for seconds in cost.seconds]
        fits = [f"{found['time']:.2f}", f"{found['arithmetic']:.2f}", f"O({cost.layer.time})"]
        rows.append([cost.layer.name, *times, *fits])
    yield from table(rows)
    yield ""
    rows = [["MiB by length", *lengths, "exponent", "theory"]]
    for cost in costs:
        sizes = [f"{size / 2**20:,.2f}" for size in cost.bytes]
        fits = [f"{_exponents(cost)['memory']:.2f}", f"O({cost.layer.memory})"]
        rows.append([cost.layer.name, *sizes, *fits])
    yield from table(rows)


def _draw(costs: Sequence[Cost], path: Path) -> None:
    drawn, (times, sizes) = figure(width=10, columns=2)
    for cost, marker in zip(costs, "os^D", strict=True):
        found = _exponents(cost)
        name = cost.layer.name
        seconds = [seconds * 1e3 for seconds in cost.seconds]
        times.loglog(LENGTHS, seconds, f"{marker}-", label=f"{name}: n^{found['time']:.2f}")
        mib = [size / 2**20 for size in cost.bytes]
        sizes.loglog(LENGTHS, mib, f"{marker}-", label=f"{name}: n^{found['memory']:.2f}")
    times.set_ylabel("ms, forward and backward")
    sizes.set_ylabel("MiB at most")
    for panel in (times, sizes):
        panel.set_xticks(LENGTHS, list(map(str, LENGTHS)))
        panel.minorticks_off()
        panel.set_xlabel("length n")
        panel.legend()
    save(drawn, path)
