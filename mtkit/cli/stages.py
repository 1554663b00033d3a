"""Commands of the stages: `run`, `train-spm`, `batch`, `train`, `finish` and `translate`.

Modules that are slow to import are imported inside the commands, so that help and errors are fast.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from mtkit import plugins, report
from mtkit.cli.options import (
    DEFAULT_RUN,
    ComputeOption,
    Device,
    Engine,
    Glossary,
    Models,
    Overrides,
    Sheet,
    SourceTag,
    Tag,
    refuse,
)
from mtkit.errors import SettingError, UserError

if TYPE_CHECKING:
    from mtkit.config.settings import Config

ConfigFile = Annotated[
    Path | None, Option("-c", "--config", help="YAML config (default: ./mtkit.yaml).")
]
Demo = Annotated[
    bool, Option("--demo", help="Use the demo's config and corpus, English to Korean.")
]
RunFolder = Annotated[
    str | None, Option("--run", metavar="DIR", help="Run directory (default: `run` in the config).")
]
Cluster = Annotated[
    str | None, Option(metavar="ADDRESS", help="Use the workers of the Dask scheduler at ADDRESS.")
]


@contextmanager
def open_config(
    file: Path | None, *, demo: bool, run: str | None, overrides: list[str] | None
) -> Iterator[Config]:
    """Read the config of a stage.

    An error in one of its settings, which the enclosed block raises, names file and line.
    """
    if demo:
        refuse("cannot be used with --demo", config=file)
    from mtkit.config.yaml import demo_config, read_config

    source = demo_config() if demo else file
    config, origin = read_config(source, overrides or [], run)
    try:
        yield config
    except SettingError as error:
        raise UserError(f"{origin.where(error.key)}: {error}") from error


def run(
    config: ConfigFile = None,
    demo: Demo = False,
    folder: RunFolder = None,
    overrides: Overrides = None,
    cluster: Cluster = None,
) -> None:
    """Run all stages, then translate and score the test set.

    Skips each stage whose result is up to date. After an interruption, the same command resumes.
    Example: mtkit run --run runs/seed2 --set seed=2
    """
    with open_config(config, demo=demo, run=folder, overrides=overrides) as settings:
        from mtkit.pipeline import run_and_print

        run_and_print(settings, cluster)


def train_spm(
    config: ConfigFile = None,
    demo: Demo = False,
    folder: RunFolder = None,
    overrides: Overrides = None,
) -> None:
    """Stage 1: train the tokenizer.

    Trains a SentencePiece model on the training text and writes it to RUN/tokenizer/.
    Example: mtkit train-spm --set tokenizer.vocab_size=4000
    """
    with open_config(config, demo=demo, run=folder, overrides=overrides) as settings:
        from mtkit.tokenizer.train_spm import train_tokenizer

        # The tokenizer is made from that of the base model, so check first whether training can
        # start from the model.
        if settings.training.init_from is not None:
            from mtkit.training.setup import check_origin

            check_origin(settings)
        train_tokenizer(settings)


def batch(
    config: ConfigFile = None,
    demo: Demo = False,
    folder: RunFolder = None,
    overrides: Overrides = None,
    cluster: Cluster = None,
) -> None:
    """Stage 2: prepare the training data.

    Reads and filters the corpora, converts text to subword ids, and writes them to RUN/batches/.
    Uses all cores.
    Example: mtkit batch --set batching.deduplicate=true
    """
    with open_config(config, demo=demo, run=folder, overrides=overrides) as settings:
        from mtkit.batching.build import build_batches

        build_batches(settings, cluster)


def train(
    config: ConfigFile = None,
    demo: Demo = False,
    folder: RunFolder = None,
    overrides: Overrides = None,
    dry_run: Annotated[
        int | None,
        Option(metavar="N", min=1, help="Only estimate time and memory, with N processes."),
    ] = None,
) -> None:
    """Stage 3: train the model, or resume training.

    Writes the model to RUN/model/. To end training early, use `mtkit finish`. All settings, such
    as training.warmup and model.heads, are explained by `mtkit info --config --explain`.
    Example: mtkit train --set training.warmup=2000 --set model.heads=8
    """
    with open_config(config, demo=demo, run=folder, overrides=overrides) as settings:
        if dry_run is not None:
            plugins.load_plugin("actions", "dry_run")(settings, dry_run)
            return
        from mtkit.training.train import train as train_model

        train_model(settings)


def finish(
    run: Annotated[
        Path | None, Argument(metavar="RUN", help=f"Run directory (default: {DEFAULT_RUN}).")
    ] = None,
) -> None:
    """End training early with the best checkpoint so far.

    Writes the model to RUN/model/ and scores the test set. A later `mtkit run` resumes training
    and replaces this model when training ends.
    Example: mtkit finish runs/latest
    """
    from mtkit.pipeline import finish_and_print

    finish_and_print(run)


def translate(
    text: Annotated[
        Path | None,
        Argument(metavar="INPUT", help="Text (or .gz, .zst), table or document (default: stdin)."),
    ] = None,
    models: Models = None,
    output: Annotated[
        Path | None, Option("-o", "--output", help="Output file (default: stdout).")
    ] = None,
    n_best: Annotated[
        int | None,
        Option(min=1, help="Write the N best translations as rows: line number, score, text."),
    ] = None,
    prefix: Annotated[
        Path | None,
        Option(metavar="FILE", help="Begin translation n with line n of FILE (blank: no prefix)."),
    ] = None,
    tag: Tag = None,
    source_tag: SourceTag = None,
    glossary: Glossary = None,
    columns: Annotated[
        str | None,
        Option(
            metavar="COLUMN",
            help="Translate this column of a table (name, letter or number), and add a column.",
        ),
    ] = None,
    sheet: Sheet = None,
    alignments: Annotated[
        bool, Option("--alignments", help="Append a tab and word alignments such as 0-0 1-2.")
    ] = False,
    jsonl: Annotated[
        bool,
        Option("--jsonl", help="Write a JSON object per line: score, subwords, confidence, flags."),
    ] = False,
    flags: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Write a JSON object per input line: confidence and flags.",
        ),
    ] = None,
    all_texts: Annotated[
        bool, Option("--all", help="Replace the translations that a document already has.")
    ] = False,
    min_confidence: Annotated[
        float | None,
        Option(min=0, max=1, help="Mark less confident translations in a document for review."),
    ] = None,
    memory: Annotated[
        list[Path] | None,
        Option(metavar="FILE", help="Reuse exact matches in a .tmx, .po or table; repeatable."),
    ] = None,
    device: Device = "auto",
    engine: Engine = "auto",
    compute_type: ComputeOption = "auto",
    workers: Annotated[
        int | None, Option(help="Batches translated in parallel (default: one per core).")
    ] = None,
    threads: Annotated[
        int | None, Option(help="Threads per worker (default: cores / workers).")
    ] = None,
    cluster: Cluster = None,
    sample: Annotated[
        bool, Option("--sample", help="Draw random translations, not the most probable.")
    ] = False,
    **settings: Any,
) -> None:
    """Stage 4: translate text, one line of output per line of input.

    A table gets a new column. In a document, such as a .po, only the texts change. The search
    options, such as --beam, default to the decoding settings of the model.
    Example: mtkit translate in.txt -o out.txt --beam 8
    """
    from mtkit.config.decoding import SamplingSettings

    if sample:
        searched = {name: settings[name] for name in ("beam", "length_penalty")}
        refuse("cannot be used with --sample", **searched)
    else:
        refuse("needs --sample", **{name: settings[name] for name in SamplingSettings.model_fields})
    from mtkit.corpus.files import refuse_misnamed_input, refuse_name
    from mtkit.corpus.importers import find_importer, name_suffixes
    from mtkit.decoding.api import load
    from mtkit.decoding.translate import Files, Format
    from mtkit.decoding.translate import translate as translate_files

    # Before a model is loaded.
    importer = None if text is None else find_importer(str(text), sheet)
    open_document = plugins.load_plugin("actions", "open_document")
    document = open_document(text, output, all_texts, min_confidence, memory or [])
    if document is not None:
        form_stays = "cannot be used with a document, whose form stays"
        refuse(form_stays, n_best=n_best, jsonl=jsonl, alignments=alignments, prefix=prefix)
    if importer is not None:
        importer.check_translation(str(text), columns, output)
    elif text is not None and document is None:
        refuse_name(str(text))
        refuse_misnamed_input(str(text))
    if columns is not None:
        one_each = "cannot be used with --columns, because each row gets one translation"
        refuse(one_each, n_best=n_best, jsonl=jsonl, alignments=alignments, prefix=prefix)
        if importer is None:
            raise UserError(f"--columns needs a table as INPUT: {name_suffixes()}")
    else:
        refuse("needs a table and --columns", sheet=sheet)
    files = Files(
        input=text,
        output=output,
        prefixes=prefix,
        column=columns,
        sheet=sheet,
        glossary=glossary,
        flags=flags,
        document=document,
    )
    stdin_is_keyboard = sys.stdin is not None and sys.stdin.isatty()
    if prefix and not text and stdin_is_keyboard:
        raise UserError("--prefix needs text from a file or a pipe, not from the keyboard")
    options = dict(
        engine=engine,
        compute_type=compute_type,
        workers=workers,
        threads=threads,
        n_best=n_best,
        sample=sample,
        alignments=alignments,
        scores=any((jsonl, n_best, flags, output, min_confidence)),
        tag=tag,
        source_tag=source_tag,
        glossary=glossary,
        **settings,
    )
    translator = load(models, device, **options)
    streams: AbstractContextManager[Any] = nullcontext()
    if cluster is not None:
        translate_on = plugins.load_plugin("actions", "translate_on_cluster")
        streams = translate_on(cluster, translator, {"device": device, **options})
    # The collector would look at all modules again and again: 6 % of the time of greedy search.
    gc.freeze()
    with streams as stream, report.writing_stdout() if output is None else nullcontext():
        translate_files(translator, files, Format(n_best, jsonl, alignments), stream)
