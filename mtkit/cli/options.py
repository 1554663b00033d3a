"""Every option and argument, once: its name, its type and what `--help` says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from mtkit import __version__, report

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
        report.data(f"mtkit {__version__}\n")
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
Jsonl = Annotated[bool, typer.Option("--jsonl", help="A JSON object for each line.")]
Sample = Annotated[bool, typer.Option("--sample", help="Draw at random instead of searching.")]
Temperature = Annotated[
    float | None, typer.Option(help="With --sample: below 1 sharper, above 1 flatter.")
]
TopK = Annotated[int | None, typer.Option(help="With --sample: among the k most probable.")]
TopP = Annotated[float | None, typer.Option(help="With --sample: among the fewest that sum to p.")]
Seed = Annotated[int | None, typer.Option(help="With --sample: of the random numbers.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Size = Annotated[
    Literal["tiny", "base"] | None,
    typer.Option(help="Drawn sentences instead of a config's; default: tiny."),
]
BenchConfig = Annotated[
    Path | None, typer.Option("-c", "--config", help="YAML file: measure the batches of its run.")
]
Precision = Annotated[
    Literal["auto", "float32", "bfloat16", "float16"] | None,
    typer.Option(help="As --set training.precision."),
]
Seconds = Annotated[float, typer.Option(min=0.1, help="How long to train.")]
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
Json = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]
Described = Annotated[
    Path | None, typer.Argument(metavar="PATH", help="Run, model or config; default: the last run.")
]
Verify = Annotated[bool, typer.Option("--verify", help="Hash every file again.")]
AsConfig = Annotated[bool, typer.Option("--config", help="Print every resolved setting, as YAML.")]
Version = Annotated[
    bool,
    typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
]
