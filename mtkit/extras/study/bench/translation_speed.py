"""`mtkit bench translate`: how fast a model translates on this machine, with each engine.

The process that translates imports this module. So torch is imported only where it is needed;
otherwise it would count in the memory of CTranslate2.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import cycle, repeat
from multiprocessing import get_context
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from mtkit.artifacts.runs import default_place, find_model
from mtkit.corpus.files import input_lines
from mtkit.decoding.api import Translator, load
from mtkit.errors import UserError
from mtkit.extras.study.bench.results import write_report
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


def bench_translate(
    model: str | None,
    text: Path | None,
    *,
    engine: str,
    beam: int,
    device: str,
    seconds: float,
    as_json: bool,
) -> None:
    """Translate by beam search and greedy search, with one or every engine, and write a report.

    `model`: default as in `mtkit translate`. `text`: default is the test set of the model's run.
    Each measurement takes `seconds` seconds, but at least one run over the text, in a new process.

    Raises:
        UserError: there is no such model, no text to translate, or the engine is unavailable.
    """
    from mtkit.models.device import pick_device

    place = model or default_place()
    lines = _read_text(text or find_model(place).path.parent / "test" / SOURCE_FILE)
    measured: list[dict[str, Any]] = []
    with progress("measuring", unit="engines and beams") as shown:
        for library, compute_type in ENGINES:
            if engine not in ("auto", library):
                continue
            load_engine = partial(load, place, device, engine=library, compute_type=compute_type)
            try:
                # Convert the model here, outside the process whose memory is measured.
                translator = load_engine()
            except UserError as error:
                if engine != "auto" or library == "torch":
                    raise
                say(f"left out an engine: {error}")
                continue
            translator.close()
            for width in dict.fromkeys((beam, 1)):  # once, if `beam` is 1
                search = partial(load_engine, beam=width, scores=False)  # as `mtkit translate`
                speed = measure_in_process(search, lines, seconds)
                measured.append({"engine": translator.engine.name, "beam": width, **speed})
                shown.advance()
    write_report(
        task=f"{place}: {plural(len(lines), 'sentence')}",
        record={"sentences": len(lines), "engines": measured},
        tables=[[COLUMNS, *map(_row, measured)]],
        device=pick_device(device),
        as_json=as_json,
    )


def _read_text(path: Path) -> list[str]:
    """Return the lines to translate; raise UserError if there is no text."""
    lines = list(input_lines(path)) if path.exists() else []
    if not any(map(str.strip, lines)):
        raise UserError(f"{path}: there is no text to translate; give a file with --input")
    return lines


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
    load: Callable[[], Translator], lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Measure in a new process, so that its memory is that of one translator."""
    with ProcessPoolExecutor(
        max_workers=1, mp_context=get_context("spawn"), initializer=set_quiet, initargs=(True,)
    ) as process:
        return process.submit(_measure, load, lines, seconds).result()


def _measure(
    load: Callable[[], Translator], lines: Sequence[str], seconds: float
) -> dict[str, Any]:
    """Translate all lines again and again for about `seconds` seconds, then single lines for half.

    There is at least one run. Rates are medians of the runs; tokens are target subwords.
    """
    translator = load()
    translator.submit(lines[:WARM_UP_LINES]).result()
    runs = list(time_work(_translate_texts(translator, repeat(lines)), seconds))
    single_lines = _translate_texts(translator, ([line] for line in cycle(lines)))
    single = time_work(single_lines, seconds / 2, at_least=MIN_SINGLE_LINES)
    percentiles = quantiles((line.seconds for line in single), n=100, method="inclusive")
    return {
        "sentences_per_second": round(median(len(lines) / run.seconds for run in runs), 1),
        "tokens_per_second": round(median(run.tokens / run.seconds for run in runs), 1),
        "latency_ms": {
            f"p{percent}": round(1e3 * percentiles[percent - 1], 2) for percent in (50, 95, 99)
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
