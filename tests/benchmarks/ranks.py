"""What a second rank gains: 2 ranks of 1 thread each against 1 process of 2 threads.

    python tests/benchmarks/ranks.py CONFIG --rounds 2 --steps 60

Both make the same updates, of two micro-batches: one process accumulates them, two ranks take one
each. Runs alternate; the speed is that of the second half of each run, from metrics.jsonl.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path

from processes import run

from mtkit.batching.build import build_batches
from mtkit.config.configfile import load_config
from mtkit.tokenizer.train import train_tokenizer
from mtkit.training.run.metrics import MetricsLog

WAYS = {
    "1 process x 2 threads": (["-m", "mtkit"], 2, 2),
    "2 ranks x 1 thread": (
        ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m", "mtkit"],
        1,
        1,
    ),
}
"""Program, threads, accumulated micro-batches."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("config", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--run", type=Path, default=Path("runs/ranks"))
    given = parser.parse_args()
    config = load_config(given.config, [], str(given.run))
    train_tokenizer(config)
    build_batches(config)
    speeds: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(given.rounds):
        for way in WAYS:
            speeds[way].append(speed(given, way))
            print(f"{way}: {speeds[way][-1]:,.0f} target tokens/s", flush=True)
    one, two = (statistics.median(values) for values in speeds.values())
    print(f"two ranks / one process: {two / one:.2f}")


def speed(given: argparse.Namespace, way: str) -> float:
    program, threads, accumulate = WAYS[way]
    for name in ("checkpoints", "metrics.jsonl"):
        path = given.run / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    settings = {
        "steps": given.steps,
        "epochs": None,
        "accumulate": accumulate,
        "log_every": given.steps // 4,
        "validate_every": 10 * given.steps,
        "save_every": 10 * given.steps,
    }
    overrides = [
        part
        for name, value in settings.items()
        for part in ("--set", f"training.{name}={json.dumps(value)}")
    ]
    command = [sys.executable, *program, "train", "-q", "-c", str(given.config)]
    run([*command, "--set", f"run={given.run}", *overrides], threads=threads)
    shutil.rmtree(given.run / "model")
    records = MetricsLog(given.run / "metrics.jsonl").read()
    speeds = [record["tokens_per_second"] for record in records if record["kind"] == "train"]
    return float(statistics.mean(speeds[len(speeds) // 2 :]))


if __name__ == "__main__":
    main()
