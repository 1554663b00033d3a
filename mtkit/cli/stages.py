"""Commands of the stages: `run`, `train-spm`, `batch`, `train`, `finish` and `translate`.

Modules that are slow to import are imported inside the commands, so that help and errors are fast.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from typer import Argument, Option

from mtkit import report
from mtkit.cli.options import (
    ComputeType,
    ConfigFile,
    Device,
    Engine,
    Models,
    Overrides,
    RunFolder,
    flag,
    refuse,
)
from mtkit.errors import SettingError, UserError

if TYPE_CHECKING:
    from mtkit.config.decoding import SamplingSettings

MAX_THREADS = 1024
"""Largest number of workers and of threads; CTranslate2 aborts with far larger ones."""


def run(config: ConfigFile = None, run: RunFolder = None, overrides: Overrides = None) -> None:
    """Run all stages, then score the test set.

    Stages whose results are up to date are skipped.
    """
    _call("mtkit.pipeline:run_and_print", config, run, overrides)


def train_spm(
    config: ConfigFile = None, run: RunFolder = None, overrides: Overrides = None
) -> None:
    """Stage 1: train the tokenizer.

    Trains SentencePiece on the training text and writes RUN/tokenizer/.
    """
    _call("mtkit.tokenizer.train:train_tokenizer", config, run, overrides)


def batch(config: ConfigFile = None, run: RunFolder = None, overrides: Overrides = None) -> None:
    """Stage 2: prepare the training data.

    Reads, filters and encodes the corpora and writes RUN/batches/.
    """
    _call("mtkit.batching.build:build_batches", config, run, overrides)


def train(config: ConfigFile = None, run: RunFolder = None, overrides: Overrides = None) -> None:
    """Stage 3: train, or resume training.

    Writes RUN/model/. `mtkit finish` ends a run early with its best checkpoint.
    """
    _call("mtkit.training.train:train", config, run, overrides)


def finish(
    run: Path | None = Argument(None, metavar="RUN", help="Run directory (default: the last run)."),
) -> None:
    """End training early with the best checkpoint so far.

    Writes RUN/model/ and scores the test set. A later `mtkit run` resumes training and replaces
    the model when it ends.
    """
    from mtkit.pipeline import finish_run, print_scores

    print_scores(finish_run(run))


@dataclass(frozen=True)
class TranslateOptions:
    """The options of `mtkit translate`."""

    text: Path | None = Argument(None, metavar="INPUT", help="Text or .gz (default: stdin).")
    models: Models = None
    output: Path | None = Option(None, "-o", "--output", help="Output file (default: stdout).")
    beam: int | None = Option(None, help="Beam size.")
    n_best: int | None = Option(
        None, min=1, help="Write this many translations per line: index, score, text."
    )
    length_penalty: float | None = Option(None, help="alpha in score = log P / |y|^alpha.")
    min_length: int | None = Option(None, help="Minimum length in subwords.")
    max_length: int | None = Option(None, help="Maximum length in subwords; longer input is split.")
    no_repeat_ngram: int | None = Option(
        None, help="Never repeat an n-gram of this many subwords (0: off)."
    )
    repetition_penalty: float | None = Option(
        None, help="Penalise subwords already generated (1: off)."
    )
    prefix: Path | None = Option(
        None, metavar="FILE", help="Force translations to begin with these prefixes, line by line."
    )
    alignments: bool = flag("--alignments", help="Append word alignments (0-0 1-2) after a tab.")
    jsonl: bool = flag("--jsonl", help="Write one JSON object per line.")
    sample: bool = flag("--sample", help="Sample instead of searching.")
    temperature: float | None = Option(
        None, help="With --sample: temperature; below 1 sharper, above 1 flatter (default: 1)."
    )
    top_k: int | None = Option(None, help="With --sample: only the k most probable subwords.")
    top_p: float | None = Option(
        None, help="With --sample: only the most probable subwords that sum to p."
    )
    seed: int | None = Option(None, help="With --sample: random seed (default: 1).")
    device: Device = "auto"
    engine: Engine = "auto"
    compute_type: ComputeType = Option(
        "auto",
        help="Compute type; auto: float32. `mtkit export --check` measures the loss from int8.",
    )
    workers: int | None = Option(
        None, min=1, max=MAX_THREADS, help="Batches translated in parallel (default: one per core)."
    )
    threads: int | None = Option(None, min=1, max=MAX_THREADS, help="Threads per worker.")
    resume: bool = flag("--resume", help="With INPUT and -o: continue an interrupted translation.")

    def settings(self, *names: str) -> dict[str, Any]:
        """Return the options of these names that are set."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def translate(options: TranslateOptions) -> None:
    """Stage 4: translate text, one line of output per line of input.

    Search options default to the settings of the model.
    """
    sampling = _sampling(options)
    from mtkit.config.decoding import DecodingSettings
    from mtkit.decoding.api import Translator
    from mtkit.decoding.engine import EngineOptions, Request
    from mtkit.decoding.translate import Files, Format, translate
    from mtkit.models.folder import open_models

    files = Files(options.text, options.output, options.prefix, options.resume)
    form = Format(options.n_best, options.jsonl, options.alignments)
    machine = EngineOptions(
        options.engine, options.compute_type, options.device, options.workers, options.threads
    )
    search = vars(options).keys() & DecodingSettings.model_fields.keys()
    models = open_models(options.models or [None], options.settings(*search))
    settings, count = models[0].config.decoding, options.n_best or 1
    has_scores = options.jsonl or options.n_best is not None
    request = Request(settings, count, sampling, attention=options.alignments, scores=has_scores)
    with report.writing_stdout() if options.output is None else nullcontext():
        translate(Translator.of(models, request, machine), files, form)


def _call(function: str, config: Path | None, run: str | None, overrides: list[str] | None) -> None:
    """Call `module:function` with the config; errors in settings name the line of the config."""
    from mtkit.config.yaml import read_config

    settings, origin = read_config(config, overrides or [], run)
    if origin.is_demo:
        report.say("no mtkit.yaml here: working on the demo, English to Korean (see --config)")
    try:
        resolve_name(function)(settings)
    except SettingError as error:
        raise UserError(f"{origin.where(error.key)}: {error}") from error


def _sampling(options: TranslateOptions) -> SamplingSettings | None:
    """Return the settings of --sample; UserError for invalid or unused ones."""
    names = ("temperature", "top_k", "top_p", "seed")
    if not options.sample:
        refuse("only with --sample", **options.settings(*names))
        return None
    refuse("not with --sample", **options.settings("beam", "length_penalty"))
    from pydantic import ValidationError

    from mtkit.config.base import first_error
    from mtkit.config.decoding import SamplingSettings

    try:
        return SamplingSettings.model_validate(options.settings(*names))
    except ValidationError as error:
        setting, complaint = first_error(error)
        raise UserError(f"--{setting.replace('_', '-')}: {complaint}") from None
