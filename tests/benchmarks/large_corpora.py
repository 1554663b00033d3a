"""Very large corpora: the speed of `mtkit batch`, and what the plan of an epoch costs.

    python tests/benchmarks/large_corpora.py encode train.en train.de --pairs 500_000 5_000_000
    python tests/benchmarks/large_corpora.py plan --pairs 1_000_000 100_000_000 1_000_000_000

encode  `mtkit batch` (read, filter, pack, write, hash) against SentencePiece alone, with the same
        number of threads, both sides from memory, nothing kept; on a corpus made of the given one
plan    lengths are drawn and written as `mtkit batch` writes them, the ids are a sparse file; then
        a new process opens the store, makes a batch and plans some blocks, as training does
"""

from __future__ import annotations

import argparse
import json
import os
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from processes import mtkit, run
from sentencepiece import SentencePieceProcessor

from mtkit.batching.plan import check_fit, count_blocks, padding, plan_block
from mtkit.batching.store import Lengths, Store, store_writer
from mtkit.machine import peak_bytes
from mtkit.training.data import load_batch

CHUNK = 1 << 20
MEAN, DEVIATION, BETWEEN_SIDES = 25.0, 0.6, 0.2
"""Mean subwords of a side; deviations of the logs of a length, and of the ratio of both."""
MAX_TOKENS = 4096


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("encode", "plan"))
    parser.add_argument("files", type=Path, nargs="*", help="source and target, to encode")
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--folder", help="where to work (default: that of temporary files)")
    options = parser.parse_args()
    for pairs in options.pairs:
        with TemporaryDirectory(dir=options.folder) as folder:
            if options.part == "encode":
                encode(options.files, pairs, options.threads, Path(folder))
            else:
                plan(pairs, Path(folder))


def encode(files: list[Path], pairs: int, threads: int, work: Path) -> None:
    for name, path in zip(("source", "target"), files, strict=True):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
        with (work / name).open("w", encoding="utf-8") as file:
            for number in range(pairs):  # followed by words of another line: lengths vary
                turn, row = divmod(number, len(lines))
                more = lines[(row + turn) % len(lines)].split()[: turn % 8]
                file.write(" ".join([lines[row], *more]) + "\n")
        with (work / name).open(encoding="utf-8") as file:
            (work / f"valid.{name}").write_text("".join(islice(file, 100)), encoding="utf-8")
    sides = {
        part: {name: str(work / f"{start}{name}") for name in ("source", "target")}
        for part, start in (("train", ""), ("valid", "valid."))
    }
    config = {"run": str(work / "run"), "data": sides, "training": {"steps": 1}}
    config |= {"tokenizer": {"sample_lines": 200_000}}
    os.environ["OMP_NUM_THREADS"] = str(threads)
    (work / "mtkit.yaml").write_text(json.dumps(config), encoding="utf-8")  # JSON is YAML
    run(mtkit("train-spm", "-c", str(work / "mtkit.yaml")))
    processor, alone = SentencePieceProcessor(model_file=str(work / "run/tokenizer/spm.model")), 0.0
    for name in ("source", "target"):
        lines = (work / name).read_text(encoding="utf-8").split("\n")[:-1]
        began = time.perf_counter()
        processor.encode(lines, num_threads=threads)
        alone += time.perf_counter() - began
    batch = run(mtkit("batch", "-c", str(work / "mtkit.yaml")))
    print(
        f"{pairs:,} pairs, {threads} threads: SentencePiece {pairs / alone:,.0f} pairs/s, ", end=""
    )
    print(f"mtkit {pairs / batch.seconds:,.0f} pairs/s ({alone / batch.seconds:.2f}), ", end="")
    print(f"{batch.peak_mib:,} MiB in the main process", flush=True)


def plan(pairs: int, work: Path) -> None:
    random, began, tokens = np.random.default_rng(1), time.perf_counter(), 0
    with store_writer(work, "train", vocab=1 << 16) as append:
        for start in range(0, pairs, CHUNK):
            count = min(CHUNK, pairs - start)
            lengths = draw_long_lengths(count, random)
            append(np.empty(0, np.uint16), lengths, np.zeros(count, np.uint16))
            tokens += int(lengths.sum())
    os.truncate(work / "train.uint16", 2 * tokens)
    print(f"{pairs:,} pairs: drawn in {time.perf_counter() - began:.0f} s, ", end="", flush=True)
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        print(fresh.submit(plan_in_process, work).result(), flush=True)


def draw_long_lengths(pairs: int, random: np.random.Generator) -> Lengths:
    """Return the numbers of subwords of source and target, as in large corpora: (pairs, 2)."""
    normal = random.standard_normal((2, pairs), np.float32)
    source = np.exp(np.log(MEAN) - DEVIATION**2 / 2 + DEVIATION * normal[0])
    both = np.stack([source, source * np.exp(BETWEEN_SIDES * normal[1])], axis=1)
    return both.round().clip(1, 256).astype(np.uint16)


def plan_in_process(work: Path) -> str:
    before, began = peak_bytes(), time.process_time()
    store = Store.open({path.name: path for path in work.iterdir()}, "train")
    block = partial(plan_block, store.lengths, max_tokens=MAX_TOKENS, seed=1, epoch=0)
    check_fit(store.lengths, MAX_TOKENS)
    load_batch(store, block(0)[0])
    first, peak = time.process_time() - began, peak_bytes()
    blocks, began = range(min(3, count_blocks(len(store)))), time.process_time()
    batches = [batch for number in blocks for batch in block(number)]
    per_pair = (time.process_time() - began) / sum(map(len, batches))
    return (
        f"first batch after {first:.2f} s, {(peak - before) >> 20:,} MiB more (mapped files "
        f"included), planning {per_pair * 1e6:.2f} µs per pair, "
        f"padding {padding(store.lengths, batches):.2%}"
    )


if __name__ == "__main__":
    main()
