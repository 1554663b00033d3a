"""Where the time of a training step goes: by operator, and by shape of matrix product.

    python tests/benchmarks/training_time.py --size base --steps 5 --set training.precision=float32
    python tests/benchmarks/training_time.py -c mtkit.yaml

One process trains for a few steps under the profiler of torch, which makes small operators look
slower than they are. GFLOP/s of a product beside those of the largest one say what a better kernel
could gain.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from torch.profiler import profile

from mtkit.extras.study.bench.training_speed import open_training_sample
from mtkit.report import data_lines, table
from mtkit.training.speed import timed_steps


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-c", "--config", type=Path)
    parser.add_argument("--size", choices=("tiny", "base"), default="tiny")
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rows", type=int, default=15, help="of each table")
    options = parser.parse_args()
    with open_training_sample(options.config, options.size, options.set) as (_, inputs):
        steps = timed_steps(inputs, inputs.initial_state(), seconds=1e9)
        next(steps)
        with profile(record_shapes=True, with_flops=True) as profiler:
            list(islice(steps, options.steps))
        steps.close()
    for title, by_shape in (("operator", False), ("product", True)):
        kinds = profiler.key_averages(group_by_input_shape=by_shape)
        own = "self_device_time_total" if kinds[0].device_time_total else "self_cpu_time_total"
        total = sum(getattr(kind, own) for kind in kinds)
        rows = [[title, "calls per step", "ms per step", "share", "GFLOP/s"]]
        for kind in sorted(kinds, key=lambda kind: -getattr(kind, own)):
            if len(rows) <= options.rows and (kind.flops or not by_shape):
                spent = getattr(kind, own)  # microseconds
                shapes = f" {kind.input_shapes}" if by_shape else ""
                speed = f"{kind.flops / spent / 1e3:,.0f}" if kind.flops and spent else ""
                ms = f"{spent / options.steps / 1e3:,.2f}"
                calls = f"{kind.count / options.steps:,.1f}"
                rows.append([f"{kind.key}{shapes}", calls, ms, f"{spent / total:.1%}", speed])
        data_lines(["", *table(rows)])


if __name__ == "__main__":
    main()
