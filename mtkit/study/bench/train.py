"""`mtkit bench train`: how fast a config or size trains here, and what holds it back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from typing import Any

from mtkit.batching.plan import padding, plan_epoch
from mtkit.report import data, table
from mtkit.study.bench.breakdown import Breakdown, measure_breakdown
from mtkit.study.bench.ceiling import Limit, measure_limit
from mtkit.study.bench.machine import describe, peak_memory
from mtkit.study.bench.throughput import Timed, measure_updates, window_rates
from mtkit.study.bench.workload import Size, Workload, open_workload
from mtkit.training.run.compiling import REPAYING_STEPS, repays_compiling
from mtkit.training.state import TrainState


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
        record: dict[str, Any] = {"workload": workload.name, "model": workload.config.model.name}
        record |= describe(state) | {"compiled": compiled} | _speed(updates)
        record |= {"padding": round(_padding(workload, state), 4), "peak_mib": peak_memory(device)}
        limit = measure_limit(workload, state, state.precision)
        record["limit_tokens_per_second"] = round(limit.tokens_per_second, 1)
        tokens = record["tokens_per_second"]["median"]
        record["share_of_limit"] = round(tokens / limit.tokens_per_second, 4)
        del state
        if breakdown:
            record |= _divided(measure_breakdown(workload), limit)
    data(json.dumps(record, indent=2) + "\n" if as_json else "\n".join([*_text(record), ""]))


def _speed(updates: Sequence[Timed]) -> dict[str, Any]:
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


def _padding(workload: Workload, state: TrainState) -> float:
    """Of the first epoch."""
    lengths, config = workload.data.train.lengths, workload.config
    plan = plan_epoch(lengths, max_tokens=state.max_tokens, seed=config.seed, epoch=0)
    return padding(lengths, plan)


def _divided(breakdown: Breakdown, limit: Limit) -> dict[str, Any]:
    """Times in ms per update. `limit_ms` is what the products of a part take by themselves."""
    products = sum(limit.seconds)
    return {
        "profiled_update_ms": round(breakdown.update_seconds * 1e3, 2),
        "breakdown": {
            part: {
                "ms": round(seconds * 1e3, 2),
                "share": round(breakdown.share(part), 4),
                "limit_ms": round(limit.share_of(part) * products * 1e3, 2),
            }
            for part, seconds in breakdown.seconds.items()
            if seconds
        },
        "operators": [
            {
                "name": operator.name,
                "calls": round(operator.calls, 1),
                "ms": round(operator.seconds * 1e3, 2),
                "share": round(operator.seconds / breakdown.update_seconds, 4),
            }
            for operator in breakdown.operators
        ],
    }


def _text(record: dict[str, Any]) -> Iterator[str]:
    rate, peak = record["tokens_per_second"], record["peak_mib"]
    yield f"{record['workload']}: {record['model']}, {record['parameters']:,} parameters"
    yield (
        f"{record['precision']}{', compiled' if record['compiled'] else ''}, "
        f"{record['processor']}, {record['threads']} threads, torch {record['torch']}"
    )
    yield ""
    yield from _facts(
        {
            "target tokens/s": f"{rate['median']:,.0f}  ({rate['min']:,.0f} to {rate['max']:,.0f} "
            f"in {record['windows']} windows)",
            "of the limit": f"{record['share_of_limit']:.1%}  of "
            f"{record['limit_tokens_per_second']:,.0f}, what {record['precision']} products allow",
            "update": f"{record['update_ms']:,.1f} ms  ({record['updates']:,} of them, "
            f"{record['tokens_per_update']:,.0f} target tokens each)",
            "waiting for data": f"{record['waiting_for_data']:.2%}",
            "padding": f"{record['padding']:.2%}",
            "peak memory": ", ".join(f"{mib:,} MiB {where}" for where, mib in peak.items()),
        }
    )
    if "breakdown" in record:
        yield from _breakdown_text(record)


def _facts(facts: dict[str, str]) -> Iterator[str]:
    width = max(map(len, facts))
    for name, value in facts.items():
        yield f"{name:<{width}}  {value}"


def _breakdown_text(record: dict[str, Any]) -> Iterator[str]:
    yield ""
    yield from table(
        [
            [f"of {record['profiled_update_ms']:,.1f} ms, profiled", "ms", "share", "products, ms"],
            *(
                [part, f"{of['ms']:,.1f}", f"{of['share']:.1%}", f"{of['limit_ms']:,.1f}"]
                for part, of in record["breakdown"].items()
            ),
        ]
    )
    yield ""
    yield from table(
        [
            ["costliest operators", "calls", "ms", "share"],
            *(
                [of["name"], f"{of['calls']:,.0f}", f"{of['ms']:,.1f}", f"{of['share']:.1%}"]
                for of in record["operators"]
            ),
        ]
    )
