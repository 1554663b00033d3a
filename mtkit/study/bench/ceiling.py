"""The arithmetic limit: target tokens per second if training were its matrix products alone.

No softmax, norm, dropout, cast or optimizer is in it, and operands lie in the caches as well as
they can: a wall that no implementation of the same model gets through, only nearer to.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.benchmark import Timer

from mtkit.batching.plan import plan_epoch
from mtkit.report import data, progress, table
from mtkit.study.bench.machine import describe
from mtkit.study.bench.products import Product, Shape, products_of
from mtkit.study.bench.workload import Size, Workload, open_workload
from mtkit.training.data.loader import load_batch
from mtkit.training.optimizer.precision import DTYPES
from mtkit.training.state import TrainState

SECONDS_EACH = 0.1
"""How long each product is repeated; the median counts."""


@dataclass(frozen=True)
class Limit:
    """What the products of one update take, in one precision."""

    shape: Shape
    products: Sequence[Product]
    seconds: Sequence[float]
    """Of each of `products`, all its `count` times."""

    @property
    def tokens_per_second(self) -> float:
        return self.shape.target_tokens / sum(self.seconds)

    def gflops(self, index: int) -> float:
        """Rate of a product: 10^9 additions and multiplications per second."""
        return self.products[index].flops / self.seconds[index] / 1e9

    def share_of(self, part: str) -> float:
        """Of the time of all products."""
        pairs = zip(self.products, self.seconds, strict=True)
        return sum(taken for product, taken in pairs if product.part == part) / sum(self.seconds)


def bench_ceiling(
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    size: Size | None = None,
    as_json: bool = False,
) -> None:
    """Writes the limit of a config or size, in float32, bfloat16 and the precision in use.

    Raises UserError as `open_workload` does.
    """
    with open_workload(config_file, size, overrides) as workload:
        state = workload.fresh_state()
        precisions = dict.fromkeys(("float32", "bfloat16", state.precision))
        limits = {precision: measure_limit(workload, state, precision) for precision in precisions}
        head = {"workload": workload.name} | describe(state)
    data(_json(head, limits) if as_json else _text(head, limits))


def measure_limit(workload: Workload, state: TrainState, precision: str) -> Limit:
    """Measures every product of a middling batch on the device of `state`."""
    shape = middling_shape(workload, state.max_tokens)
    products = products_of(workload.config.model, shape, workload.target_vocab)
    device, dtype = state.model.output_weight.device, DTYPES[precision]
    with progress(f"ceiling in {precision}", len(products), "products") as shown:
        seconds = []
        for product in products:
            seconds.append(product.count * _seconds(product, dtype, device))
            shown.advance()
    return Limit(shape, products, seconds)


def middling_shape(workload: Workload, max_tokens: int) -> Shape:
    """Of the batch in the middle, by target length, of the first epoch's."""
    store, config = workload.data.train, workload.config
    plan = plan_epoch(store.lengths, max_tokens=max_tokens, seed=config.seed, epoch=0)
    plan.sort(key=lambda rows: int(store.lengths[rows, 1].max()))
    batch = load_batch(store, plan[len(plan) // 2])
    sentences, source = batch.source.shape
    return Shape(sentences, source, batch.target_output.shape[1], batch.target_tokens)


def _seconds(product: Product, dtype: torch.dtype, device: torch.device) -> float:
    """Of one such product."""
    left = _operand(product.rows, product.inner, product.layout[0], product, dtype, device)
    right = _operand(product.inner, product.columns, product.layout[1], product, dtype, device)
    # Into memory that is there already: a fresh result of many MB is paid for page by page.
    scope = {"multiply": torch.matmul, "a": left, "b": right, "out": left @ right}
    timer = Timer(
        "multiply(a, b, out=out)",
        globals=scope,
        num_threads=torch.get_num_threads(),
    )
    return float(timer.blocked_autorange(min_run_time=SECONDS_EACH).median)


def _operand(
    rows: int, columns: int, stored: str, product: Product, dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    batch = (product.batch,) if product.batch > 1 else ()
    if stored == "n":
        return torch.randn(*batch, rows, columns, dtype=dtype, device=device)
    return torch.randn(*batch, columns, rows, dtype=dtype, device=device).mT


def _json(head: dict[str, Any], limits: dict[str, Limit]) -> str:
    first = next(iter(limits.values()))
    record = head | {
        "batch": asdict(first.shape),
        "gflop": sum(product.flops for product in first.products) / 1e9,
        "limit_tokens_per_second": {p: round(limits[p].tokens_per_second, 1) for p in limits},
        "products": [
            asdict(product)
            | {"gflop": product.flops / 1e9}
            | {"gflop_per_second": {p: round(limits[p].gflops(i), 2) for p in limits}}
            for i, product in enumerate(first.products)
        ],
    }
    return json.dumps(record, indent=2) + "\n"


def _text(head: dict[str, Any], limits: dict[str, Limit]) -> str:
    return "\n".join([*_head(head, limits), "", *table(_rows(limits)), ""])


def _head(head: dict[str, Any], limits: dict[str, Limit]) -> Iterator[str]:
    shape = next(iter(limits.values())).shape
    yield head["workload"]
    yield f"{head['processor']}, {head['threads']} threads, torch {head['torch']}"
    yield (
        f"a batch of {shape.sentences} sentences, {shape.source} and {shape.target} long, "
        f"{shape.target_tokens:,} target tokens"
    )
    for precision, limit in limits.items():
        in_use = "  (in use)" if precision == head["precision"] else ""
        yield f"{precision:<9} {limit.tokens_per_second:10,.0f} target tokens/s{in_use}"


def _rows(limits: dict[str, Limit]) -> Iterator[list[str]]:
    """Product by product: shape, how much of the arithmetic, and the rates."""
    products = next(iter(limits.values())).products
    total = sum(product.flops for product in products)
    yield ["part", "batch", "rows", "inner", "columns", "", "times", "of all"] + [
        f"{precision} GFLOP/s" for precision in limits
    ]
    for index, product in enumerate(products):
        sizes = (product.batch, product.rows, product.inner, product.columns)
        yield [
            product.part,
            *(f"{size:,}" for size in sizes),
            product.layout,
            f"{product.count:,}",
            f"{product.flops / total:.1%}",
            *(f"{limit.gflops(index):,.0f}" for limit in limits.values()),
        ]
