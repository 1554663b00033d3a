"""`mtkit bench translate`: how fast a model or a model size translates here, with each engine.

The process that translates imports this module. So torch is imported only where it is needed;
otherwise it would count in the memory of CTranslate2.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from mtkit.artifacts.runs import find_model
from mtkit.corpus.files import input_lines
from mtkit.decoding.api import Translator
from mtkit.decoding.api import load as load_translator
from mtkit.errors import UserError
from mtkit.machine import available_cpus, peak_bytes
from mtkit.progress import progress
from mtkit.report import plural, say, show, table
from mtkit.scoring.line_files import SOURCE_FILE

ENGINES = (
    ("torch", "float32"),
    ("torch", "bfloat16"),
    ("ctranslate2", "float32"),
    ("ctranslate2", "int8"),
)
"""What is measured: engines and compute types."""
WARM_UP_LINES = 64
"""Lines before the measurement, in which kernels are chosen and memory is allocated."""
MIN_SINGLE_LINES = 20
COLUMNS = ("", "beam", "sentences/s", "tokens/s", "a line: p50 ms", "p95", "p99", "MiB")


@dataclass(frozen=True)
class TranslationTask:
    """A text, and the model that translates it."""

    name: str
    model: str
    lines: list[str]


@contextmanager
def open_translation_task(
    model: str | None, text: Path | None, size: str
) -> Iterator[TranslationTask]:
    """Open a model and a text, by default the test set of the model's run.

    Without a model, draw a random model of `size`, and sentences for it.

    Raises:
        UserError: there is no such model, or no text to translate.
    """
    if model:
        path = text or find_model(model).path.parent / "test" / SOURCE_FILE
        lines = list(input_lines(path)) if text or path.exists() else []
        if not any(map(str.strip, lines)):
            raise UserError(f"{path}: there is no text to translate; give a file with --input")
        yield TranslationTask(model, model, lines)
        return
    from mtkit.study.bench.sample import draw_model, draw_sentences

    with (
        TemporaryDirectory(prefix="mtkit-bench-") as folder,
        patch.dict(os.environ, XDG_CACHE_HOME=folder),  # where converted models go
    ):
        draw_model(Path(folder) / "model", size)
        name = f"{size}, random weights, sentences as long as Multi30k's"
        yield TranslationTask(name, str(Path(folder) / "model"), draw_sentences(size))


def bench_translate(
    task: TranslationTask, *, engine: str, beam: int, device: str, seconds: float, as_json: bool
) -> None:
    """Translate by beam search and greedy search, with one or every engine, and write a report.

    Each measurement takes `seconds` seconds, but at least one run over the text, in a new process.

    Raises:
        UserError: the engine is unavailable.
    """
    from mtkit.models.device import pick_device
    from mtkit.study.bench.sample import describe_machine

    rows = []
    with progress("measuring", unit="engines and beams") as shown:
        for library, compute_type in ENGINES:
            if engine not in ("auto", library):
                continue
            load = partial(
                load_translator, task.model, device, engine=library, compute_type=compute_type
            )
            try:
                name = load(beam=beam).engine.name  # convert the model before the measurement
            except UserError as error:
                if engine != "auto" or library == "torch":
                    raise
                say(f"left out an engine: {error}")
                continue
            for width in dict.fromkeys((beam, 1)):
                search = partial(load, beam=width, scores=False)  # as `mtkit translate`
                rate = measure_in_process(search, task.lines, seconds)
                rows.append({"engine": name, "beam": width} | rate)
                shown.advance()

    record = {"task": task.name, "sentences": len(task.lines), "cores": len(available_cpus())}
    record |= describe_machine(pick_device(device)) | {"engines": rows}
    show(record, _text, as_json=as_json)


def _text(record: dict[str, Any]) -> Iterator[str]:
    yield f"{record['task']}: {plural(record['sentences'], 'sentence')}"
    yield f"{record['processor']}, {plural(record['cores'], 'core')}"
    yield ""
    rows = [COLUMNS]
    for of in record["engines"]:
        rates = f"{of['sentences_per_second']:,.1f}", f"{of['tokens_per_second']:,.0f}"
        latencies = (f"{milliseconds:,.1f}" for milliseconds in of["latency_ms"].values())
        rows.append((of["engine"], f"{of['beam']}", *rates, *latencies, f"{of['peak_mib']:,}"))
    yield from table(rows)


def measure_in_process(
    load: Callable[[], Translator], lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Measure in a new process, so that its memory is that of one translator."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
        return process.submit(_measure, load, lines, seconds).result()


def _measure(
    load: Callable[[], Translator], lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Translate all lines again and again for about `seconds` seconds, then single lines for half.

    There is at least one run. Rates are medians of the runs; tokens are target subwords.
    """
    translator = load()
    translator.translate(lines[:WARM_UP_LINES])
    runs = _timed(translator, repeat(lines), seconds)
    single = _timed(translator, ([line] for line in lines), seconds / 2, MIN_SINGLE_LINES)
    latencies = sorted(taken for _, taken in single)
    percentiles = {p: latencies[round(p / 100 * (len(latencies) - 1))] for p in (50, 95, 99)}
    return {
        "sentences_per_second": round(median(len(lines) / taken for _, taken in runs), 1),
        "tokens_per_second": round(median(tokens / taken for tokens, taken in runs), 1),
        "latency_ms": {f"p{p}": round(taken * 1e3, 2) for p, taken in percentiles.items()},
        "peak_mib": peak_bytes() >> 20,
    }


def _timed(
    translator: Translator, texts: Iterable[Sequence[str]], seconds: float, at_least: int = 1
) -> list[tuple[int, float]]:
    """Return the target tokens and seconds of each text, until `seconds` are over."""
    timed: list[tuple[int, float]] = []
    for text in texts:
        if seconds <= 0 and len(timed) >= at_least:
            break
        began = time.perf_counter()
        tokens = sum(len(translation.tokens) for translation in translator.results(text))
        timed.append((tokens, time.perf_counter() - began))
        seconds -= timed[-1][1]
    return timed
