"""The arithmetic limit: target tokens per second if training were its matrix products alone.

No softmax, norm, dropout, cast or optimizer is in it, and operands lie in the caches as well as
they can: a wall that no implementation of the same model gets through, only nearer to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch.utils.benchmark import Timer

from mtkit.report import progress, show, table
from mtkit.study.bench.drawn import Size
from mtkit.study.bench.products import Product, products_of
from mtkit.study.bench.record import Record, describe_training, machine_text
from mtkit.study.bench.workload import Workload, open_workload
from mtkit.terms import Batch
from mtkit.training.data.updates import load_batch
from mtkit.training.optimizer.precision import DTYPES
from mtkit.training.state import TrainState

SECONDS_EACH = 0.1
"""How long each product is repeated; the median counts."""


def bench_ceiling(
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    size: Size | None = None,
    as_json: bool = False,
) -> None:
    """Writes the limit of a config or size: in float32, in bfloat16, and as it is trained.

    Raises UserError as `open_workload` does.
    """
    with open_workload(config_file, size, overrides) as workload:
        state = workload.fresh_state()
        batch = middling_batch(workload, state)
        products = products_of(state, batch)
        sweeps = {
            precision: [replace(product, precision=precision) for product in products]
            for precision in dict.fromkeys(("float32", "bfloat16", state.precision))
        }
        in_use = next((name for name, swept in sweeps.items() if swept == products), "mixed")
        sweeps[in_use] = products
        seconds = {name: product_seconds(swept, batch) for name, swept in sweeps.items()}
        record: Record = {"workload": workload.name} | describe_training(state)
    record["in_use"] = in_use
    record["batch"] = {
        "sentences": len(batch.source),
        "source": batch.source.shape[1],
        "target": batch.target_output.shape[1],
        "target_tokens": batch.target_tokens,
    }
    record["gflop"] = sum(product.flops for product in products) / 1e9
    record["limit_tokens_per_second"] = {
        name: round(batch.target_tokens / sum(taken), 1) for name, taken in seconds.items()
    }
    record["products"] = [
        asdict(product)
        | {"gflop": product.flops / 1e9}
        | {"gflop_per_second": {p: round(product.flops / 1e9 / seconds[p][i], 2) for p in seconds}}
        for i, product in enumerate(products)
    ]
    show(record, _text, as_json=as_json)


def middling_batch(workload: Workload, state: TrainState) -> Batch:
    """On the device: the batch in the middle, by target length, of the first epoch's."""
    store, plan = workload.data.train, workload.first_epoch(state.max_tokens)
    plan.sort(key=lambda rows: int(store.lengths[rows, 1].max()))
    return load_batch(store, plan[len(plan) // 2]).to(state.model.output_weight.device)


def product_seconds(products: Sequence[Product], batch: Batch) -> list[float]:
    """Seconds of each, all its `count` times, measured on the device of the batch."""
    seconds = []
    with progress("ceiling", len(products), "products") as shown:
        for product in products:
            seconds.append(product.count * _seconds(product, batch.source.device))
            shown.advance()
    return seconds


def _seconds(product: Product, device: torch.device) -> float:
    """Seconds of one such product."""

    def factor(rows: int, columns: int, stored: str) -> torch.Tensor:
        batch, dtype = (product.batch,) if product.batch > 1 else (), DTYPES[product.precision]
        if stored == "n":
            return torch.randn(*batch, rows, columns, dtype=dtype, device=device)
        return torch.randn(*batch, columns, rows, dtype=dtype, device=device).mT

    left = factor(product.rows, product.inner, product.layout[0])
    right = factor(product.inner, product.columns, product.layout[1])
    # Into memory that is there already: a fresh result of many MB is paid for page by page.
    scope = {"multiply": torch.matmul, "a": left, "b": right, "out": left @ right}
    timer = Timer("multiply(a, b, out=out)", globals=scope, num_threads=torch.get_num_threads())
    return float(timer.blocked_autorange(min_run_time=SECONDS_EACH).median)


def _text(record: Record) -> Iterator[str]:
    yield record["workload"]
    yield machine_text(record)
    yield (
        "a batch of {sentences} sentences, {source} and {target} long, {target_tokens:,} target "
        "tokens".format(**record["batch"])
    )
    limits = record["limit_tokens_per_second"]
    for precision, limit in limits.items():
        in_use = "  (in use)" if precision == record["in_use"] else ""
        yield f"{precision:<9} {limit:10,.0f} target tokens/s{in_use}"
    yield ""
    sizes = ["batch", "rows", "inner", "columns"]
    rates = [f"{precision} GFLOP/s" for precision in limits]
    rows = [["part", *sizes, "", "in use", "times", "of all", *rates]]
    for product in record["products"]:
        cells = [product["part"], *(f"{product[size]:,}" for size in sizes)]
        cells += [product["layout"], product["precision"], f"{product['count']:,}"]
        cells.append(f"{product['gflop'] / record['gflop']:.1%}")
        rows.append([*cells, *(f"{rate:,.0f}" for rate in product["gflop_per_second"].values())])
    yield from table(rows)
