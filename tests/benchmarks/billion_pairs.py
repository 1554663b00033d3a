"""What a billion pairs cost to lay out: their store, the plan of an epoch, the first batch. Linux.

    python tests/benchmarks/billion_pairs.py --pairs 1_000_000 10_000_000 100_000_000 1_000_000_000

Lengths are drawn and written as `mtkit batch` writes them; the ids are a sparse file of the right
size, which reads as zeros and takes no disk. Then a fresh process, as each rank would, opens the
store, makes the first update's batch and plans some blocks of the epoch. Its memory is told without
the pages of mapped files, which all processes of a machine share. How far the order is from a
uniform shuffle is told by corpora that lie one after the other, a tenth each: the deviation of
their shares in stretches of batches, and what it is where pairs are drawn one by one. Seconds are
those of one processor.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from mtkit.batching.plan import Rows, check_fit, count_blocks, padding, plan_block
from mtkit.batching.store import Lengths, Store, store_writer
from mtkit.training.data import load_batch

CHUNK = 1 << 20
MEAN, DEVIATION, BETWEEN_SIDES = 25.0, 0.6, 0.2
"""Mean subwords of a side; deviations of the logs of a length, and of the ratio of both."""
BETWEEN_LOOKS = 0.005
"""Seconds."""
CORPORA = 10
STRETCHES = (10, 100, 1000)
"""Numbers of batches over which the shares of corpora are compared."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--blocks", type=int, default=3, help="how many are planned, at most")
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--folder", type=Path, default=Path("runs/billion-pairs"))
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    for pairs in given.pairs:
        if given.measure:
            print(json.dumps(measure(given)))
            continue
        try:
            drawn = draw(given.folder, pairs)
            command = [sys.executable, *sys.argv, "--pairs", f"{pairs}", "--measure"]
            child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            show(pairs, drawn | json.loads(child.stdout))
        finally:
            shutil.rmtree(given.folder)


def draw(folder: Path, pairs: int) -> dict[str, float]:
    """Writes a store of drawn lengths; how long that took, and its bytes."""
    folder.mkdir(parents=True)
    random, began, tokens = np.random.default_rng(1), time.perf_counter(), 0
    with store_writer(folder, "train", vocab=1 << 16) as append:
        for start in range(0, pairs, CHUNK):
            rows = np.arange(start, min(start + CHUNK, pairs))
            lengths = draw_lengths(len(rows), random)
            append(np.empty(0, np.uint16), lengths, (rows * CORPORA // pairs).astype(np.uint16))
            tokens += int(lengths.sum())
    os.truncate(folder / "train.uint16", 2 * tokens)
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    return {"drawn": time.perf_counter() - began, "bytes": sum(sizes.values())}


def draw_lengths(count: int, random: np.random.Generator) -> Lengths:
    """(count, 2): log-normal, and alike on both sides."""
    normal = random.standard_normal((2, count), np.float32)
    source = np.exp(np.float32(np.log(MEAN) - DEVIATION**2 / 2) + DEVIATION * normal[0])
    target = source * np.exp(BETWEEN_SIDES * normal[1])
    return np.stack([source, target], axis=1).round().clip(1, 256).astype(np.uint16)


def measure(given: argparse.Namespace) -> dict[str, Any]:
    """In a fresh process: seconds and bytes of what a rank does before and while it trains."""
    before, memory, began = own_bytes(), OwnMemory(), time.process_time()
    store = Store.open(given.folder, "train")
    opened = time.process_time() - began
    ask = {"max_tokens": given.max_tokens, "seed": 1, "epoch": 0}
    check_fit(store.lengths, given.max_tokens)
    load_batch(store, plan_block(store.lengths, 0, **ask)[0])
    first = time.process_time() - began
    first_peak = memory.peak - before
    began = time.process_time()
    blocks = range(min(given.blocks, count_blocks(len(store))))
    plan = [batch for block in blocks for batch in plan_block(store.lengths, block, **ask)]
    seconds = (time.process_time() - began) / sum(map(len, plan))
    return {
        "open": opened,
        "first": first,
        "memory": first_peak,
        "blocks": count_blocks(len(store)),
        "per_pair": seconds,
        "padding": padding(store.lengths, plan),
        "spread": spread(store, plan),
    }


class OwnMemory(Thread):
    """Looks again and again how much memory this process has for itself."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak = 0
        self.start()

    def run(self) -> None:
        while True:
            self.peak = max(self.peak, own_bytes())
            time.sleep(BETWEEN_LOOKS)


def own_bytes() -> int:
    """Resident bytes of this process that are no pages of files."""
    status = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(dict(line.split(":", 1) for line in status)["RssAnon"].split()[0]) * 1024


def spread(store: Store, plan: list[Rows]) -> dict[int, tuple[float, float]]:
    """Deviations of the shares of corpora in stretches of batches: as planned, and if drawn."""
    assert store.corpora is not None
    counts = np.stack([np.bincount(store.corpora[rows], minlength=CORPORA) for rows in plan])
    found = {}
    for size in STRETCHES:
        several = counts[: len(counts) // size * size].reshape(-1, size, CORPORA).sum(axis=1)
        shares = several / several.sum(axis=1, keepdims=True)
        rows, tenth = several.sum(axis=1).mean(), 1 / CORPORA
        deviation = float(np.sqrt(((shares - tenth) ** 2).mean()))
        found[size] = deviation, float(np.sqrt(tenth * (1 - tenth) / rows))
    return found


def show(pairs: int, found: dict[str, Any]) -> None:
    print(f"{pairs:,} pairs: {found['bytes'] / 1e9:,.2f} GB, drawn in {found['drawn']:.0f} s")
    print(f"  store opened  {found['open']:10.2f} s")
    print(f"  first batch   {found['first']:10.2f} s, of block 1 of {found['blocks']}")
    print(f"  own memory    {found['memory'] / 1e6:10,.0f} MB more than before, at most")
    print(f"  planning      {found['per_pair'] * 1e6:10.2f} µs per pair")
    print(f"  padding       {found['padding']:10.2%}")
    for size, (planned, drawn) in found["spread"].items():
        print(
            f"  a tenth is 10 ± {planned:.2%} of {size} batches; drawn pair by pair ± {drawn:.2%}"
        )
    sys.stdout.flush()


if __name__ == "__main__":
    main()
