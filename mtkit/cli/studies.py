"""Commands that describe results: scores, attention, other formats, runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from mtkit.cli.options import ComputeType, Device, Json, Language, Model, Plot, flag, refuse
from mtkit.errors import UserError
from mtkit.report import show

Paired = Annotated[
    Literal["bootstrap", "approximate"] | None,
    Option(help="Test each system against the first: paired bootstrap or randomisation."),
]
References = Annotated[
    list[Path],
    Option("-r", "--reference", metavar="FILE", help="Reference; repeat for multiple references."),
]


def score(
    reference: References,
    hypotheses: list[Path] | None = Argument(None, metavar="HYP", help="Files (default: stdin)."),
    language: Language = None,
    source: Path | None = Option(None, metavar="FILE", help="Source text."),
    paired: Paired = None,
    worst: int = Option(0, min=0, metavar="N", help="Show the N sentences with the lowest chrF."),
    by_length: bool = flag("--by-length", help="With --source: score by source length in words."),
    plot: Path | None = Option(None, metavar="FILE", help="With --by-length: a picture to draw."),
    comet: bool = flag("--comet", help="With --source: add COMET (`pipx install unbabel-comet`)."),
    json: Json = False,
) -> None:
    """Score translations against references.

    BLEU, chrF and TER by sacreBLEU, with signatures and 95 % confidence intervals.
    """
    if not source:
        refuse("needs the source text: name it with --source", by_length=by_length, comet=comet)
    elif not (worst or by_length or comet):
        refuse("only with --worst, --by-length or --comet", source=source)
    if not by_length:
        refuse("only with --by-length", plot=plot)
    from mtkit.scoring.score import score_files, score_lines
    from mtkit.study.plots.lengths import plot_lengths
    from mtkit.study.plots.picture import check_picture

    if plot is not None:
        check_picture(plot)
    systems = score_files(
        reference,
        hypotheses or [],
        language=language,
        source=source,
        paired=paired,
        worst=worst,
        by_length=by_length,
        comet=comet,
    )
    show([it.record() for it in systems], lambda _: score_lines(systems), as_json=json)
    if plot is not None:
        plot_lengths(systems, plot)


@dataclass(frozen=True)
class AttendOptions:
    """The options of `mtkit attend`."""

    text: str | None = Argument(None, metavar="TEXT", help="Sentence (default: lines of stdin).")
    model: Model = None
    target: str | None = Option(None, metavar="TEXT", help="Translation (default: the model's).")
    view: Literal["terminal", "png", "svg", "html"] | None = Option(
        None, help="Heat map in the terminal, picture, or HTML page (default: terminal)."
    )
    kind: Literal["cross", "encoder", "decoder"] | None = Option(
        None, help="Cross-attention or self-attention (default: cross; html: all)."
    )
    layer: list[int] | None = Option(None, metavar="N", help="Only this layer, from 1; repeatable.")
    head: list[int] | None = Option(None, metavar="N", help="Only this head, from 1; repeatable.")
    average: bool = flag("--average", help="With png or svg: average over layers and heads.")
    subwords: bool = flag("--subwords", help="Show subwords instead of words.")
    explain: bool = flag("--explain", help="Measure how well attention explains translations.")
    reference: Path | None = Option(
        None, "-r", "--reference", metavar="FILE", help="With --explain: translations to explain."
    )
    json: Json = False
    output: Path | None = Option(None, "-o", "--output", help="Default: attention.VIEW.")
    device: Device = "auto"


def attend(options: AttendOptions) -> None:
    """Show the attention weights of a translation.

    --explain tabulates, for all sentences, how much the probability of an output word falls
    without the source words that it attends to most.
    """
    text, model, output, device = options.text, options.model, options.output, options.device
    view, kind, layer, head = options.view, options.kind, options.layer, options.head
    average, subwords = options.average, options.subwords
    if options.explain:
        shape = {"kind": kind, "layer": layer, "head": head, "average": average}
        refuse("not with --explain", **shape)
        views = {"view": view, "subwords": subwords, "output": output}
        refuse("not with --explain", target=options.target, **views)
        from mtkit.study.attend.explain import explain

        explain(model, text, options.reference, as_json=options.json, device=device)
        return
    refuse("only with --explain", reference=options.reference, json=options.json)
    if view == "html":
        refuse("not with --view html, which shows all", kind=kind, layer=layer, head=head)
    if view not in ("png", "svg"):
        refuse("only with --view png or svg", average=average)
    if view in (None, "terminal"):
        refuse("only with --view png, svg or html", output=output)
    from mtkit.study.attend.show import attend
    from mtkit.study.attend.weights import MapSelection

    selection = MapSelection(kind or "cross", layer or (), head or (), average)
    target, view = options.target, view or "terminal"
    attend(
        model,
        text,
        output,
        target=target,
        view=view,
        selection=selection,
        subwords=subwords,
        device=device,
    )


def export(
    folder: Path | None = Argument(None, metavar="DIR", help="With --from: the model to import."),
    model: Model = None,
    to: Literal["ctranslate2", "huggingface"] | None = Option(None, help="Format to export to."),
    from_: Literal["huggingface"] | None = Option(None, "--from", help="Format to import from."),
    output: Path | None = Option(None, "-o", "--output", help="New folder (ctranslate2: a cache)."),
    quantization: ComputeType | None = Option(
        None, help="With ctranslate2: compute type; auto: int8 if validation BLEU hardly drops."
    ),
    check: bool = flag("--check", help="With ctranslate2: compare translations before and after."),
    text: Path | None = Option(
        None, metavar="FILE", help="With --check (default: the validation text)."
    ),
) -> None:
    """Export a model to another format, or import one.

    CTranslate2 (`mtkit translate` exports by itself) and transformers by Hugging Face.
    """
    if from_ is not None:
        options = {"to": to, "model": model, "quantization": quantization}
        refuse("not with --from", check=check, text=text, **options)
        from mtkit.formats.huggingface import from_huggingface

        from_huggingface(folder, output)
        return
    if folder is not None:
        raise UserError(f"{folder}: only with --from: name a model of mtkit with -m")
    if to is None:
        raise UserError("export: name a format, --to ctranslate2 or --to huggingface")
    if not check:
        refuse("only with --check", text=text)
    if to == "huggingface":
        refuse("only with --to ctranslate2", check=check, quantization=quantization)
        from mtkit.formats.huggingface import export_to_huggingface

        export_to_huggingface(model, output)
        return
    from mtkit.formats.ctranslate2 import export_to_ctranslate2

    export_to_ctranslate2(model, output, quantization=quantization, check=check, text=text)


def info(
    path: Path | None = Argument(
        None, metavar="PATH", help="Run, model or config (default: $MTKIT_MODEL or the last run)."
    ),
    verify: bool = flag("--verify", help="Check the hash of every file."),
    config: bool = flag("--config", help="Print all settings, resolved, as YAML."),
    plot: Literal["positions", "schedule", "curves", "lengths"] | None = Option(
        None, help="Plot learning rate, training curves, lengths or (with -o) positional encodings."
    ),
    output: Path | None = Option(None, "-o", "--output", help="With --plot: .png or .svg."),
) -> None:
    """Describe a run, model or artifact.

    Prints sizes, settings, scores, and the inputs that it was made from.
    """
    if plot:
        refuse("not with --plot", verify=verify, config=config)
    else:
        refuse("only with --plot", output=output)
    if config:
        refuse("not with --config", verify=verify)
    from mtkit.study.info.info import info

    info(path, verify=verify, config=config, plot=plot, output=output)


def compare(
    runs: list[Path] = Argument(..., metavar="RUN", help="Runs; the first is the baseline."),
    paired: Paired = "bootstrap",
    plot: Plot = None,
) -> None:
    """Compare runs.

    Prints settings that differ, learning curves over steps and time, and test scores with
    significance tests.
    """
    from mtkit.study.compare import compare

    compare(runs, paired=paired, plot=plot)
