"""The commands that look at what was made: scores, attention, other formats, runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Argument, Option

from mtkit.cli.options import (
    ComputeType,
    Device,
    Json,
    Language,
    Model,
    Plot,
    flag,
    of_fields,
    refuse,
)
from mtkit.errors import UserError

Paired = Annotated[
    Literal["bootstrap", "approximate"] | None,
    Option(help="Test every system against the first: resampling or randomisation."),
]


def score(
    reference: list[Path] = Option(
        ...,
        "-r",
        "--reference",
        metavar="FILE",
        help="The right translations, line by line; several where there are several of each line.",
    ),
    hypotheses: list[Path] | None = Argument(None, metavar="HYP", help="Files; default: stdin."),
    language: Language = None,
    source: Path | None = Option(None, metavar="FILE", help="The text that was translated."),
    paired: Paired = None,
    worst: int = Option(0, min=0, metavar="N", help="Also show the N sentences of lowest chrF."),
    by_length: bool = flag("--by-length", help="Also score by words of the --source."),
    plot: Path | None = Option(
        None, metavar="FILE", help="With --by-length: picture to draw, .png or .svg."
    ),
    comet: bool = flag("--comet", help="Also COMET, of the --source; see how to install it."),
    json: Json = False,
) -> None:
    """Score translations against references.

    BLEU, chrF and TER by sacreBLEU, with 95 % intervals and signatures.
    """
    from mtkit.scoring.score import Extras, score

    extras = Extras(paired, worst, by_length, plot, comet)
    score(
        reference, hypotheses or [], language=language, source=source, extras=extras, as_json=json
    )


@dataclass(frozen=True)
class AttendOptions:
    """What `mtkit attend` can be told."""

    text: str | None = Argument(
        None, metavar="TEXT", help="A sentence; default: each line of stdin."
    )
    model: Model = None
    target: str | None = Option(
        None, metavar="TEXT", help="Translation to look at, not the model's own."
    )
    view: Literal["terminal", "png", "svg", "html"] = Option(
        "terminal", help="A heat map here, a picture, or a page for the browser."
    )
    kind: Literal["cross", "encoder", "decoder"] | None = Option(
        None, help="Encoder-decoder or self-attention; default: cross; not with html."
    )
    layer: list[int] | None = Option(
        None, metavar="N", help="This layer alone, from 1; repeatable; not with html."
    )
    head: list[int] | None = Option(
        None, metavar="N", help="This head alone, from 1; repeatable; not with html."
    )
    average: bool = flag("--average", help="With png, svg: one map, the mean of layers and heads.")
    subwords: bool = flag("--subwords", help="Do not merge subwords into words.")
    explain: bool = flag("--explain", help="Measure whether attention explains the translations.")
    reference: Path | None = Option(
        None,
        "-r",
        "--reference",
        metavar="FILE",
        help="With --explain: translations, line by line.",
    )
    json: Json = False
    output: Path | None = Option(
        None, "-o", "--output", help="File to write; default: attention.VIEW."
    )
    device: Device = "auto"


@of_fields
def attend(options: AttendOptions) -> None:
    """See where the model looks.

    The attention of a translation: a heat map here, a picture, or a page for the browser. With
    --explain, a table for all sentences: what an output word loses without the words most attended.
    """
    text, model, output, device = options.text, options.model, options.output, options.device
    if options.explain:
        views = ("target", "view", "kind", "average", "layer", "head", "subwords")
        refuse("not with --explain", options, views)
        from mtkit.study.attend.explain import explain

        explain(model, text, options.reference, output, as_json=options.json, device=device)
        return
    refuse("only with --explain", options, ("reference", "json"))
    from mtkit.study.attend.show import attend
    from mtkit.study.attend.weights import Aspect

    attend(
        model,
        text,
        output,
        target=options.target,
        view=options.view,
        aspect=Aspect(options.kind, options.layer or (), options.head or (), options.average),
        subwords=options.subwords,
        device=device,
    )


def export(
    folder: Path | None = Argument(None, metavar="DIR", help="With --from: the model."),
    model: Model = None,
    to: Literal["ctranslate2", "huggingface"] | None = Option(
        None, help="Format: for `mtkit translate` and others, or MarianMTModel."
    ),
    source: Literal["huggingface"] | None = Option(
        None, "--from", help="Instead: the format that DIR is in, such as an OPUS-MT model."
    ),
    output: Path | None = Option(
        None, "-o", "--output", help="New folder; default: the cache of `mtkit translate`."
    ),
    quantization: ComputeType | None = Option(
        None, help="Numbers of CTranslate2; auto: int8 if validation BLEU hardly drops."
    ),
    check: bool = flag("--check", help="Translate before and after, and compare."),
    text: Path | None = Option(None, metavar="FILE", help="With --check: not the run's text."),
) -> None:
    """Write a model in another format, or read one.

    For CTranslate2, which `mtkit translate` uses by itself, and for Hugging Face's transformers.
    """
    if source is not None:
        if to or model or quantization or check or text:
            raise UserError("--from: goes with DIR and -o alone")
        from mtkit.formats.huggingface import from_huggingface

        from_huggingface(folder, output)
        return
    if folder is not None:
        raise UserError(f"{folder}: a folder only goes with --from; name a model of mtkit with -m")
    from mtkit.formats.export import export_model

    export_model(model, output, to=to, quantization=quantization, check=check, text=text)


def info(
    path: Path | None = Argument(
        None, metavar="PATH", help="Run, model or config; default: $MTKIT_MODEL or the last run."
    ),
    verify: bool = flag("--verify", help="Hash every file again."),
    config: bool = flag("--config", help="Print every resolved setting, as YAML."),
    plot: Literal["positions", "schedule", "curves", "lengths"] | None = Option(
        None, help="Draw positional encodings, learning rates, training, lengths."
    ),
    output: Path | None = Option(
        None, "-o", "--output", help="With --plot: a .png or .svg; default: the terminal."
    ),
) -> None:
    """Tell what a run, model or artifact is.

    Sizes, settings, scores, and what it was made from.
    """
    from mtkit.study.info.info import info

    info(path, verify=verify, config=config, plot=plot, output=output)


def compare(
    runs: list[Path] = Argument(..., metavar="RUN", help="Runs; the first is the baseline."),
    paired: Paired = "bootstrap",
    plot: Plot = None,
) -> None:
    """Tell what differs between runs.

    Settings, learning curves over updates and over time, test scores with significance.
    """
    from mtkit.study.compare import compare

    compare(runs, paired=paired, plot=plot)
