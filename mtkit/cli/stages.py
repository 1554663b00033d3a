"""Commands of the stages: `run`, `train-spm`, `batch`, `train`, `finish` and `translate`.

Modules that are slow to import are imported inside the commands, so that help and errors are fast.
"""

from __future__ import annotations

import sys
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from typer import Argument, Option

from mtkit import report
from mtkit.cli.options import (
    DEFAULT_RUN,
    ComputeType,
    Device,
    Engine,
    Models,
    Overrides,
    flag,
    refuse,
)
from mtkit.errors import SettingError, UserError


@dataclass(frozen=True)
class ConfigOptions:
    """The options of commands that read a config."""

    config: Path | None = Option(
        None, "-c", "--config", help="YAML config (default: ./mtkit.yaml)."
    )
    demo: bool = flag("--demo", help="Use the demo's config and corpus, English to Korean.")
    run: str | None = Option(
        None, metavar="DIR", help="Run directory (default: `run` in the config)."
    )
    overrides: Overrides = None

    def call(self, function: str) -> None:
        """Call `module:function` with the config; errors in settings name file and line."""
        if self.demo:
            refuse("cannot be used with --demo", config=self.config)
        from mtkit.config.yaml import demo_config, read_config

        config = demo_config() if self.demo else self.config
        settings, origin = read_config(config, self.overrides or [], self.run)
        try:
            resolve_name(function)(settings)
        except SettingError as error:
            raise UserError(f"{origin.where(error.key)}: {error}") from error


def run(options: ConfigOptions) -> None:
    """Run all stages, then translate and score the test set.

    Skips each stage whose result is up to date. After an interruption, the same command resumes.
    Example: mtkit run --run runs/seed2 --set seed=2
    """
    options.call("mtkit.pipeline:run_and_print")


def train_spm(options: ConfigOptions) -> None:
    """Stage 1: train the tokenizer.

    Trains a SentencePiece model on the training text and writes it to RUN/tokenizer/.
    Example: mtkit train-spm --set tokenizer.vocab_size=4000
    """
    options.call("mtkit.tokenizer.train_spm:train_tokenizer")


def batch(options: ConfigOptions) -> None:
    """Stage 2: prepare the training data.

    Reads and filters the corpora, converts text to subword ids, and writes them to RUN/batches/.
    Example: mtkit batch --set batching.deduplicate=true
    """
    options.call("mtkit.batching.build:build_batches")


def train(options: ConfigOptions) -> None:
    """Stage 3: train the model, or resume training.

    Writes the model to RUN/model/. To end training early, use `mtkit finish`. All settings, such
    as training.warmup and model.heads, are explained by `mtkit info --config --explain`.
    Example: mtkit train --set training.warmup=2000 --set model.heads=8
    """
    options.call("mtkit.training.train:train")


def finish(
    run: Path | None = Argument(
        None, metavar="RUN", help=f"Run directory (default: {DEFAULT_RUN})."
    ),
) -> None:
    """End training early with the best checkpoint so far.

    Writes the model to RUN/model/ and scores the test set. A later `mtkit run` resumes training
    and replaces this model when training ends.
    Example: mtkit finish runs/latest
    """
    from mtkit.pipeline import finish_and_print

    finish_and_print(run)


@dataclass(frozen=True)
class TranslateOptions:
    """The options of `mtkit translate`."""

    text: Path | None = Argument(
        None, metavar="INPUT", help="Text file, may be gzipped (default: stdin)."
    )
    models: Models = None
    output: Path | None = Option(None, "-o", "--output", help="Output file (default: stdout).")
    beam: int | None = Option(
        None, help="Beam size: hypotheses kept at each step (1: greedy, the argmax)."
    )
    n_best: int | None = Option(
        None, min=1, help="Write the N best translations as rows: line number, score, text."
    )
    length_penalty: float | None = Option(
        None, help="alpha in score = log P / length^alpha; larger favours longer output (0: off)."
    )
    min_length: int | None = Option(None, help="Minimum translation length, in subwords.")
    max_length: int | None = Option(
        None, help="Maximum translation length, in subwords; longer input lines are split."
    )
    no_repeat_ngram: int | None = Option(
        None, help="Never repeat an n-gram of N subwords (0: off)."
    )
    repetition_penalty: float | None = Option(
        None, help="Make repeated subwords less probable; use a value above 1 (1: off)."
    )
    prefix: Path | None = Option(
        None, metavar="FILE", help="Begin translation n with line n of FILE (blank: no prefix)."
    )
    alignments: bool = flag(
        "--alignments", help="Append a tab and word alignments such as 0-0 1-2."
    )
    jsonl: bool = flag("--jsonl", help="Write a JSON object per line, with score and subwords.")
    sample: bool = flag("--sample", help="Draw random translations, not the most probable.")
    temperature: float | None = Option(
        None, help="Sampling: below 1 favours the probable subwords (default: 1)."
    )
    top_k: int | None = Option(None, help="Sampling: draw from the k most probable subwords.")
    top_p: float | None = Option(
        None, help="Sampling: draw from the smallest set of subwords whose probabilities sum to p."
    )
    seed: int | None = Option(None, help="Sampling: random seed (default: 1).")
    device: Device = "auto"
    engine: Engine = "auto"
    compute_type: ComputeType = Option(
        "auto", help="Data type of the computation (default: auto, float32)."
    )
    workers: int | None = Option(
        None, help="Batches translated in parallel (default: one per core)."
    )
    threads: int | None = Option(None, help="Threads per worker (default: cores / workers).")
    resume: bool = flag("--resume", help="Continue an interrupted command; needs INPUT and -o.")

    def settings(self, *names: str) -> dict[str, Any]:
        """Return those of the options `names` that are set."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}


def translate(options: TranslateOptions) -> None:
    """Stage 4: translate text, one line of output per line of input.

    The search options, such as --beam, default to the decoding settings of the model.
    Example: mtkit translate in.txt -o out.txt --beam 8
    """
    from mtkit.config.decoding import DecodingSettings, SamplingSettings

    sampling = options.settings(*SamplingSettings.model_fields)
    if options.sample:
        refuse("cannot be used with --sample", **options.settings("beam", "length_penalty"))
    else:
        refuse("needs --sample", **sampling)
    from mtkit.decoding.api import load
    from mtkit.decoding.translate import Files, Format, translate

    files = Files(options.text, options.output, options.prefix, options.resume)
    if options.resume and not files.is_resumable:
        raise UserError("--resume needs -o FILE, and text files as INPUT and --prefix")
    if options.prefix and not options.text and sys.stdin is not None and sys.stdin.isatty():
        raise UserError("--prefix needs text from a file or a pipe, not from the keyboard")
    translator = load(
        options.models,
        options.device,
        engine=options.engine,
        compute_type=options.compute_type,
        workers=options.workers,
        threads=options.threads,
        n_best=options.n_best,
        sample=options.sample,
        alignments=options.alignments,
        scores=options.jsonl or options.n_best is not None,
        **sampling,
        **options.settings(*vars(options).keys() & DecodingSettings.model_fields.keys()),
    )
    with report.writing_stdout() if options.output is None else nullcontext():
        translate(translator, files, Format(options.n_best, options.jsonl, options.alignments))
