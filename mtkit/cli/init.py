"""`mtkit init`."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from typer import Argument, Option

from mtkit.cli.options import Columns, Languages, flag, of_fields

Files = tuple[Path, Path] | None


@dataclass(frozen=True)
class InitOptions:
    """What `mtkit init` can be told."""

    source: str = Argument(..., metavar="SOURCE", help="Text, a table or a dataset.")
    target: str | None = Argument(None, metavar="TARGET", help="Its translation, line by line.")
    minutes: float = Option(20.0, min=0.5, max=100_000, help="How long `mtkit run` may take.")
    output: Path = Option(Path("mtkit.yaml"), "-o", "--output", help="Config to write.")
    run: str | None = Option(None, help="Folder that the run is to write to.")
    columns: Columns = None
    languages: Languages = None
    valid: Files = Option(None, metavar="S T", help="Pairs for validation that exist already.")
    test: Files = Option(None, metavar="S T", help="Pairs for the test that exist already.")
    force: bool = flag("--force", help="Replace what is there.")


@of_fields
def init(options: InitOptions) -> None:
    """Write a config from a corpus and the minutes there are.

    Looks at the text, holds out pairs for validation and test, measures for some seconds how fast
    this machine trains, and says what to expect. Then: mtkit run
    """
    from mtkit.batching.corpus.named import named_corpus
    from mtkit.config.corpora import TextCorpus
    from mtkit.study.init.init import Wish, init

    def text(files: Files) -> TextCorpus | None:
        return files and TextCorpus(source=str(files[0]), target=str(files[1]))

    init(
        Wish(
            corpus=named_corpus(options.source, options.target, options.columns),
            minutes=options.minutes,
            output=options.output,
            languages=options.languages or (None, None),
            command=shlex.join(["mtkit", *sys.argv[1:]]),
            run=options.run,
            valid=text(options.valid),
            test=text(options.test),
            force=options.force,
        )
    )
