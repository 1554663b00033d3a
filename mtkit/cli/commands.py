"""`mtkit` itself: all its commands, in the order in which its help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

from mtkit import report
from mtkit.artifacts import VERSION
from mtkit.cli.bench import bench
from mtkit.cli.options import Command
from mtkit.cli.stages import STAGES, stage_of, translate
from mtkit.cli.studies import attend, compare, export, info, score

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, (place, text) in STAGES.items():
    app.command(name, cls=Command, help=text)(stage_of(place))
for command in (translate, score, attend, export, info, compare):
    app.command(cls=Command)(command)
app.add_typer(bench, name="bench")


def _show_version(asked: bool) -> bool:
    if asked:
        report.data(f"mtkit {VERSION}\n")
        raise typer.Exit
    return asked


@app.callback()
def mtkit(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Machine translation: train-spm, batch and train make a model, or run does all three at once.

    Without a config they work on the demo. Then: echo "It is raining." | mtkit translate
    """
