"""Commands for finished runs and models: `score`, `export` and `info`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option

from mtkit import plugins
from mtkit.cli.options import (
    DEFAULT_MODEL,
    ComputeType,
    Glossary,
    Json,
    Language,
    Model,
    Sheet,
    Tag,
    refuse,
)
from mtkit.errors import UserError
from mtkit.report import show


def score(
    reference: Annotated[
        list[Path] | None,
        Option(
            "-r",
            "--reference",
            metavar="FILE",
            help="Reference translations (may be repeated; optional with --scores or --source).",
        ),
    ] = None,
    hypotheses: Annotated[
        list[Path] | None,
        Argument(metavar="HYP", help="File of translations (default: stdin); or one table."),
    ] = None,
    columns: Annotated[
        tuple[str, str] | None,
        Option(metavar="R T", help="Columns of references and translations, both in one table."),
    ] = None,
    sheet: Sheet = None,
    language: Language = None,
    source: Annotated[
        Path | None, Option(metavar="FILE", help="Source text of the translations.")
    ] = None,
    paired: Annotated[
        bool, Option("--paired", help="Test the difference from the first system for significance.")
    ] = False,
    worst: Annotated[
        int,
        Option(min=0, metavar="N", help="Show the N sentences with the lowest chrF (default: 0)."),
    ] = 0,
    scores: Annotated[
        list[Path] | None,
        Option(
            metavar="FILE",
            help="Scores of the lines of a system by another program, such as COMET, one number on "
            "each line; once for each system, in the same order.",
        ),
    ] = None,
    model: Model = None,
    tag: Tag = None,
    glossary: Glossary = None,
    flags: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write a JSON object per line: confidence and flags.",
        ),
    ] = None,
    fail_on: Annotated[
        str | None,
        Option(metavar="NAMES", help="Fail if a line has one of these flags: placeholder,number."),
    ] = None,
    json: Json = False,
) -> None:
    """Score translations, with references or without.

    Prints BLEU, chrF and TER with sacreBLEU's signatures and 95 % confidence intervals. With
    --source and no -r, a model predicts chrF and flags probable errors. With only --scores, the
    command compares these scores. A table may hold both references and translations.
    Example: mtkit score -r test.fr a.txt b.txt --paired
    """
    loaded = None
    if columns:
        refuse("cannot be used with --columns", source=source)
        load_columns = plugins.load_plugin("actions", "load_columns")
        loaded = load_columns([*(reference or []), *(hypotheses or [])], columns, sheet)
    else:
        refuse("needs --columns, of references and translations", sheet=sheet)
    from mtkit.artifacts.records import dump_record
    from mtkit.scoring.score import score_files, score_line_files, score_lines

    if reference or columns:
        why = "cannot be used with references"
        refuse(why, model=model, tag=tag, glossary=glossary, flags=flags, fail_on=fail_on)
        systems = score_files(
            reference or [],
            hypotheses or [],
            loaded=loaded,
            language=language,
            source=source,
            paired=paired,
            worst=worst,
            line_scores=scores or [],
        )
    elif source or hypotheses:
        why = "needs references; give them with -r"
        refuse(why, language=language, paired=paired, scores=scores)
        if not hypotheses or source is None:
            raise UserError(
                "give references with -r; or, to estimate without them, translations and --source"
            )
        estimate = plugins.load_plugin("actions", "estimate")
        options: dict[str, Any] = {"tag": tag, "glossary": glossary, "worst": worst}
        options |= {"flags": flags, "fail_on": fail_on, "as_json": json}
        estimate(source, hypotheses, model, **options)
        return
    elif scores:
        why = "needs references or --source"
        refuse(why, language=language, worst=worst or None, model=model, tag=tag, glossary=glossary)
        refuse("needs --source", flags=flags, fail_on=fail_on)
        systems = score_line_files(scores, paired=paired)
    else:
        raise UserError(
            "mtkit score: missing option '-r' / '--reference'; see `mtkit score --help`"
        )
    records = [dump_record(system) for system in systems]
    show(records, lambda _: score_lines(systems), as_json=json)


def export(
    folder: Annotated[
        Path | None, Argument(metavar="DIR", help="Model to convert, with --from.")
    ] = None,
    model: Model = None,
    to: Annotated[
        str | None,
        Option(metavar="FORMAT", help="Convert to this format: ctranslate2, huggingface or html."),
    ] = None,
    from_: Annotated[
        Literal["huggingface"] | None,
        Option("--from", help="Convert a model of this format to mtkit."),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="PATH",
            help="New folder, or file for html (default for ctranslate2: a cache).",
        ),
    ] = None,
    quantization: Annotated[
        ComputeType | None,
        Option(
            help="Data type for ctranslate2 (default: auto, int8 if it loses at most 0.3 BLEU)."
        ),
    ] = None,
) -> None:
    """Export a model to another format, or import one.

    The formats are CTranslate2, Hugging Face's MarianMT (also for import), and an HTML page that
    translates in a browser without a network. `mtkit translate` itself converts a model to
    CTranslate2 when necessary.
    Example: mtkit export --to html -o translator.html
    """
    if from_ is not None:
        refuse("cannot be used with --from", to=to, model=model, quantization=quantization)
        plugins.load_plugin("actions", "from_huggingface")(folder, output)
        return
    if folder is not None:
        raise UserError(f"{folder} is used only with --from; give a model of mtkit with -m")
    formats = plugins.find_plugins("exporters")
    if to is None or to not in formats:
        raise UserError(f"export: choose a format with --to: {', '.join(formats)}")
    export_model = plugins.load_plugin("exporters", to)
    if to == "ctranslate2":
        export_model(model, output, quantization=quantization)
    else:
        refuse("needs --to ctranslate2", quantization=quantization)
        export_model(model, output)


def info(
    path: Annotated[
        Path | None,
        Argument(
            metavar="PATH", help=f"Run, model, artifact or config (default: {DEFAULT_MODEL})."
        ),
    ] = None,
    all: Annotated[bool, Option("--all", help="Print every number, setting and file.")] = False,
    verify: Annotated[bool, Option("--verify", help="Check the sha256 of every file.")] = False,
    config: Annotated[
        bool, Option("--config", help="Print every setting and its value as YAML.")
    ] = False,
    explain: Annotated[
        bool, Option("--explain", help="With --config: add a comment on each setting.")
    ] = False,
    plot: Annotated[
        bool,
        Option(
            "--plot",
            help="Plot learning curves, or before training the learning rate with its warmup.",
        ),
    ] = False,
    output: Annotated[
        Path | None, Option("-o", "--output", help="Write the plot to this .png or .svg file.")
    ] = None,
) -> None:
    """Describe a run, model or artifact.

    Prints its state, data, sizes and scores, and the next command. --all prints every number.
    Example: mtkit info runs/latest --plot
    """
    if plot:
        refuse("cannot be used with --plot", all=all, verify=verify, config=config)
        plugins.load_plugin("actions", "plot")(path, output)
        return
    refuse("needs --plot", output=output)
    if config:
        refuse("cannot be used with --config", all=all, verify=verify)
    else:
        refuse("needs --config", explain=explain)
    from mtkit.info import info

    info(path, full=all, verify=verify, config=config, explain=explain)
