"""The command that looks at corpora before anything is made of them."""

from __future__ import annotations

from pathlib import Path

from typer import Argument, Option

from mtkit.cli.options import Json, Overrides, located
from mtkit.errors import UserError


def check(
    source: str | None = Argument(None, metavar="SOURCE", help="Text, a table or a dataset."),
    target: str | None = Argument(None, metavar="TARGET", help="Its translation, line by line."),
    columns: tuple[str, str] | None = Option(
        None, metavar="S T", help="Of a table or dataset; default: 0 1."
    ),
    config: Path | None = Option(
        None, "-c", "--config", help="Instead: all corpora of this YAML file."
    ),
    languages: tuple[str, str] | None = Option(
        None, metavar="S T", help="Codes of what the sides are to be in, such as en ko."
    ),
    overrides: Overrides = None,
    json: Json = False,
) -> None:
    """Examine a corpus: what is wrong in it, with examples.

    Faults of text, repeated and foreign lines, and files whose lines do not belong together. Ends
    with 2 where something failed. With -c also overlap of training, validation and test.
    """
    from mtkit.batching.check.check import check, corpora_of
    from mtkit.batching.corpus.named import named_corpus
    from mtkit.config.configfile import read_config
    from mtkit.config.languages import check_language
    from mtkit.decoding.written import writers

    for code in languages or ():
        try:
            check_language(code)
        except ValueError as error:
            raise UserError(f"--languages: {error}") from None
    if (source is None) == (config is None):
        raise UserError("check: give either SOURCE and TARGET, or -c CONFIG")
    if source is not None:
        if overrides:
            raise UserError("--set: only with -c")
        alone = {"train": named_corpus(source, target, columns)}
        check(alone, languages or (None, None), as_json=json)
        return
    if columns:
        raise UserError("--columns: only without -c, whose file names them")
    settings, origin = read_config(config, overrides or [], None)
    named = languages or (None, settings.data.target_language)
    with located(origin):
        list(writers(settings))
        corpora = corpora_of(settings)
    check(corpora, named, as_json=json)
