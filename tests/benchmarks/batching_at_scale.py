"""`mtkit batch` on millions of pairs, against SentencePiece's own batch encoding. Linux.

    python tests/benchmarks/batching_at_scale.py train.en train.de --pairs 500000 5000000 20000000

For each size a corpus is made of the given one, and encoded twice with the same number of threads:
by SentencePiece alone, both sides from memory and nothing kept, and by `mtkit batch`, which reads,
filters, packs, writes and hashes. Then an epoch is planned. Memory is the largest resident size of
all processes together, pages of mapped files included.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from processes import mtkit
from sentencepiece import SentencePieceProcessor

from mtkit.batching.build import open_batches
from mtkit.batching.plan import padding, plan_epoch
from mtkit.machine import peak_bytes

BLOCK = 50_000
"""Lines that SentencePiece is given at a time."""
BETWEEN_LOOKS = 0.05
"""Seconds."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--pairs", type=int, nargs="+", default=[500_000])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--max-tokens", type=int, default=4096)
    parser.add_argument("--vocab-size", type=int, default=8000)
    parser.add_argument("--folder", type=Path, default=Path("runs/batching-at-scale"))
    given = parser.parse_args()
    for pairs in given.pairs:
        measure(given, pairs)


def measure(given: argparse.Namespace, pairs: int) -> None:
    run = given.folder / f"{pairs}"
    run.mkdir(parents=True, exist_ok=True)
    sides = [write_side(path, pairs, run / name) for name, path in sources(given)]
    config = write_config(given, run, sides)
    stage("train-spm", config)
    alone = sentencepiece_seconds(run / "tokenizer/spm.model", sides, given.threads)
    seconds, peak = stage("batch", config)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        planned, plan_peak, waste = fresh.submit(plan, run / "batches", given.max_tokens).result()
    manifest = json.loads((run / "batches/manifest.json").read_text(encoding="utf-8"))
    train = manifest["report"]["train"]
    size = sum(f["bytes"] for name, f in manifest["files"].items() if is_of_train_store(name))
    per_token = size / (train["source_tokens"] + train["target_tokens"])
    print(f"{pairs:,} pairs, {given.threads} threads")
    print(f"  SentencePiece   {pairs / alone:12,.0f} pairs/s")
    print(f"  mtkit batch     {pairs / seconds:12,.0f} pairs/s   {alone / seconds:.2f} of that")
    print(f"  peak memory     {peak / 1e6:12,.0f} MB")
    print(f"  store           {per_token:12.3f} bytes per token")
    print(f"  plan_epoch      {planned:12.1f} s         peak {plan_peak / 1e6:,.0f} MB")
    print(f"  padding         {waste:12.1%} at {given.max_tokens:,} tokens", flush=True)


def sources(given: argparse.Namespace) -> list[tuple[str, Path]]:
    return [("source", given.source), ("target", given.target)]


def is_of_train_store(name: str) -> bool:
    return name.startswith("train.")


def write_side(corpus: Path, pairs: int, path: Path) -> Path:
    """Each line in each round followed by the first words of another; so that lengths vary."""
    lines = [line.split() for line in corpus.read_text(encoding="utf-8").split("\n")[:-1]]
    with path.open("w", encoding="utf-8") as file:
        for index in range(pairs):
            turn, row = divmod(index, len(lines))
            other = lines[(row + turn) % len(lines)]
            file.write(" ".join(lines[row] + other[: turn % 8]) + "\n")
    return path


def write_config(given: argparse.Namespace, run: Path, sides: list[Path]) -> Path:
    """JSON is YAML."""
    corpus = {"source": str(sides[0]), "target": str(sides[1])}
    first = {name: str(head(path)) for name, path in zip(corpus, sides, strict=True)}
    config = {
        "run": str(run),
        "data": {"train": corpus, "valid": first},
        "tokenizer": {"vocab_size": given.vocab_size, "sample_lines": 200_000},
        "batching": {"workers": given.threads, "max_tokens": given.max_tokens},
        "training": {"steps": 1},
    }
    path = run / "benchmark.yaml"
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


def head(path: Path) -> Path:
    shorter = path.with_suffix(".head")
    with path.open(encoding="utf-8") as file:
        shorter.write_text("".join(islice(file, 100)), encoding="utf-8")
    return shorter


def sentencepiece_seconds(model: Path, sides: list[Path], threads: int) -> float:
    """How long SentencePiece takes for both sides, reading apart."""
    processor, seconds = SentencePieceProcessor(model_file=str(model)), 0.0
    for path in sides:
        for lines in blocks(path):
            start = time.perf_counter()
            processor.encode(lines, num_threads=threads)
            seconds += time.perf_counter() - start
    return seconds


def blocks(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as file:
        while lines := [line.rstrip("\n") for line in islice(file, BLOCK)]:
            yield lines


def stage(name: str, config: Path) -> tuple[float, int]:
    """Seconds and the largest resident bytes of the command, which does not find its work done."""
    shutil.rmtree(config.parent / "batches", ignore_errors=True)
    start, peak = time.perf_counter(), 0
    with subprocess.Popen(mtkit(name, "-c", str(config))) as process:
        while process.poll() is None:
            peak = max(peak, resident_bytes(process.pid))
            time.sleep(BETWEEN_LOOKS)
    seconds = time.perf_counter() - start
    if process.returncode:
        sys.exit(process.returncode)
    return seconds, peak


def resident_bytes(root: int) -> int:
    """Of a process and all that descend from it."""
    parents: dict[int, int] = {}
    resident: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        process = int(stat.parent.name)
        parents[process], resident[process] = int(fields[1]), int(fields[21])
    members = {root}
    for process in sorted(parents):
        line = [process]
        while line[-1] in parents and line[-1] not in members:
            line.append(parents[line[-1]])
        if line[-1] in members:
            members.update(line)
    return sum(resident.get(process, 0) for process in members) * os.sysconf("SC_PAGE_SIZE")


def plan(batches: Path, max_tokens: int) -> tuple[float, int, float]:
    """Seconds, peak resident bytes of a process that plans an epoch, and the share of padding."""
    data = open_batches(batches)
    lengths = data.train.lengths
    start = time.perf_counter()
    planned = plan_epoch(lengths, max_tokens=max_tokens, seed=1, epoch=0, weights=data.weights)
    seconds = time.perf_counter() - start
    return seconds, peak_bytes(), padding(lengths, planned)


if __name__ == "__main__":
    main()
