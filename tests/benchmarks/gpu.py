"""Tests and figures of mtkit on a GPU, what matters most first; gpu.sh starts it.

    tests/benchmarks/gpu.sh --corpus data/multi30k --out figures   # in at most eight minutes
    tests/benchmarks/gpu.sh --seconds 60 --minutes 60 base hf-base  # these rows, a minute each

Needs no network, and a corpus only for the recipe. Other rows train on random text with a character
per subword, whose sentences are as long as Multi30k's (big: as those of large corpora, mean 25).
Each row runs in processes of its own, and is printed and written to FIGURES/ROW.json at once, so an
interruption loses one row. No row starts after --minutes. The table of all rows ends the report.

kernels          the tests of the extra gpu: their number, and the names of those that fail
base, big, tiny, lstm
                 `mtkit train`: real target tokens, over the whole time from the first logged step;
                 full speed is 90 % of the median rate, in seconds from the start of the process;
                 memory is all that the GPU holds, caches included (without a GPU: resident memory)
recipe           `mtkit train` and test scores of configs/multi30k-en-de.yaml; --corpus names the
                 folder of {train,val,test2016}.{en,de}
search...        random weights, beam 5, 25 subwords per translation, bfloat16, 8,192 source tokens
                 per batch; base or tiny; plain: without graphs
dry-run          what `mtkit train --dry-run` says of base and nllb, to compare with their rows
nllb             as base, with 600 million parameters: the work of adapting NLLB with all subwords
wmt              as big, with norms before sublayers, as configs/wmt17-en-de.yaml has them
ctranslate2      as search, in float16
hf-...           MarianMTModel of the same size, on batches of the same size, in bfloat16 with
                 fused Adam
resume           whether a repeated run, and one that is resumed halfway, end in the same weights
memory           what a user sees if batches exceed the memory of the GPU
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import random_model
import torch
from follow import Speed, ask_gpu, finish, follow, last_line
from marian import marian_settings, write_batches
from processes import mtkit
from random_runs import SIZES, SMALL, write_run
from safetensors.torch import load_file

from mtkit.batching.build import build_batches
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.decoding.api import load
from mtkit.errors import UserError
from mtkit.extras.gpu.accelerate import GpuAcceleration
from mtkit.extras.study.bench import results
from mtkit.machine import peak_bytes
from mtkit.models.acceleration import Acceleration
from mtkit.report import data_lines, silently, table
from mtkit.tokenizer.train_spm import train_tokenizer

HERE = Path(__file__).parent
NEVER = 10**9
TITLES = ["", "tokens/s", "ms per step", "full speed after, s", "GiB", "remark"]

Result = TypeVar("Result")


SMALL_RECIPE = ["tokenizer.vocab_size=40", "tokenizer.byte_fallback=false", "training.epochs=2"]
SMALL_RECIPE += ["model.layers=1", "model.d_model=16", "model.ffn=16", "training.log_every=1"]


@dataclass(frozen=True)
class Row:
    """A line of the table; None where it has no such figure."""

    tokens_per_second: float | None = None
    step_ms: float | None = None
    full_speed_seconds: float | None = None
    gib: float | None = None
    remark: str = ""
    is_failed: bool = False

    @classmethod
    def of(cls, speed: Speed, remark: str = "") -> Row:
        """Return the row of a training, by default with the rates between its logged steps."""
        spread = f"{speed.slowest:,.0f} to {speed.fastest:,.0f}"
        remark = remark or f"median {speed.median:,.0f}, {spread}"
        figures = speed.tokens_per_second, speed.step_ms, speed.full_speed_seconds, speed.gib
        return cls(*figures, remark)

    def cells(self, name: str) -> list[str]:
        """Return the cells of the line."""
        figures = self.tokens_per_second, self.step_ms, self.full_speed_seconds, self.gib
        texts = [
            "" if figure is None else format(figure, form)
            for figure, form in zip(figures, (",.0f", ",.1f", ",.1f", ",.2f"), strict=True)
        ]
        return [name, *texts, self.remark]


@dataclass(frozen=True)
class SearchTask:
    """What searches, with or without graphs."""

    size: str = "base"
    engine: str = "torch"
    compute_type: str = "bfloat16"
    has_graphs: bool = True


@dataclass(frozen=True)
class Bench:
    """Where, on what and for how long to measure."""

    work: Path
    seconds: float
    corpus: Path | None
    is_small: bool

    def train(self, name: str) -> Row:
        """Measure `mtkit train`."""
        config = self._prepare(name)
        command = mtkit("train", "-c", str(config))
        return Row.of(follow(command, config.parent / "run", self.seconds))

    def train_peer(self, name: str) -> Row:
        """Measure Hugging Face's Marian, in half the time."""
        config = self._prepare(name)
        batches = config.with_name("batches.safetensors")
        write_batches(load_config(config), batches)
        settings = {"batches": str(batches), "precision": "bfloat16", "seconds": NEVER}
        settings["model"] = marian_settings(load_config(config))
        command = [sys.executable, str(HERE / "peer_hf.py"), json.dumps(settings)]
        return Row.of(follow(command, config.parent, self.seconds / 2))

    def recipe(self) -> Row:
        """Measure the training of the recipe for Multi30k, and score it."""
        if self.corpus is None:
            raise UserError("needs --corpus")
        run, settings = self.work / "recipe", SMALL_RECIPE if self.is_small else []
        for part, file in (("train", "train"), ("valid", "val"), ("test", "test2016")):
            for side, end in (("source", "en"), ("target", "de")):
                settings = [*settings, f"data.{part}.{side}={self.corpus / f'{file}.{end}'}"]
        recipe = HERE.parents[1] / "configs/multi30k-en-de.yaml"
        options = ["-c", str(recipe), "--run", str(run), *_overrides(*settings)]
        _write_batches(load_config(recipe, [*settings, f"run={run}"]))
        began = time.perf_counter()
        speed = follow(mtkit("train", *options), run, NEVER)
        seconds = time.perf_counter() - began
        scores = [
            " ".join(re.split(" {2,}", it)[:2])
            for it in finish(mtkit("run", *options)).splitlines()
        ]
        return Row.of(speed, ", ".join([f"{seconds:,.0f} s in all", *scores]))

    def search(self, task: SearchTask) -> Row:
        """Measure the search of one engine."""
        size = "tiny" if self.is_small else task.size
        model = self.work / f"model-{size}"
        if not model.exists():
            _in_process(random_model.draw_model, model, size)
        lines = random_model.draw_sentences(size)
        if self.is_small:
            lines = lines[:8]
        return _in_process(_search, task, model, lines, self.seconds / 2)

    def check_kernels(self) -> Row:
        """Run the tests of the extra gpu."""
        tests = HERE.parent / "extras" / "gpu"
        command = [sys.executable, "-m", "pytest", "-q", "--no-header", "-rfE", "--tb=line"]
        if find_spec("xdist"):  # Triton compiles a kernel on one core
            command += ["-n", "4"]
        ended = subprocess.run([*command, str(tests)], capture_output=True, text=True)
        lines = ended.stdout.splitlines()
        failures = [line for line in lines if line.startswith(("FAILED", "ERROR"))]
        summary = last_line(ended.stdout + ended.stderr)
        return Row(remark="; ".join([summary, *failures]), is_failed=ended.returncode != 0)

    def dry_run(self) -> Row:
        """Return the lines of `mtkit train --dry-run` that can be compared with a training."""
        found: list[str] = []
        for name in ("base", "nllb"):
            command = mtkit("train", "-c", str(self._prepare(name)), "--dry-run", "1")
            for line in finish(command).splitlines():
                if line.startswith(("1 process", "peak memory", "this machine")):
                    found.append(f"{name}: {' '.join(line.split())}")
        return Row(remark="; ".join(found))

    def resume(self) -> Row:
        """Compare a run with a repetition, and with one that ends halfway and is resumed."""
        config, steps = self._prepare("tiny"), 4 if self.is_small else 1000
        best = "training.best_by=step", "training.average=1", "training.validation_sentences=0"
        runs = {"straight": [steps], "repeated": [steps], "resumed": [steps // 2, steps]}

        def weights(name: str) -> dict[str, torch.Tensor]:
            run = self.work / name
            for stage in ("tokenizer", "batches"):
                shutil.copytree(config.parent / "run" / stage, run / stage)
            for until in runs[name]:
                settings = *best, f"run={run}", f"training.steps={until}"
                finish(mtkit("train", "-c", str(config), *_overrides(*settings)))
            return load_file(run / "model/model.safetensors")

        with ThreadPoolExecutor() as pool:
            straight, *others = pool.map(weights, runs)
        found = []
        for name, other in zip(list(runs)[1:], others, strict=True):
            largest = max((straight[key] - other[key]).abs().max().item() for key in straight)
            found.append(f"{name}: {f'differs by {largest:.1e}' if largest else 'bitwise equal'}")
        return Row(remark=", ".join(found))

    def exhaust_memory(self) -> Row:
        """Train on batches that no GPU holds."""
        if not torch.cuda.is_available():
            raise UserError("needs a GPU")
        settings = "batching.max_tokens=4000000", "training.steps=2"
        command = mtkit("train", "-c", str(self._prepare("big")), *_overrides(*settings))
        ended = subprocess.run(command, stderr=subprocess.PIPE, text=True)
        return Row(remark=f"exit code {ended.returncode}: {last_line(ended.stderr)}")

    def _prepare(self, name: str) -> Path:
        """Return the config of a size, whose run has a tokenizer and batches."""
        folder = self.work / name
        config = folder / "mtkit.yaml"
        if not config.exists():
            write_run(folder, SMALL if self.is_small else SIZES[name])
            _write_batches(load_config(config))
        return config


ROWS: Mapping[str, Callable[[Bench], Row]] = {
    "kernels": Bench.check_kernels,
    "base": partial(Bench.train, name="base"),
    "big": partial(Bench.train, name="big"),
    "tiny": partial(Bench.train, name="tiny"),
    "lstm": partial(Bench.train, name="lstm"),
    "recipe": Bench.recipe,
    "search": partial(Bench.search, task=SearchTask()),
    "search-plain": partial(Bench.search, task=SearchTask(has_graphs=False)),
    "search-tiny": partial(Bench.search, task=SearchTask("tiny")),
    "search-tiny-plain": partial(Bench.search, task=SearchTask("tiny", has_graphs=False)),
    "dry-run": Bench.dry_run,
    "nllb": partial(Bench.train, name="nllb"),
    "wmt": partial(Bench.train, name="wmt"),
    "ctranslate2": partial(Bench.search, task=SearchTask("base", "ctranslate2", "float16")),
    "hf-base": partial(Bench.train_peer, name="base"),
    "hf-tiny": partial(Bench.train_peer, name="tiny"),
    "hf-big": partial(Bench.train_peer, name="big"),
    "resume": Bench.resume,
    "memory": Bench.exhaust_memory,
}
RATIOS = [
    *((name, f"hf-{name}") for name in SIZES),
    ("search", "search-plain"),
    ("search-tiny", "search-tiny-plain"),
    ("search", "ctranslate2"),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=8, help="of each row (default: 8)")
    parser.add_argument("--minutes", type=float, default=7, help="start no row later (default: 7)")
    parser.add_argument("--out", type=Path, help="folder for ROW.json, one for each row")
    parser.add_argument("--corpus", type=Path, help="folder of Multi30k")
    parser.add_argument("--small", action="store_true", help="tiny models, to test this script")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(unknown)}")
    began = time.perf_counter()
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # after ending what was started
    machine = results.describe_machine(torch.device("cpu"))
    machine["processor"] = ask_gpu("name") or machine["processor"]
    print("{processor}, torch {torch}, mtkit {mtkit}".format_map(machine), flush=True)
    rows: dict[str, Row] = {}
    with TemporaryDirectory(prefix="mtkit-gpu-") as work:
        os.environ["XDG_CACHE_HOME"] = work  # where converted models go
        bench = Bench(Path(work), options.seconds, options.corpus, options.small)
        for name in options.rows or ROWS:
            if time.perf_counter() - began > 60 * options.minutes:
                print(f"{name}: left out: {options.minutes:g} minutes are over", flush=True)
                continue
            rows[name] = _measure(name, bench)
            print("  ".join(filter(None, rows[name].cells(name))), flush=True)
            if options.out is not None:
                record = json.dumps(machine | asdict(rows[name]), indent=1)
                (options.out / f"{name}.json").write_text(f"{record}\n", encoding="utf-8")
    data_lines(["", *_report(rows)])
    sys.exit(any(row.is_failed for row in rows.values()))


def _write_batches(config: Config) -> None:
    """Write tokenizer and batches of a run; here, because neither needs the GPU."""
    with silently():
        train_tokenizer(config)
        build_batches(config)


def _measure(name: str, bench: Bench) -> Row:
    try:
        return ROWS[name](bench)
    except UserError as error:
        return Row(remark=f"left out: {error}")
    except Exception as error:  # whatever happens, the other rows are measured
        return Row(remark=f"failed: {error}", is_failed=True)


def _report(rows: Mapping[str, Row]) -> list[str]:
    """Return the lines of the table and of the ratios."""
    cells = [TITLES, *(row.cells(name) for name, row in rows.items())]
    width = max(len(remark) for *_, remark in cells)
    report = list(table([*of, remark.ljust(width)] for *of, remark in cells))
    for name, other in RATIOS:
        speeds = [rows[it].tokens_per_second or 0 for it in (name, other) if it in rows]
        if len(speeds) == 2 and all(speeds):
            report.append(f"{name}: {speeds[0] / speeds[1]:,.2f} x {other}")
    return report


def _search(task: SearchTask, model: Path, lines: list[str], seconds: float) -> Row:
    """Translate the lines again and again for some seconds."""
    if not task.has_graphs:
        GpuAcceleration.accelerate_search = Acceleration.accelerate_search  # type: ignore[method-assign]
    translator = load(
        model,
        engine=task.engine,
        compute_type=task.compute_type,
        beam=5,
        batch_tokens=8192,
    )
    for _ in range(2):  # kernels are chosen, memory is allocated, graphs are recorded
        translator.translate(lines)
    began, count = time.perf_counter(), 0
    while (spent := time.perf_counter() - began) < seconds:
        translator.translate(lines)
        count += len(lines)
    is_gpu = torch.cuda.is_initialized()
    gib = (torch.cuda.max_memory_reserved() if is_gpu else peak_bytes()) / 2**30
    rate = count / spent
    return Row(rate * random_model.TRANSLATION_LENGTH, gib=gib, remark=f"{rate:,.1f} sentences/s")


def _in_process(compute: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function in a new process, so that this one takes no memory of the GPU."""
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return process.submit(compute, *arguments).result()


def _overrides(*settings: str) -> list[str]:
    return [word for setting in settings for word in ("--set", setting)]


if __name__ == "__main__":
    main()
