"""The commands: a docstring and a call each; the work and its heavy imports lie behind the call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mtkit import report
from mtkit.cli.options import (
    AsConfig,
    Beam,
    BenchConfig,
    Breakdown,
    ConfigFile,
    Debug,
    Described,
    Device,
    Hypotheses,
    Input,
    Json,
    Jsonl,
    Language,
    LengthPenalty,
    MaxLength,
    MinLength,
    Model,
    NBest,
    Output,
    Overrides,
    Precision,
    Quiet,
    Reference,
    Run,
    Sample,
    Seconds,
    Seed,
    Size,
    Temperature,
    TopK,
    TopP,
    Verify,
    Version,
)
from mtkit.errors import UserError

if TYPE_CHECKING:
    from mtkit.config import Config, SamplingSettings

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
bench = typer.Typer(rich_markup_mode=None)
app.add_typer(bench, name="bench")


@app.callback()
def mtkit(version: Version = False) -> None:
    """Machine translation: train-spm, batch and train make a model, or run does all three at once.

    Without a config they work on the demo. Then: echo "It is raining." | mtkit translate
    """


@app.command("train-spm")
def train_spm(
    config: ConfigFile = None,
    run: Run = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Stage 1: train the tokenizer.

    SentencePiece on the training text, into RUN/tokenizer/.
    """
    settings = _stage_settings(config, overrides, run)
    from mtkit.tokenizer import train_tokenizer

    train_tokenizer(settings)


@app.command()
def batch(
    config: ConfigFile = None,
    run: Run = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Stage 2: prepare the training data.

    Reads, filters and encodes the corpora, into RUN/batches/.
    """
    settings = _stage_settings(config, overrides, run)
    from mtkit.batching import build_batches

    build_batches(settings)


@app.command()
def train(
    config: ConfigFile = None,
    run: Run = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Stage 3: train, or resume training.

    A run that was interrupted goes on by itself; the model comes into RUN/model/.
    """
    settings = _stage_settings(config, overrides, run)
    from mtkit.training import train

    train(settings)


@app.command()
def translate(
    text: Input = None,
    model: Model = None,
    output: Output = None,
    beam: Beam = None,
    n_best: NBest = None,
    length_penalty: LengthPenalty = None,
    min_length: MinLength = None,
    max_length: MaxLength = None,
    jsonl: Jsonl = False,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Stage 4: translate, one line for each line.

    Raw text in, raw text out. What is not set here is as the model was trained for.
    """
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = _sampling(sample, given)
    from mtkit.decoding import translate

    with report.writing_stdout() if output is None else nullcontext():
        translate(
            model,
            text,
            output,
            beam=beam,
            n_best=n_best,
            length_penalty=length_penalty,
            min_length=min_length,
            max_length=max_length,
            sampling=sampling,
            jsonl=jsonl,
            device=device,
        )


@app.command()
def score(
    reference: Reference,
    hypotheses: Hypotheses = None,
    language: Language = None,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score translations against references.

    BLEU, chrF and TER by sacreBLEU, with signatures.
    """
    from mtkit.scoring import score

    score(reference, hypotheses or [], language=language, as_json=json)


@app.command("run")
def run_stages(
    config: ConfigFile = None,
    run: Run = None,
    overrides: Overrides = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Do all stages, then score the test set.

    Stages whose results are up to date are skipped.
    """
    settings = _settings(config, overrides, run)
    from mtkit.pipeline import run as run_pipeline

    run_pipeline(settings)


@app.command()
def info(
    path: Described = None,
    verify: Verify = False,
    config: AsConfig = False,
    debug: Debug = False,
) -> None:
    """Tell what a run, model or artifact is.

    Sizes, settings, scores, and what it was made from.
    """
    from mtkit.info import info as describe

    describe(path, verify=verify, config=config)


@bench.callback()
def measure() -> None:
    """Measure how fast this machine trains."""


@bench.command("train")
def bench_train(
    config: BenchConfig = None,
    size: Size = None,
    overrides: Overrides = None,
    precision: Precision = None,
    seconds: Seconds = 30.0,
    breakdown: Breakdown = False,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Train for a while and report the speed.

    Target tokens per second, how far they are from the limit, memory, padding, waiting.
    """
    chosen = [] if precision is None else [f"training.precision={precision}"]
    from mtkit.bench import bench_train

    bench_train(
        config,
        [*(overrides or []), *chosen],
        size=size,
        seconds=seconds,
        breakdown=breakdown,
        as_json=json,
    )


@bench.command("ceiling")
def bench_ceiling(
    config: BenchConfig = None,
    size: Size = None,
    overrides: Overrides = None,
    json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Report the arithmetic limit of training.

    What a model's matrix products alone would allow, by their shapes and precisions.
    """
    from mtkit.bench import bench_ceiling

    bench_ceiling(config, overrides or [], size=size, as_json=json)


def _settings(config: Path | None, overrides: list[str] | None, run: str | None) -> Config:
    from mtkit.configfile import load_config

    return load_config(config, overrides or [], run)


def _stage_settings(config: Path | None, overrides: list[str] | None, run: str | None) -> Config:
    from mtkit.configfile import save_config

    settings = _settings(config, overrides, run)
    save_config(settings)
    return settings


def _sampling(sample: bool, given: Mapping[str, float | None]) -> SamplingSettings | None:
    options = {name: value for name, value in given.items() if value is not None}
    if not sample:
        if options:
            raise UserError(f"--{next(iter(options)).replace('_', '-')}: only with --sample")
        return None
    from pydantic import ValidationError

    from mtkit.config import SamplingSettings

    try:
        return SamplingSettings.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise UserError(f"--{option}: {first['msg']}, found {first['input']}") from None
