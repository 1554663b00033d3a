"""The command that looks at corpora before anything is made of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from typer import Argument, Option

from mtkit.cli.options import Columns, Json, Languages, Overrides, located
from mtkit.errors import UserError

if TYPE_CHECKING:
    from mtkit.config.settings import Config


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
    from mtkit.batching.check.check import check, corpora_of
    from mtkit.batching.corpus.named import named_corpus

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
    settings = _looked_at(config, overrides or [])
    named = languages or (None, settings.data.target_language)
    check(corpora_of(settings), named, settings.batching, as_json=json)


def _looked_at(path: Path, overrides: list[str]) -> Config:
    """The config, with nothing in the way of the models that are to write for it."""
    from mtkit.config.configfile import read_config
    from mtkit.decoding.written import writers

    config, origin = read_config(path, overrides, None)
    with located(origin):
        list(writers(config))
    return config
