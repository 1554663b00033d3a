"""Every option and argument, once: its name, its type and what `--help` says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit import report
from mtkit.artifacts import VERSION

_shows_traceback = False


def _set_quiet(quiet: bool) -> bool:
    report.set_quiet(quiet)
    return quiet


def _set_debug(debug: bool) -> bool:
    global _shows_traceback
    _shows_traceback = debug
    return debug


def shows_traceback() -> bool:
    """Whether the command was given --debug."""
    return _shows_traceback


def _show_version(asked: bool) -> bool:
    if asked:
        report.data(f"mtkit {VERSION}\n")
        raise typer.Exit
    return asked


ConfigFile = Annotated[
    Path | None,
    typer.Option("-c", "--config", help="YAML file; default: ./mtkit.yaml, else the demo's."),
]
Run = Annotated[str | None, typer.Option("--run", help="Folder to write to, not the config's.")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Override a setting; repeatable."),
]
Quiet = Annotated[
    bool,
    typer.Option("-q", "--quiet", callback=_set_quiet, help="Only warnings and errors."),
]
Debug = Annotated[
    bool, typer.Option("--debug", callback=_set_debug, help="Show the traceback of an error.")
]

Input = Annotated[Path | None, typer.Argument(metavar="INPUT", help="Text; default: stdin.")]
Output = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write; default: stdout.")
]
Model = Annotated[
    str | None,
    typer.Option("-m", "--model", help="Run or model; default: $MTKIT_MODEL or the last run."),
]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept at each step.")]
NBest = Annotated[int | None, typer.Option(min=1, help="Lines for each: index, score, text.")]
LengthPenalty = Annotated[float | None, typer.Option(help="alpha in log P / |y|^alpha.")]
MinLength = Annotated[int | None, typer.Option(help="Subwords, at least.")]
MaxLength = Annotated[int | None, typer.Option(help="Subwords, at most; longer input is split.")]
Alignments = Annotated[
    bool,
    typer.Option("--alignments", help="Add a tab and which words belong together: 0-0 1-2."),
]
Jsonl = Annotated[bool, typer.Option("--jsonl", help="A JSON object for each line.")]
Sample = Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")]
Temperature = Annotated[
    float | None, typer.Option(help="With --sample: below 1 sharper, above 1 flatter.")
]
TopK = Annotated[int | None, typer.Option(help="With --sample: among the k most probable.")]
TopP = Annotated[float | None, typer.Option(help="With --sample: among the fewest that sum to p.")]
Seed = Annotated[int | None, typer.Option(help="With --sample: of the random numbers.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Engine = Annotated[
    Literal["auto", "torch", "ctranslate2"],
    typer.Option(help="What searches; auto: CTranslate2 where it can do what is asked."),
]
ComputeType = Annotated[
    Literal["auto", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"],
    typer.Option(
        help="Type of numbers; auto: int8 where `mtkit export` found it as good, else float32."
    ),
]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Batches at a time; default: one per core.")
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads of each worker.")]
To = Annotated[
    Literal["ctranslate2", "huggingface"] | None,
    typer.Option("--to", help="Format: for `mtkit translate` and others, or MarianMTModel."),
]
From = Annotated[
    Literal["huggingface"] | None,
    typer.Option("--from", help="Instead: the format that DIR is in, such as an OPUS-MT model."),
]
Foreign = Annotated[Path | None, typer.Argument(metavar="DIR", help="With --from: the model.")]
Exported = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="New folder; default: the cache of `mtkit translate`."),
]
Quantization = Annotated[
    Literal["auto", "int8", "int8_float32", "int16", "float16", "bfloat16", "float32"] | None,
    typer.Option(help="Numbers of CTranslate2; auto: int8 if validation BLEU hardly drops."),
]
Check = Annotated[bool, typer.Option("--check", help="Translate before and after, and compare.")]
CheckText = Annotated[
    Path | None, typer.Option("--text", metavar="FILE", help="With --check: not the run's text.")
]
Resume = Annotated[
    bool, typer.Option("--resume", help="With -o: go on where an interrupted command stopped.")
]
Size = Annotated[
    Literal["tiny", "base"] | None,
    typer.Option(help="Drawn sentences instead of one's own; default: tiny."),
]
BenchConfig = Annotated[
    Path | None, typer.Option("-c", "--config", help="YAML file: measure the batches of its run.")
]
BenchModel = Annotated[
    str | None, typer.Option("-m", "--model", help="Run or model; default: one of --size.")
]
BenchInput = Annotated[
    Path | None,
    typer.Option("--input", metavar="FILE", help="Text; default: what the run was tested on."),
]
BenchBeam = Annotated[int, typer.Option(min=1, help="Hypotheses; also measured with one.")]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "float16"] | None,
    typer.Option(help="As --set training.precision."),
]
Seconds = Annotated[float, typer.Option(min=0.1, help="How long to measure.")]
Breakdown = Annotated[
    bool, typer.Option("--breakdown", help="Also divide an update's time among its parts.")
]
Reference = Annotated[
    Path, typer.Option("-r", "--reference", help="The right translations, line by line.")
]
Hypotheses = Annotated[
    list[Path] | None, typer.Argument(metavar="HYP", help="Files; default: stdin.")
]
Language = Annotated[
    str | None, typer.Option(help="Code such as de or ko: adds Moses-tokenised BLEU.")
]
ScoredSource = Annotated[
    Path | None, typer.Option("--source", metavar="FILE", help="The text that was translated.")
]
Paired = Annotated[
    Literal["bootstrap", "approximate"] | None,
    typer.Option(help="Test every system against the first: resampling or randomisation."),
]
Worst = Annotated[
    int, typer.Option(min=0, metavar="N", help="Also show the N sentences of lowest chrF.")
]
ByLength = Annotated[bool, typer.Option("--by-length", help="Also score by words of the --source.")]
Comet = Annotated[
    bool, typer.Option("--comet", help="Also COMET, of the --source; see how to install it.")
]
Plot = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Picture to draw: .png or .svg.")
]
Compared = Annotated[
    list[Path], typer.Argument(metavar="RUN...", help="Runs; the first is the baseline.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Described = Annotated[
    Path | None, typer.Argument(metavar="PATH", help="Run, model or config; default: the last run.")
]
Drawing = Annotated[
    Literal["positions", "schedule", "curves", "lengths"] | None,
    typer.Option("--plot", help="Draw positional encodings, learning rates, training, lengths."),
]
Picture = Annotated[
    Path | None,
    typer.Option("-o", "--output", help="With --plot: a .png or .svg; default: the terminal."),
]
Verify = Annotated[bool, typer.Option("--verify", help="Hash every file again.")]
AsConfig = Annotated[bool, typer.Option("--config", help="Print every resolved setting, as YAML.")]
Text = Annotated[
    str | None, typer.Argument(metavar="TEXT", help="A sentence; default: each line of stdin.")
]
Target = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Translation to look at, not the model's own.")
]
View = Annotated[
    Literal["terminal", "png", "svg", "html"],
    typer.Option(help="A heat map here, a picture, or a page for the browser."),
]
AttentionKind = Annotated[
    Literal["cross", "encoder", "decoder"] | None,
    typer.Option("--kind", help="Encoder-decoder or self-attention; default: cross."),
]
AttentionLayers = Annotated[
    list[int] | None,
    typer.Option(
        "--layer", metavar="N", help="This layer alone, from 1; repeatable; default: all."
    ),
]
AttentionHeads = Annotated[
    list[int] | None,
    typer.Option("--head", metavar="N", help="This head alone, from 1; repeatable; default: all."),
]
Average = Annotated[
    bool, typer.Option("--average", help="With png, svg: one map, the mean of layers and heads.")
]
Subwords = Annotated[bool, typer.Option("--subwords", help="Do not merge subwords into words.")]
Explain = Annotated[
    bool,
    typer.Option("--explain", help="Measure whether attention explains the translations."),
]
Explained = Annotated[
    Path | None,
    typer.Option(
        "-r", "--reference", metavar="FILE", help="With --explain: translations, line by line."
    ),
]
ViewOutput = Annotated[
    Path | None, typer.Option("-o", "--output", help="File to write; default: attention.VIEW.")
]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
]
