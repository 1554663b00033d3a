"""`mtkit bench translate`: how fast a model or a size translates here, with each engine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mtkit.artifacts import VERSION
from mtkit.config.runs import find_model
from mtkit.decoding.lines import input_lines
from mtkit.errors import UserError
from mtkit.models.device import pick_device
from mtkit.report import progress, say, show, table
from mtkit.scoring.files import SOURCE
from mtkit.study.bench.drawn import Size, draw_model, draw_sentences
from mtkit.study.bench.record import Record, processor
from mtkit.study.bench.translation_rate import Rate, Way, measure_apart

ENGINES = {"torch": ("float32", "bfloat16"), "ctranslate2": ("float32", "int8")}
"""Every engine with its compute types that are measured."""
PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Task:
    """What is translated, and by which model."""

    name: str
    model: str
    lines: list[str]


def bench_translate(
    model: str | None = None,
    input: Path | None = None,
    *,
    size: Size | None = None,
    engine: str = "auto",
    beam: int = 5,
    device: str = "auto",
    seconds: float = 10.0,
    as_json: bool = False,
) -> None:
    """Translates with a beam, then greedily, with every engine that can, or the one that is named.

    Each is measured for `seconds` seconds or a whole pass in a process of its own, and reported.
    Raises UserError for a model, text or engine that is not there.
    """
    with _open_task(model, input, size) as task:
        ways = list(_ways(task, engine, beam, device))
        rows = []
        with progress("measuring", len(ways), "of engines and beams") as shown:
            for name, way in ways:
                rows.append(row_of(name, way.beam, measure_apart(way, task.lines, seconds)))
                shown.advance()
    record = {
        "task": task.name,
        "sentences": len(task.lines),
        "processor": processor(pick_device(device)),
        "cores": len(os.sched_getaffinity(0)),
        "mtkit": VERSION,
        "engines": rows,
    }
    show(record, text_of, as_json=as_json)


@contextmanager
def _open_task(model: str | None, input: Path | None, size: Size | None) -> Iterator[Task]:
    """A model and its text, or a size with what is drawn for it (default: tiny)."""
    if model is not None:
        if size is not None:
            raise UserError(f"--size {size}: {model} says what to measure: leave one out")
        yield Task(model, model, _read(model, input))
        return
    if input is not None:
        raise UserError(f"--input {input}: drawn models know no text: name a model with -m")
    size = size or "tiny"
    with TemporaryDirectory(prefix="mtkit-bench-") as folder, _cache_in(folder):
        draw_model(Path(folder) / "model", size)
        name = f"{size}, random weights, sentences as long as Multi30k's"
        yield Task(name, folder, draw_sentences(size))


def _read(model: str, input: Path | None) -> list[str]:
    """Lines of the file, or those that the model's run was tested on."""
    path = input or find_model(model).path.parent / "test" / SOURCE
    lines = list(input_lines(path)) if path.exists() else []
    if not any(map(str.strip, lines)):
        raise UserError(f"{path}: no text to translate: name it with --input")
    return lines


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """So that what is converted of a drawn model goes with it."""
    name = "XDG_CACHE_HOME"
    before = os.environ.get(name)
    os.environ[name] = folder
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _ways(task: Task, engine: str, beam: int, device: str) -> Iterator[tuple[str, Way]]:
    """Those that can be gone; each is loaded once, so that no conversion is in the measurement."""
    engines = list(ENGINES) if engine == "auto" else [engine]
    for one in engines:
        for compute_type in ENGINES[one]:
            ways = [Way(task.model, one, compute_type, device, k) for k in sorted({beam, 1})[::-1]]
            try:
                name = ways[0].load().engine.name
            except UserError as error:
                if engine != "auto" or one == "torch":
                    raise
                say(f"left out: {error}")
                continue
            yield from ((name, way) for way in ways)


def row_of(engine: str, beam: int, rate: Rate) -> Record:
    """What a report says of one engine with one beam."""
    latencies = np.percentile(rate.latencies, PERCENTILES) * 1e3
    return {
        "engine": engine,
        "beam": beam,
        "sentences_per_second": round(rate.sentences_per_second, 1),
        "tokens_per_second": round(rate.tokens_per_second, 1),
        "passes": rate.passes,
        "latency_ms": {
            f"p{percent}": round(float(value), 2)
            for percent, value in zip(PERCENTILES, latencies, strict=True)
        },
        "peak_mib": rate.peak_mib,
    }


def text_of(record: Record) -> Iterator[str]:
    """The report in lines for people."""
    yield f"{record['task']}: {record['sentences']:,} sentences"
    yield f"{record['processor']}, {record['cores']} cores"
    yield ""
    median, *others = (f"p{percent}" for percent in PERCENTILES)
    heads = ["", "beam", "sentences/s", "target tokens/s", f"one line: {median}, ms", *others]
    rows = [[*heads, "MiB"]]
    for row in record["engines"]:
        rates = [f"{row['sentences_per_second']:,.1f}", f"{row['tokens_per_second']:,.0f}"]
        latencies = [f"{value:,.1f}" for value in row["latency_ms"].values()]
        peak = f"{row['peak_mib']:,}"
        rows.append([row["engine"], str(row["beam"]), *rates, *latencies, peak])
    yield from table(rows)
