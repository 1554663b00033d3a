"""The commands `attend` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mtkit.cli.options import Device, Model, Tag, refuse


def attend(
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="Sentence (default: each line of stdin).")
    ] = None,
    model: Model = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write a web page (.html): all layers and heads, positions, warmup, beam search.",
        ),
    ] = None,
    explain: Annotated[
        bool, Option("--explain", help="Measure how well attention explains the output.")
    ] = False,
    reference: Annotated[
        Path | None,
        Option(
            "-r",
            "--reference",
            metavar="FILE",
            help="Translations for --explain (default: the model's).",
        ),
    ] = None,
    tag: Tag = None,
    device: Device = "auto",
) -> None:
    """Show the attention weights of a translation.

    With --explain, measure how much the output depends on the most attended source words.
    Example: mtkit attend "Two men are talking." -o attention.html
    """
    if explain:
        refuse("cannot be used with --explain", output=output)
        from mtkit.extras.study.attend.explain import explain as measure

        measure(model, text, reference, device=device, tag=tag)
        return
    refuse("needs --explain", reference=reference)
    from mtkit.extras.study.attend.show import attend

    attend(model, text, output, device=device, tag=tag)


def compare(
    runs: Annotated[
        list[Path], Argument(metavar="RUN", help="Run directories; the first is the baseline.")
    ],
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="Draw the learning curves as a picture, .png or .svg."),
    ] = None,
) -> None:
    """Compare the settings, learning curves and scores of runs.

    Prints the settings that differ, learning curves by step and by time, and test scores with
    significance tests.
    Example: mtkit compare runs/a runs/b --plot curves.png
    """
    from mtkit.extras.study.compare import compare

    compare(runs, plot)
