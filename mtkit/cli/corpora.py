"""The commands that look at a corpus before anything is made of it: `check` and `init`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

from typer import Argument, Option

from mtkit.cli.options import Columns, Json, Languages, Overrides, flag
from mtkit.errors import UserError

if TYPE_CHECKING:
    from mtkit.config.corpora import Corpus

Files = tuple[Path, Path] | None


def check(
    source: str | None = Argument(None, metavar="SOURCE", help="Text, a table or a dataset."),
    target: str | None = Argument(None, metavar="TARGET", help="Its translation, line by line."),
    columns: Columns = None,
    config: Path | None = Option(
        None, "-c", "--config", help="Instead: all corpora of this YAML file."
    ),
    languages: Languages = None,
    overrides: Overrides = None,
    json: Json = False,
) -> None:
    """Examine a corpus: what is wrong in it, with examples.

    Faults of text, repeated and foreign lines, and files whose lines do not belong together. Ends
    with 2 where something failed. With -c also overlap of training, validation and test.
    """
    from mtkit.corpus.check import check, corpora_of

    if (source is None) == (config is None):
        raise UserError("check: give either SOURCE and TARGET, or -c CONFIG")
    if config is None:
        if overrides:
            raise UserError("--set: only with -c")
        corpus = named_corpus(str(source), target, columns)
        check({"train": corpus}, languages or (None, None), as_json=json)
        return
    if columns:
        raise UserError("--columns: only without -c, whose file names them")
    from mtkit.config.yaml import read_config

    settings, _ = read_config(config, overrides or [], None)
    named = languages or (None, settings.data.target_language)
    check(corpora_of(settings), named, settings.batching, as_json=json)


def init(
    source: str = Argument(..., metavar="SOURCE", help="Text, a table or a dataset."),
    target: str | None = Argument(None, metavar="TARGET", help="Its translation, line by line."),
    minutes: float = Option(20.0, min=0.5, max=100_000, help="How long `mtkit run` may take."),
    output: Path = Option(Path("mtkit.yaml"), "-o", "--output", help="Config to write."),
    run: str | None = Option(None, help="Folder that the run is to write to."),
    columns: Columns = None,
    languages: Languages = None,
    valid: Files = Option(None, metavar="S T", help="Pairs for validation that exist already."),
    test: Files = Option(None, metavar="S T", help="Pairs for the test that exist already."),
    force: bool = flag("--force", help="Replace what is there."),
) -> None:
    """Write a config from a corpus and the minutes there are.

    Looks at the text, holds out pairs for validation and test, measures for some seconds how fast
    this machine trains, and says what to expect. Then: mtkit run
    """
    from mtkit.config.corpora import TextCorpus
    from mtkit.study.init.init import Wish, init

    def text(files: Files) -> TextCorpus | None:
        return files and TextCorpus(source=str(files[0]), target=str(files[1]))

    init(
        Wish(
            corpus=named_corpus(source, target, columns),
            minutes=minutes,
            output=output,
            languages=languages or (None, None),
            command=shlex.join(["mtkit", *sys.argv[1:]]),
            run=run,
            valid=text(valid),
            test=text(test),
            force=force,
        )
    )


def named_corpus(source: str, target: str | None, columns: tuple[str, str] | None) -> Corpus:
    """Two texts, a table, or a dataset; UserError where it is not clear which."""
    from mtkit.config.corpora import DatasetCorpus, TableCorpus, TextCorpus

    if target is not None:
        if columns is not None:
            raise UserError("--columns: only of one table or dataset, not of two texts")
        return TextCorpus(source=source, target=target)
    suffix = PurePath(source.removesuffix(".gz")).suffix
    if suffix == ".tsv":
        first, second = columns or ("0", "1")
        if first.isdecimal() and second.isdecimal():
            return TableCorpus(table=source, source_column=int(first), target_column=int(second))
        return TableCorpus(table=source, source_column=first, target_column=second)
    if columns is None:
        raise UserError(
            f"{source}: name a second text, its translation; or --columns S T, where it is a "
            "table or a dataset"
        )
    if suffix == ".jsonl":
        return TableCorpus(table=source, source_column=columns[0], target_column=columns[1])
    return DatasetCorpus(dataset=source, source_column=columns[0], target_column=columns[1])
