"""The commands: a docstring and a call each; the work and its heavy imports lie behind the call."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mtkit import report
from mtkit.cli.bench import bench
from mtkit.cli.options import (
    Alignments,
    AsConfig,
    AttentionHeads,
    AttentionKind,
    AttentionLayers,
    Average,
    Beam,
    ByLength,
    Check,
    CheckText,
    Comet,
    Compared,
    ComputeType,
    ConfigFile,
    Debug,
    Described,
    Device,
    Drawing,
    Engine,
    Explain,
    Explained,
    Exported,
    Foreign,
    From,
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
    Paired,
    Picture,
    Plot,
    Quantization,
    Quiet,
    Reference,
    Resume,
    Run,
    Sample,
    ScoredSource,
    Seed,
    Subwords,
    Target,
    Temperature,
    Text,
    Threads,
    To,
    TopK,
    TopP,
    Verify,
    Version,
    View,
    ViewOutput,
    Workers,
    Worst,
)
from mtkit.errors import UserError

if TYPE_CHECKING:
    from mtkit.config.decoding import SamplingSettings
    from mtkit.config.settings import Config

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
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
    settings = _settings(config, overrides, run)
    from mtkit.tokenizer.train import train_tokenizer

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
    settings = _settings(config, overrides, run)
    from mtkit.batching.build import build_batches

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
    settings = _settings(config, overrides, run)
    from mtkit.training.train import train

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
    alignments: Alignments = False,
    jsonl: Jsonl = False,
    sample: Sample = False,
    temperature: Temperature = None,
    top_k: TopK = None,
    top_p: TopP = None,
    seed: Seed = None,
    device: Device = "auto",
    engine: Engine = "auto",
    compute_type: ComputeType = "auto",
    workers: Workers = None,
    threads: Threads = None,
    resume: Resume = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Stage 4: translate, one line for each line.

    Raw text in, raw text out. What is not set here is as the model was trained for.
    """
    given = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    sampling = _sampling(sample, given)
    from mtkit.decoding.translate import translate

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
            alignments=alignments,
            jsonl=jsonl,
            device=device,
            engine=engine,
            compute_type=compute_type,
            workers=workers,
            threads=threads,
            resume=resume,
        )


@app.command()
def score(
    reference: Reference,
    hypotheses: Hypotheses = None,
    language: Language = None,
    source: ScoredSource = None,
    paired: Paired = None,
    worst: Worst = 0,
    by_length: ByLength = False,
    plot: Plot = None,
    comet: Comet = False,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Score translations against references.

    BLEU, chrF and TER by sacreBLEU, with 95 % intervals and signatures.
    """
    from mtkit.scoring.score import score

    score(
        reference,
        hypotheses or [],
        language=language,
        source=source,
        paired=paired,
        worst=worst,
        by_length=by_length,
        plot=plot,
        with_comet=comet,
        as_json=json,
    )


@app.command()
def attend(
    text: Text = None,
    model: Model = None,
    target: Target = None,
    view: View = "terminal",
    kind: AttentionKind = None,
    layers: AttentionLayers = None,
    heads: AttentionHeads = None,
    average: Average = False,
    subwords: Subwords = False,
    explain: Explain = False,
    reference: Explained = None,
    json: Json = False,
    output: ViewOutput = None,
    device: Device = "auto",
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """See where the model looks.

    The attention of a translation: a heat map here, a picture, or a page for the browser. With
    --explain, a table for all sentences: what an output word loses without the words most attended.
    """
    if explain:
        views = {"view": None if view == "terminal" else view, "kind": kind, "average": average}
        maps = {"layer": layers, "head": heads, "subwords": subwords}
        _refuse("not with --explain", {"target": target, **views, **maps})
        from mtkit.study.attend.explain import explain as measure_faithfulness

        measure_faithfulness(model, text, reference, output, as_json=json, device=device)
        return
    _refuse("only with --explain", {"reference": reference, "json": json})
    from mtkit.study.attend.show import attend
    from mtkit.study.attend.weights import Aspect

    attend(
        model,
        text,
        output,
        target=target,
        view=view,
        aspect=Aspect(kind, layers or (), heads or (), average),
        subwords=subwords,
        device=device,
    )


@app.command()
def export(
    folder: Foreign = None,
    model: Model = None,
    to: To = None,
    source: From = None,
    output: Exported = None,
    quantization: Quantization = None,
    check: Check = False,
    text: CheckText = None,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """Write a model in another format, or read one.

    For CTranslate2, which `mtkit translate` uses by itself, and for Hugging Face's transformers.
    """
    if source is not None:
        if to or model or quantization or check or text:
            raise UserError("--from: goes with DIR and -o alone")
        from mtkit.formats.export import import_model

        import_model(folder, output)
        return
    if folder is not None:
        raise UserError(f"{folder}: a folder only goes with --from; name a model of mtkit with -m")
    from mtkit.formats.export import export_model

    export_model(model, output, to=to, quantization=quantization, check=check, text=text)


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
    plot: Drawing = None,
    output: Picture = None,
    debug: Debug = False,
) -> None:
    """Tell what a run, model or artifact is.

    Sizes, settings, scores, and what it was made from.
    """
    from mtkit.study.info.info import info as describe

    describe(path, verify=verify, config=config, plot=plot, output=output)


@app.command()
def compare(
    runs: Compared, paired: Paired = "bootstrap", plot: Plot = None, debug: Debug = False
) -> None:
    """Tell what differs between runs.

    Settings, learning curves over updates and over time, test scores with significance.
    """
    from mtkit.study.compare import compare

    compare(runs, paired=paired, plot=plot)


def _settings(config: Path | None, overrides: list[str] | None, run: str | None) -> Config:
    from mtkit.config.configfile import load_config

    return load_config(config, overrides or [], run)


def _refuse(why: str, options: Mapping[str, object]) -> None:
    """Raises UserError for the first of the options that was given."""
    for name, value in options.items():
        if value is not None and value is not False:
            raise UserError(f"--{name.replace('_', '-')}: {why}")


def _sampling(sample: bool, given: Mapping[str, float | None]) -> SamplingSettings | None:
    if not sample:
        _refuse("only with --sample", given)
        return None
    options = {name: value for name, value in given.items() if value is not None}
    from pydantic import ValidationError

    from mtkit.config.decoding import SamplingSettings

    try:
        return SamplingSettings.model_validate(options)
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise UserError(f"--{option}: {first['msg']}, found {first['input']}") from None
