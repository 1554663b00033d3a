"""The commands `attend` and `compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from mtkit.cli.options import Columns, Device, Json, Model, Sheet, Tag, refuse
from mtkit.errors import UserError


def attend(
    text: Annotated[
        str | None, Argument(metavar="TEXT", help="Sentence (default: each line of stdin).")
    ] = None,
    model: Model = None,
    target: Annotated[
        str | None, Option(metavar="TEXT", help="Use this translation, not the model's.")
    ] = None,
    subwords: Annotated[bool, Option("--subwords", help="Show subwords instead of words.")] = False,
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
    json: Json = False,
    device: Device = "auto",
) -> None:
    """Show the attention weights of a translation.

    With --explain, measure how much the output depends on the most attended source words.
    Example: mtkit attend "Two men are talking." -o attention.html
    """
    if explain:
        refuse("cannot be used with --explain", target=target, subwords=subwords, output=output)
        from mtkit.extras.study.attend.explain import explain as measure

        measure(model, text, reference, as_json=json, device=device, tag=tag)
        return
    refuse("needs --explain", reference=reference, json=json)
    from mtkit.extras.study.attend.show import attend

    attend(model, text, output, target=target, subwords=subwords, device=device, tag=tag)


def compare(
    runs: Annotated[
        list[Path], Argument(metavar="RUN", help="Run directories; the first is the baseline.")
    ],
    plot: Annotated[
        Path | None,
        Option(metavar="FILE", help="Draw the learning curves as a picture, .png or .svg."),
    ] = None,
    test: Annotated[
        list[str] | None,
        Option(
            metavar="FILE...",
            help="Translate this test set with each run: source and target text, or one table.",
        ),
    ] = None,
    columns: Columns = None,
    sheet: Sheet = None,
) -> None:
    """Compare the settings, learning curves and scores of runs.

    Prints the settings that differ, learning curves by step and by time, and test scores with
    significance tests. If their test sets differ, name one with --test.
    Example: mtkit compare runs/a runs/b --plot curves.png
    """
    from mtkit.extras.study.compare import compare

    if test is None:
        refuse("needs --test", columns=columns, sheet=sheet)
        compare(runs, plot)
        return
    if len(test) > 2:
        raise UserError("--test: give a source and a target text, or one table")
    source, *target = test
    from mtkit.cli.preparation import named_corpus

    test_set = named_corpus(
        source=source,
        target=target[0] if target else None,
        columns=columns,
        sheet=sheet,
    )
    compare(runs, plot, test_set)
