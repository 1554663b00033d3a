"""Whether memory and open files stay flat in a long training and a long translation. Linux.

    python tests/benchmarks/soak.py
    python tests/benchmarks/soak.py --steps 400 --lines 5000 --set batching.max_tokens=512

Both are commands of their own, watched from outside: `mtkit train` each time it logs, validations
and checkpoints included, `mtkit translate` while lines are piped through it. What comes before the
warm-up is left out. Growth is the slope of the least-squares line, in MiB per 1,000 steps or lines,
of all that is left and of the second half: kernels for rare lengths of sentence come late.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path
from threading import Thread
from typing import IO

import numpy as np
from processes import mtkit

from mtkit.training.metrics_log import MetricsLog

EVERY = 50
"""Steps between two samples of training."""
SAMPLES = 100
"""Of translation."""
BETWEEN_LOOKS = 0.01
"""Seconds."""


@dataclass(frozen=True)
class Sample:
    """A process after `count` steps or lines."""

    count: int
    mebibytes: float
    """Resident."""
    files: int
    """Open descriptors."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-c", "--config", help="default: the demo's")
    parser.add_argument("--set", action="append", default=[], metavar="KEY.PATH=VALUE")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--warmup", type=float, default=0.1, help="share of each that is left out")
    options = parser.parse_args()
    config = ["-c", str(Path(options.config).resolve())] if options.config else ["--demo"]
    settings = [*options.set, f"training.steps={options.steps}", f"training.log_every={EVERY}"]
    arguments = [*config, "--quiet", "--run", "run", *(f"--set={setting}" for setting in settings)]
    arguments.append("--set=training.ranks=1")  # the process that is watched does the work
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for stage in ("train-spm", "batch"):
            subprocess.run(mtkit(stage, *arguments), cwd=folder, check=True)
        trained = list(training(folder, arguments))
        translated = list(translation(folder, options.lines))
    print(f"{'':13} samples  MiB, least to most  growth  2nd half  open files")
    show("steps", trained, options.warmup * options.steps)
    show("lines", translated, options.warmup * options.lines)


def training(folder: Path, options: list[str]) -> Iterator[Sample]:
    """A sample whenever a step is logged."""
    log, seen = MetricsLog(folder / "run"), 0
    with subprocess.Popen(mtkit("train", *options), cwd=folder) as process:
        while process.poll() is None:
            steps = [record["step"] for record in log.read() if record["kind"] == "train"]
            if steps and steps[-1] > seen:
                seen = steps[-1]
                yield sample(process.pid, seen)
            time.sleep(BETWEEN_LOOKS)
    assert process.returncode == 0


def translation(folder: Path, count: int) -> Iterator[Sample]:
    """Samples while `count` lines come out."""
    lines = (folder / "run/batches/valid.source.txt").read_bytes().splitlines(keepends=True)
    command = mtkit("translate", "-m", "run", "--quiet")
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = Thread(target=feed, args=(process.stdin, islice(cycle(lines), count)))
        feeder.start()
        for number, _ in enumerate(process.stdout, start=1):
            if number < count and number % max(1, count // SAMPLES) == 0:
                yield sample(process.pid, number)
        feeder.join()
    assert process.returncode == 0
    assert number == count


def feed(stream: IO[bytes], lines: Iterator[bytes]) -> None:
    with stream:
        stream.writelines(lines)


def sample(pid: int, count: int) -> Sample:
    status = Path(f"/proc/{pid}/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return Sample(
        count, int(fields["VmRSS"].split()[0]) / 1024, len(list(Path(f"/proc/{pid}/fd").iterdir()))
    )


def show(unit: str, samples: list[Sample], warmup: float) -> None:
    kept = [sample for sample in samples if sample.count > warmup]
    memory, files = [sample.mebibytes for sample in kept], [sample.files for sample in kept]
    print(
        f"{kept[-1].count:>7,} {unit} {len(kept):>7}  {min(memory):>8.1f} to {max(memory):>6.1f} "
        f"{growth(kept):>+7.2f} {growth(kept[len(kept) // 2 :]):>+9.2f}  "
        f"{min(files)} to {max(files)}, {files[-1]} in the end"
    )


def growth(samples: list[Sample]) -> float:
    """MiB per 1,000."""
    counts, memory = [sample.count for sample in samples], [sample.mebibytes for sample in samples]
    return float(1000 * np.polyfit(counts, memory, 1)[0])


if __name__ == "__main__":
    main()
