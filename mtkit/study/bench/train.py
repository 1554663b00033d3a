"""`mtkit bench train`: how fast a config or size trains here, and what holds it back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median

import torch

from mtkit.batching.plan import padding
from mtkit.report import show, table
from mtkit.study.bench.breakdown import measure_breakdown
from mtkit.study.bench.ceiling import middling_batch, product_seconds
from mtkit.study.bench.drawn import Size
from mtkit.study.bench.products import products_of
from mtkit.study.bench.record import Record, describe_training, machine_text
from mtkit.study.bench.throughput import Timed, measure_updates, window_rates
from mtkit.study.bench.workload import open_workload
from mtkit.training.job import REPAYING_STEPS, repays_compiling
from mtkit.training.run.memory import peak_bytes


def bench_train(
    config_file: Path | None = None,
    overrides: Sequence[str] = (),
    *,
    size: Size | None = None,
    seconds: float = 30.0,
    breakdown: bool = False,
    as_json: bool = False,
) -> None:
    """Trains for about `seconds` seconds and writes a report; nothing is kept.

    Memory is read before the limit and the breakdown are measured. Raises UserError as
    `open_workload` does.
    """
    with open_workload(config_file, size, overrides) as workload:
        state = workload.fresh_state()
        device, training = state.model.output_weight.device, workload.config.training
        compiled = repays_compiling(training.compile, device, training.steps or REPAYING_STEPS)
        if compiled:
            state.model.compile(dynamic=True)
        updates = measure_updates(workload, state, seconds)
        record: Record = {"workload": workload.name, "model": workload.config.model.name}
        record |= describe_training(state) | {"compiled": compiled} | _speed(updates)
        padded = padding(workload.data.train.lengths, workload.first_epoch(state.max_tokens))
        record |= {"padding": round(padded, 4), "peak_mib": _peak(device)}
        batch = middling_batch(workload, state)
        products = products_of(state, batch)
        seconds_of_products = product_seconds(products, batch)
        limit = batch.target_tokens / sum(seconds_of_products)
        record["limit_tokens_per_second"] = round(limit, 1)
        record["share_of_limit"] = round(record["tokens_per_second"]["median"] / limit, 4)
        del state
        if breakdown:
            limits = dict.fromkeys((product.part for product in products), 0.0)
            for product, taken in zip(products, seconds_of_products, strict=True):
                limits[product.part] += taken
            record |= measure_breakdown(workload, limits)
    show(record, _text, as_json=as_json)


def _speed(updates: Sequence[Timed]) -> Record:
    rates = list(window_rates(updates))
    total = sum(update.seconds for update in updates)
    return {
        "tokens_per_second": {
            "median": round(median(rates), 1),
            "min": round(min(rates), 1),
            "max": round(max(rates), 1),
        },
        "windows": len(rates),
        "updates": len(updates),
        "update_ms": round(median(update.seconds for update in updates) * 1e3, 2),
        "tokens_per_update": round(mean(update.tokens for update in updates), 1),
        "waiting_for_data": round(sum(update.waited for update in updates) / total, 4),
    }


def _peak(device: torch.device) -> dict[str, int]:
    """MiB that this process held at most so far: resident, and allocated on a GPU."""
    on_gpu = {"gpu": torch.cuda.max_memory_allocated(device) >> 20} if device.type == "cuda" else {}
    return {"resident": peak_bytes() >> 20} | on_gpu


def _text(record: Record) -> Iterator[str]:
    rate, precision = record["tokens_per_second"], record["precision"]
    yield f"{record['workload']}: {record['model']}, {record['parameters']:,} parameters"
    yield f"{precision}{', compiled' if record['compiled'] else ''}, {machine_text(record)}"
    yield ""
    spread = f"({rate['min']:,.0f} to {rate['max']:,.0f} in {record['windows']} windows)"
    limit = f"{record['limit_tokens_per_second']:,.0f}, what its products allow"
    each = f"({record['updates']:,} of them, {record['tokens_per_update']:,.0f} target tokens each)"
    peak = ", ".join(f"{mib:,} MiB {where}" for where, mib in record["peak_mib"].items())
    yield from table(
        [
            ["target tokens/s", f"{rate['median']:,.0f}  {spread}"],
            ["of the limit", f"{record['share_of_limit']:.1%}  of {limit}"],
            ["update", f"{record['update_ms']:,.1f} ms  {each}"],
            ["waiting for data", f"{record['waiting_for_data']:.2%}"],
            ["padding", f"{record['padding']:.2%}"],
            ["peak memory", peak],
        ],
        left=2,
    )
    if "breakdown" in record:
        yield from _breakdown_text(record)


def _breakdown_text(record: Record) -> Iterator[str]:
    yield ""
    rows = [[f"of {record['divided_update_ms']:,.1f} ms", "ms", "share", "products, ms"]]
    for part, of in record["breakdown"].items():
        rows.append([part, f"{of['ms']:,.1f}", f"{of['share']:.1%}", f"{of['limit_ms']:,.1f}"])
    yield from table(rows)
    yield ""
    rows = [["costliest operators", "calls", "ms", "share"]]
    for of in record["operators"]:
        rows.append([of["name"], f"{of['calls']:,.0f}", f"{of['ms']:,.1f}", f"{of['share']:.1%}"])
    yield from table(rows)
