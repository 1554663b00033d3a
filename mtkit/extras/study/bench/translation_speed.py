"""`mtkit bench translate`: how fast a model or a model size translates here, with each engine.

The process that translates imports this module. So torch is imported only where it is needed;
otherwise it would count in the memory of CTranslate2.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from mtkit.artifacts.runs import find_model
from mtkit.corpus.files import input_lines
from mtkit.decoding.api import Translator
from mtkit.decoding.api import load as load_translator
from mtkit.errors import UserError
from mtkit.extras.study.bench.results import BenchReport
from mtkit.machine import peak_bytes
from mtkit.progress import progress
from mtkit.report import plural, say, set_quiet
from mtkit.scoring.line_files import SOURCE_FILE
from mtkit.training.timing import Work, time_work

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

Result = TypeVar("Result")


@dataclass(frozen=True)
class TranslationTask:
    """A text, and the model that translates it."""

    name: str
    model: str
    lines: list[str]
    cache: Path | None = None
    """Where converted models go; None: into the user's cache."""


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
        if not any(line.strip() for line in lines):
            raise UserError(f"{path}: there is no text to translate; give a file with --input")
        yield TranslationTask(model, model, lines)
        return
    from mtkit.extras.study.bench.sample import draw_model, draw_sentences

    with TemporaryDirectory(prefix="mtkit-bench-") as folder:
        drawn = Path(folder) / "model"
        draw_model(drawn, size)
        name = f"{size}, random weights, sentences as long as Multi30k's"
        yield TranslationTask(name, str(drawn), draw_sentences(size), cache=Path(folder))


def bench_translate(
    task: TranslationTask, *, engine: str, beam: int, device: str, seconds: float, as_json: bool
) -> None:
    """Translate by beam search and greedy search, with one or every engine, and write a report.

    Each measurement takes `seconds` seconds, but at least one run over the text, in a new process.

    Raises:
        UserError: the engine is unavailable.
    """
    from mtkit.models.device import pick_device

    measured = []
    beams = dict.fromkeys((beam, 1))  # once, if `beam` is 1
    with progress("measuring", unit="engines and beams") as shown:
        for library, compute_type in ENGINES:
            if engine not in ("auto", library):
                continue
            load = partial(
                load_translator, task.model, device, engine=library, compute_type=compute_type
            )
            try:
                # Convert the model in another process than the one whose memory is measured.
                name = _run_in_process(task.cache, _open_engine, load)
            except UserError as error:
                if engine != "auto" or library == "torch":
                    raise
                say(f"left out an engine: {error}")
                continue
            for width in beams:
                search = partial(load, beam=width, scores=False)  # as `mtkit translate`
                speed = measure_in_process(search, task.lines, seconds, task.cache)
                measured.append({"engine": name, "beam": width, **speed})
                shown.advance()
    report = BenchReport(
        task=f"{task.name}: {plural(len(task.lines), 'sentence')}",
        record={"sentences": len(task.lines), "engines": measured},
        tables=[[COLUMNS, *(_row(speed) for speed in measured)]],
    )
    report.write(pick_device(device), as_json=as_json)


def _row(speed: dict[str, Any]) -> list[str]:
    return [
        speed["engine"],
        f"{speed['beam']}",
        f"{speed['sentences_per_second']:,.1f}",
        f"{speed['tokens_per_second']:,.0f}",
        *(f"{milliseconds:,.1f}" for milliseconds in speed["latency_ms"].values()),
        f"{speed['peak_mib']:,}",
    ]


def measure_in_process(
    load: Callable[[], Translator], lines: Sequence[str], seconds: float, cache: Path | None = None
) -> dict[str, Any]:
    """Measure in a new process, so that its memory is that of one translator."""
    return _run_in_process(cache, _measure, load, lines, seconds)


def _run_in_process(
    cache: Path | None, function: Callable[..., Result], *arguments: object
) -> Result:
    """Return what a function returns in a new, quiet process that uses this cache."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        1, context, initializer=_prepare_process, initargs=(cache,)
    ) as process:
        return process.submit(function, *arguments).result()


def _prepare_process(cache: Path | None) -> None:
    set_quiet(True)
    if cache is not None:
        os.environ["XDG_CACHE_HOME"] = str(cache)


def _open_engine(load: Callable[[], Translator]) -> str:
    """Open a translator, which converts the model if necessary, and return its engine's name."""
    return load().engine.name


def _measure(
    load: Callable[[], Translator], lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Translate all lines again and again for about `seconds` seconds, then single lines for half.

    There is at least one run. Rates are medians of the runs; tokens are target subwords.
    """
    translator = load()
    translator.submit(lines[:WARM_UP_LINES]).result()
    runs = list(time_work(_translate_texts(translator, repeat(lines)), seconds))
    single_lines = _translate_texts(translator, ([line] for line in lines))
    single = time_work(single_lines, seconds / 2, at_least=MIN_SINGLE_LINES)
    latencies = sorted(line.seconds for line in single)
    last = len(latencies) - 1
    percentiles = {percent: latencies[round(percent / 100 * last)] for percent in (50, 95, 99)}
    return {
        "sentences_per_second": round(median(len(lines) / run.seconds for run in runs), 1),
        "tokens_per_second": round(median(run.tokens / run.seconds for run in runs), 1),
        "latency_ms": {
            f"p{percent}": round(seconds * 1e3, 2) for percent, seconds in percentiles.items()
        },
        "peak_mib": peak_bytes() >> 20,
    }


def _translate_texts(translator: Translator, texts: Iterable[Sequence[str]]) -> Generator[Work]:
    """Translate one text after the other, and yield each."""
    for text in texts:
        tokens = 0
        for translations in translator.stream(text):
            tokens += sum(len(translation.tokens) for translation in translations)
        yield Work(tokens=tokens)
