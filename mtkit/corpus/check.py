"""Looks at corpora and tells what was found, as a report for people or as JSON."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace

from mtkit.config.batching import Filtering
from mtkit.config.corpora import Corpus, listed
from mtkit.config.settings import Config
from mtkit.corpus.examination import Examination, SideReport
from mtkit.corpus.examine import examine
from mtkit.corpus.findings import Finding, Languages, Status
from mtkit.corpus.rules import held_out
from mtkit.errors import UserError
from mtkit.report import fitted, printable, show, table

WIDTH = 80
"""Cells of a line in a terminal."""
MARGIN = 8
"""Cells before what is told of a finding."""
REPAIRED = (
    "Repaired on reading: a byte order mark and carriage returns at line ends go, what is no "
    "UTF-8 becomes U+FFFD, a line over 1 MiB counts as blank. The tokenizer makes several spaces "
    "one and, unless its normalization is identity, writes what NFKC holds to be equal alike."
)
NOT_JUDGED = (
    "Not judged: whether a fluent sentence is the right translation; the language of a line of few "
    "words."
)

Corpora = Mapping[str, Corpus | list[Corpus]]
"""By their names in `data`: train, and valid and test where there are any."""


def corpora_of(config: Config) -> Corpora:
    """Return all corpora of a config by their names in `data`."""
    data = config.data
    corpora: dict[str, Corpus | list[Corpus]] = {"train": data.train, "valid": data.valid}
    return corpora if data.test is None else corpora | {"test": data.test}


def check(
    corpora: Corpora,
    languages: Languages = (None, None),
    filtering: Filtering | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Reports on each corpus; `languages`: codes that source and target are said to be in.

    `filtering`: what is switched on already.

    Raises UserError where a corpus cannot be read, and after the report where something failed.
    """
    on = filtering or Filtering()
    found = {name: examined(name, corpora, languages) for name in corpora}
    record = {name: {"failed": bool(one.failures), **asdict(one)} for name, one in found.items()}
    show(record, lambda _: _lines(found, on), as_json=as_json)
    failed = [f"{row.name} ({name})" for name, one in found.items() for row in one.failures]
    if failed:
        raise UserError(f"failed: {', '.join(failed)}: mend the corpus before anything is trained")


def examined(name: str, corpora: Corpora, languages: Languages) -> Examination:
    """One of the corpora, apart from those that are named after it; raises what `examine` raises.

    What is held out may be little, and no setting drops anything of it.
    """
    names = list(corpora)
    later = [corpora[other] for other in names[names.index(name) + 1 :]]
    kept_apart = held_out(corpus for listing in later for corpus in listed(listing))
    if name == "train":
        return examine(corpora[name], kept_apart, languages)
    found = examine(corpora[name], kept_apart, languages, enough=(1, 100))
    rows = [replace(row, setting=None) for row in found.findings]
    return replace(found, findings=rows, drop=[], deduplicate=False)


def _lines(found: Mapping[str, Examination], on: Filtering) -> Iterator[str]:
    for name, one in found.items():
        yield f"{name}: {one.pairs:,} pairs"
        yield ""
        yield from table(_sides(one.source, one.target))
        yield ""
        for status in ("passed", "warned", "failed"):
            yield from _of_status(status, [row for row in one.findings if row.status == status])
        yield from _worth(one, on)
    yield from textwrap.wrap(REPAIRED, WIDTH)
    yield from textwrap.wrap(NOT_JUDGED, WIDTH)


def _sides(source: SideReport, target: SideReport) -> Iterator[list[str]]:
    sides = source, target
    yield ["", "source", "target"]
    yield ["language", *(_language(side) for side in sides)]
    yield ["script", *(", ".join(map(str.title, side.scripts)) or "none" for side in sides)]
    for name in ("characters", "words", "unique"):
        yield [name, *(f"{getattr(side, name):,}" for side in sides)]
    yield ["median length", *(f"{side.median_characters:,.0f}" for side in sides)]


def _language(side: SideReport) -> str:
    if side.language is None:
        return "too few long lines"
    return f"{side.language}, {side.language_share:.0%} of lines"


def _of_status(status: Status, findings: list[Finding]) -> Iterator[str]:
    """Those in which nothing was found share a line; the others have one each, and examples."""
    indent = " " * MARGIN
    if clean := [row.name for row in findings if not (row.count or row.note)]:
        yield from textwrap.wrap(
            ", ".join(clean), WIDTH, initial_indent=f"{status:{MARGIN}}", subsequent_indent=indent
        )
    for row in findings:
        if row.name in clean:
            continue
        of = "" if row.judged < 2 else f" of {row.judged:,}"
        count = f": {row.count:,}{of}" if row.count else ""
        yield f"{status:{MARGIN}}{row.name}{count}"
        told = [row.note, f"{row.meaning}." if row.count else ""]
        told.append(f"Dropped by {row.setting}." if row.count and row.setting else "")
        for text in filter(None, told):
            yield from textwrap.wrap(
                printable(text), WIDTH, initial_indent=indent, subsequent_indent=indent
            )
        for example in row.examples if status != "passed" else []:
            yield f"{indent}  {example['where']}"
            for side in ("source", "target"):
                yield f"{indent}    {fitted(printable(example[side]), WIDTH - MARGIN - 4)}"
    if findings:
        yield ""


def _worth(one: Examination, on: Filtering) -> Iterator[str]:
    worth = ["  deduplicate: true"] if one.deduplicate and not on.deduplicate else []
    if not set(one.drop) <= set(on.drop):
        rules = Filtering(drop=[*on.drop, *one.drop]).drop
        worth.append(f"  drop: [{', '.join(rules)}]")
    if worth:
        yield "Worth switching on in the config:"
        yield "  batching:"
        yield from (f"  {line}" for line in worth)
        yield ""
