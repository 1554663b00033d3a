"""`mtkit bench translate`: how fast a model or a size translates here, with each engine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from mtkit.artifacts.manifest import VERSION
from mtkit.artifacts.runs import find_model
from mtkit.decoding.api import Translator
from mtkit.decoding.lines import input_lines
from mtkit.errors import UserError
from mtkit.machine import processors
from mtkit.models.device import pick_device
from mtkit.report import progress, say, show
from mtkit.scoring.files import SOURCE
from mtkit.study.bench.record import Record, listed, processor
from mtkit.study.bench.translation_rate import Rate, measure_apart
from mtkit.study.bench.workload import Size, draw_model, draw_sentences

ENGINES = (
    ("torch", "float32"),
    ("torch", "bfloat16"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "int8"),
)
"""Every engine with each compute type that is measured."""
COLUMNS = {
    "": "{engine}",
    "beam": "{beam}",
    "sentences/s": "{sentences_per_second:,.1f}",
    "target tokens/s": "{tokens_per_second:,.0f}",
    "one line: p50, ms": "{latency_ms[p50]:,.1f}",
    "p95": "{latency_ms[p95]:,.1f}",
    "p99": "{latency_ms[p99]:,.1f}",
    "MiB": "{peak_mib:,}",
}


@dataclass(frozen=True)
class Task:
    """What is translated, and by which model or ensemble."""

    name: str
    models: Sequence[str]
    lines: list[str]


def bench_translate(
    task: Task, *, engine: str, beam: int, device: str, seconds: float, as_json: bool
) -> None:
    """Translates with a beam, then greedily, with every engine that can, or the one that is named.

    Each is measured for `seconds` seconds or a whole pass in a process of its own, and reported.
    Raises UserError for an engine that is not there.
    """
    ways = list(_ways(task.models, engine, beam, device))
    rows = []
    with progress("measuring", len(ways), "of engines and beams") as shown:
        for way, load in ways:
            rows.append(way | report_of(measure_apart(load, task.lines, seconds)))
            shown.advance()
    record = {
        "task": task.name,
        "sentences": len(task.lines),
        "processor": processor(pick_device(device)),
        "cores": len(processors()),
        "mtkit": VERSION,
        "engines": rows,
    }
    show(record, text_of, as_json=as_json)


@contextmanager
def open_task(models: Sequence[str], input: Path | None, size: Size | None) -> Iterator[Task]:
    """Models and the text of the first, or a size (default: tiny) with what is drawn for it.

    Raises UserError for a model or text that is not there, or belongs to another task.
    """
    if models:
        if size is not None:
            raise UserError(f"--size {size}: {models[0]} says what to measure: leave one out")
        path = input or find_model(models[0]).path.parent / "test" / SOURCE  # what it was tested on
        lines = list(input_lines(path)) if input or path.exists() else []
        if not any(map(str.strip, lines)):
            raise UserError(f"{path}: no text to translate: name it with --input")
        yield Task(" + ".join(models), models, lines)
        return
    if input is not None:
        raise UserError(f"--input {input}: drawn models know no text: name a model with -m")
    size = size or "tiny"
    with TemporaryDirectory(prefix="mtkit-bench-") as folder, _cache_in(folder):
        draw_model(Path(folder) / "model", size)
        name = f"{size}, random weights, sentences as long as Multi30k's"
        yield Task(name, [folder], draw_sentences(size))


@contextmanager
def _cache_in(folder: str) -> Iterator[None]:
    """So that what is converted of a drawn model goes with it."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = folder
    try:
        yield
    finally:
        os.environ.pop("XDG_CACHE_HOME")
        if before is not None:
            os.environ["XDG_CACHE_HOME"] = before


def _ways(
    models: Sequence[str], engine: str, beam: int, device: str
) -> Iterator[tuple[Record, Callable[[], Translator]]]:
    """Those that can be gone; each is loaded once, so that no conversion is in the measurement."""
    for library, compute_type in ENGINES:
        if engine not in ("auto", library):
            continue
        load = partial(
            Translator.load,
            models,
            device,
            engine=library,
            compute_type=compute_type,
            scores=False,  # as `mtkit translate` without --jsonl or --n-best
        )
        try:
            name = load(beam=beam).engine.name
        except UserError as error:
            if engine != "auto" or library == "torch":
                raise
            say(f"left out: {error}")
            continue
        for k in dict.fromkeys((beam, 1)):
            yield {"engine": name, "beam": k}, partial(load, beam=k)


def report_of(rate: Rate) -> Record:
    """What is told of one engine with one beam."""
    latencies = {p: float(np.percentile(rate.latencies, p)) for p in (50, 95, 99)}
    return {
        "sentences_per_second": round(rate.sentences_per_second, 1),
        "tokens_per_second": round(rate.tokens_per_second, 1),
        "passes": rate.passes,
        "latency_ms": {f"p{p}": round(latency * 1e3, 2) for p, latency in latencies.items()},
        "peak_mib": rate.peak_mib,
    }


def text_of(record: Record) -> Iterator[str]:
    """The report in lines for people."""
    yield "{task}: {sentences:,} sentences".format_map(record)
    yield "{processor}, {cores} cores".format_map(record)
    yield ""
    yield from listed(record["engines"], COLUMNS)
