"""Commands for a new corpus: `check` and `init`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from mtkit.cli.options import Columns, Json, Languages, Sheet, refuse
from mtkit.errors import UserError
from mtkit.plugins import load_plugin
from mtkit.report import plural, say

if TYPE_CHECKING:
    from mtkit.config.corpora import Corpus
    from mtkit.corpus.check import NamedCorpora

SOURCE_HELP = "Source text; or a table or dataset that contains source and target."
Target = Annotated[
    str | None, Argument(metavar="TARGET", help="Target text: line n translates line n of SOURCE.")
]


def check(
    source: Annotated[str | None, Argument(metavar="SOURCE", help=SOURCE_HELP)] = None,
    target: Target = None,
    columns: Columns = None,
    sheet: Sheet = None,
    config: Annotated[
        Path | None,
        Option("-c", "--config", help="YAML config: check all its corpora, not SOURCE and TARGET."),
    ] = None,
    languages: Languages = None,
    rows: Annotated[
        Path | None,
        Option("--rows", metavar="FILE.csv", help="Write every faulty pair, with its reasons."),
    ] = None,
    json: Json = False,
) -> None:
    """Check a corpus and show examples of what is wrong.

    Finds encoding errors, duplicate pairs, text in other languages, and misaligned files. With -c
    it also checks whether training, validation and test data overlap. The exit code is 2 if a
    check fails. To correct a table, --rows lists its faulty rows.
    Example: mtkit check train.en train.fr
    """
    if (source is None) == (config is None):
        raise UserError("check: give either SOURCE and TARGET, or a config with -c")
    from mtkit.corpus.check import check_all, open_corpora
    from mtkit.corpus.summary import corpora_of, show_reports

    batching = None
    corpora: NamedCorpora
    declared: tuple[str | None, str | None]
    if config is None:
        corpus = named_corpus(str(source), target, columns, languages, sheet)
        corpora = {"train": corpus}
        declared = languages or declared_languages(corpus)
    else:
        why = "cannot be used with -c, because the config gives sheets and columns"
        refuse(why, columns=columns, sheet=sheet)
        from mtkit.config.yaml import read_config

        settings, _ = read_config(config, [], None)
        corpora = corpora_of(settings)
        declared = languages or (None, settings.data.target_language)
        batching = settings.batching
    if rows is not None:
        _check_rows_file(rows, corpora)
    with open_corpora(corpora) as texts:
        reports = check_all(texts, declared)
        if rows is not None:
            from mtkit.artifacts.output import open_output

            write_rows = load_plugin("actions", "write_faulty_rows")
            with open_output(rows) as (file, _):
                count = write_rows(file, texts, reports)
            say(f"{rows}: {plural(count, 'faulty pair')}")
    show_reports(reports, batching, as_json=json)


def _check_rows_file(path: Path, corpora: NamedCorpora) -> None:
    """Raise UserError if faulty rows cannot be written to a file, before corpora are checked."""
    from mtkit.artifacts.output import check_output
    from mtkit.config.corpora import listed
    from mtkit.corpus.read import paths_of

    if path.suffix.lower() != ".csv":
        raise UserError(f"--rows: {path}: choose a name that ends in .csv")
    texts = [corpus for part in corpora.values() for corpus in listed(part)]
    check_output(path, [file for corpus in texts for file in paths_of(corpus)])


def init(
    source: Annotated[str, Argument(metavar="SOURCE", help=SOURCE_HELP)],
    target: Target = None,
    more: Annotated[
        list[str] | None,
        Argument(metavar="MORE", help="With --tags: the other corpora, one for each tag."),
    ] = None,
    tags: Annotated[
        list[str] | None,
        Option(
            metavar="TAG...",
            help="Several languages in one model: the tag of each corpus, such as --tags yor hau.",
        ),
    ] = None,
    minutes: Annotated[
        float,
        Option(
            min=0.5, max=100_000, help="Time that `mtkit run` may take, in minutes (default: 20)."
        ),
    ] = 20.0,
    output: Annotated[
        Path, Option("-o", "--output", help="Config file to write (default: mtkit.yaml).")
    ] = Path("mtkit.yaml"),
    run: Annotated[
        str | None,
        Option(metavar="DIR", help="Run directory (default: runs/ and the name of the config)."),
    ] = None,
    columns: Columns = None,
    sheet: Sheet = None,
    languages: Languages = None,
    valid: Annotated[
        tuple[Path, Path] | None,
        Option(metavar="S T", help="Validation set; name a table twice (default: held out)."),
    ] = None,
    test: Annotated[
        tuple[Path, Path] | None,
        Option(metavar="S T", help="Test set; name a table twice (default: held out)."),
    ] = None,
    base: Annotated[
        str | None,
        Option("--from", metavar="MODEL", help="Fine-tune this run or model, the base model."),
    ] = None,
    keep: Annotated[
        tuple[Path, Path] | None,
        Option(
            metavar="S T",
            help="With --from: text on which MODEL must not get worse; name a table twice "
            "(default: its validation set).",
        ),
    ] = None,
    new_vocabulary: Annotated[
        bool,
        Option(
            "--new-vocabulary",
            help="With --from: add subwords of the new text (default: only if a model of another "
            "language lacks its letters, or over 5 % are missing).",
        ),
    ] = False,
    force: Annotated[
        bool, Option("--force", help="Overwrite an existing config and its data folder.")
    ] = False,
) -> None:
    """Write a config for a corpus and a training time.

    Checks the corpus, holds out validation and test pairs, measures how fast this machine trains,
    and forecasts the time. Then start training with `mtkit run`. For several languages in one
    model, give several corpora, and the tag of each with --tags. With --from, `mtkit run`
    fine-tunes a base model on the corpus, and limits what the model forgets.
    Example: mtkit init train.en train.fr --minutes 20
    """
    if base is None:
        refuse("needs --from, a base model", keep=keep, new_vocabulary=new_vocabulary)
    words = [word for word in (source, target, *(more or [])) if word is not None]
    if tags:
        why = "is for one corpus; with --tags, `init` holds out pairs of each corpus"
        refuse(why, valid=valid, test=test)
        refuse("is for one corpus; with --tags, languages are identified", languages=languages)
        corpora = _tagged_corpora(words, tags, columns, sheet)
    else:
        if more:
            raise UserError(
                f"init: {len(words)} files; for several languages in one model, give the tag of "
                "each corpus, such as --tags yor hau"
            )
        corpora = [named_corpus(source, target, columns, languages, sheet)]
    from mtkit.init.init import init as init_corpus
    from mtkit.init.proposal import InitOptions

    if len(corpora) > 1:
        refuse("is for one language; for several, write data.keep with tags", keep=keep)
    named: dict[str, Corpus] = {}
    for part, files in (("valid", valid), ("test", test), ("keep", keep)):
        if files is None:
            continue
        first, second = map(str, files)
        if first == second:
            named[part] = named_corpus(first, None, columns, languages, sheet)
        else:
            named[part] = named_corpus(first, second, None)
    if "keep" in named:
        tag = corpora[0].target_tag
        named["keep"] = named["keep"].model_copy(update={"target_tag": tag})
    options = InitOptions(
        corpora=corpora,
        minutes=minutes,
        output=output,
        languages=languages or declared_languages(corpora[0]),
        command=shlex.join(["mtkit", *sys.argv[1:]]),
        run=run,
        keep=named.pop("keep", None),
        existing=named,
        base=base,
        new_vocabulary=new_vocabulary,
        force=force,
    )
    init_corpus(options)


def _tagged_corpora(
    words: list[str], tags: list[str], columns: tuple[str, str] | None, sheet: str | None
) -> list[Corpus]:
    """Return a corpus for each tag: of one table or dataset each, or of two text files each.

    Raises:
        UserError: it is unclear which files belong to a tag, or two tags are equal.
    """
    from mtkit.config.target_tags import standard_tag

    names: list[str] = []
    for tag in tags:
        try:
            names.append(standard_tag(tag))
        except ValueError as error:
            raise UserError(f"--tags: {error}") from None
    if len(set(names)) < len(names):
        raise UserError("--tags: two tags are equal; give each corpus another tag")
    per_tag, rest = divmod(len(words), len(names))
    if rest or per_tag not in (1, 2):
        raise UserError(
            f"--tags: {plural(len(names), 'tag')} for {plural(len(words), 'file')}; give one table "
            "for each tag, or a source and a target text for each, and --tags after them"
        )
    corpora: list[Corpus] = []
    for number, name in enumerate(names):
        source, *target = words[number * per_tag : (number + 1) * per_tag]
        corpus = named_corpus(source, target[0] if target else None, columns, sheet=sheet)
        corpora.append(corpus.model_copy(update={"target_tag": name}))
    return corpora


def named_corpus(
    source: str,
    target: str | None,
    columns: tuple[str, str] | None,
    languages: tuple[str, str] | None = None,
    sheet: str | None = None,
) -> Corpus:
    """Return the corpus: two text files, a table or a dataset; UserError if this is unclear.

    The columns of a translation memory are its languages.
    """
    from mtkit.config.corpora import DatasetCorpus, TableCorpus, TextCorpus

    if target is not None:
        why = "is only for a table or dataset, not for two text files"
        refuse(why, columns=columns, sheet=sheet)
        from mtkit.corpus.importers import find_importer

        importers = [find_importer(source), find_importer(target)]
        are_tables = all(
            importer is not None and importer.has_both_sides(path)
            for importer, path in zip(importers, (source, target), strict=True)
        )
        if are_tables:
            raise UserError(
                f"{source} and {target} are tables, which hold both sides; give one of them, or "
                "both for several languages in one model with a tag each, such as --tags yor hau"
            )
        return TextCorpus(source=source, target=target)
    from mtkit.corpus.files import refuse_misnamed_table, refuse_name
    from mtkit.corpus.importers import find_importer, name_suffixes

    importer = find_importer(source, sheet)
    if importer is not None:
        first, second = importer.choose_columns(source, columns, languages)
        return TableCorpus(table=source, source_column=first, target_column=second, sheet=sheet)
    refuse_name(source)
    if Path(source).is_file():
        refuse_misnamed_table(source)
    if columns is None:
        raise UserError(
            f"{source}: give TARGET, too, or --columns S T if this is a dataset; the name of a "
            f"table ends in {name_suffixes()}"
        )
    return DatasetCorpus(dataset=source, source_column=columns[0], target_column=columns[1])


def declared_languages(corpus: Corpus) -> tuple[str | None, str | None]:
    """Return the languages that the columns of a table are named after; otherwise none."""
    from mtkit.config.corpora import TableCorpus
    from mtkit.corpus.importers import find_importer

    if not isinstance(corpus, TableCorpus):
        return None, None
    importer = find_importer(str(corpus.table))
    if importer is None:
        return None, None
    return importer.languages_of((corpus.source_column, corpus.target_column))
