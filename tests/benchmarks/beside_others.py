"""What another program costs that keeps one core busy: of training's speed, translation's, a run's.

    python tests/benchmarks/beside_others.py train-tiny train-base --rounds 3
    python tests/benchmarks/beside_others.py demo --rounds 1

Each is measured with and without a process that never rests, by turns; the system decides on which
core that one runs. Speeds are target tokens per second, of translation with a beam of 5 in float32;
of the demo, which is a run from texts to scores, runs per second.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from processes import mtkit, run

from mtkit.decoding.api import Translator
from mtkit.study.bench.translate import open_task
from mtkit.study.bench.translation_rate import measure_apart

RESTLESS = [sys.executable, "-c", "while True: pass"]
DEMO = Path(__file__).parents[2] / "data" / "demo" / "demo.yaml"


def train(size: str, seconds: float, *settings: str) -> float:
    command = mtkit("bench", "train", "--json", "-q", "--size", size, "--seconds", str(seconds))
    command += [word for setting in settings for word in ("--set", setting)]
    return float(run(command).record["tokens_per_second"]["median"])


def translate(engine: str, seconds: float) -> float:
    with open_task([], None, "tiny") as task:
        load = partial(Translator.load, task.models, "cpu", engine=engine, scores=False)
        return measure_apart(load, task.lines, seconds).tokens_per_second


def demo(_: float) -> float:
    with TemporaryDirectory(prefix="mtkit-demo-") as folder:
        return 1 / run(mtkit("run", "-q", "-c", str(DEMO), "--run", folder)).seconds


WORK: dict[str, Callable[[float], float]] = {
    "train-tiny": partial(train, "tiny"),
    "train-base": partial(train, "base"),
    "train-tiny-threads": lambda seconds: train("tiny", seconds, "training.ranks=1"),
    "train-base-threads": lambda seconds: train("base", seconds, "training.ranks=1"),
    "translate-ctranslate2": partial(translate, "ctranslate2"),
    "translate-torch": partial(translate, "torch"),
    "demo": demo,
}
"""What each measures in about so many seconds; those of one process with threads to compare."""


@contextmanager
def another_program() -> Iterator[None]:
    with subprocess.Popen(RESTLESS) as process:
        try:
            yield
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", nargs="+", choices=WORK)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each measurement")
    options = parser.parse_args()
    for name in options.work:
        alone, beside = [], []
        for _ in range(options.rounds):
            alone.append(WORK[name](options.seconds))
            with another_program():
                beside.append(WORK[name](options.seconds))
            print(f"{name}: alone {alone[-1]:,.4g}, beside another {beside[-1]:,.4g}", flush=True)
        print(f"{name}: keeps {median(beside) / median(alone):.2f}", flush=True)


if __name__ == "__main__":
    main()
