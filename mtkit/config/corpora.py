"""Corpora as a config names them: text files, tables, or datasets."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Discriminator, Field, Tag

from mtkit.config.base import Paths, Settings
from mtkit.config.target_tags import TargetTag


def _check_word(tag: str | None) -> str | None:
    if tag and tag.split() != [tag]:
        raise ValueError(f"expected one word, such as <bt>, found {tag!r}")
    return tag


MAX_WEIGHT = 10_000
Weight = Annotated[
    float, Field(gt=0, le=MAX_WEIGHT, description="how often an epoch contains each pair")
]
SourceTag = Annotated[
    str | None,
    AfterValidator(_check_word),
    Field(description="word such as <bt> that the model reads before each source, in training"),
]
LanguageOfTargets = Annotated[
    TargetTag | None,
    Field(
        description="target tag, for several languages in one model: name such as yor of the "
        "language of these targets, which `translate --tag` chooses"
    ),
]


class TextCorpus(Settings):
    """Two line-parallel text files (or two equally long lists of them), plain, .gz or .zst."""

    source: Paths = Field(description="source text, one sentence per line")
    target: Paths = Field(description="target text: line n translates line n of the source")
    weight: Weight = 1.0
    tag: SourceTag = None
    target_tag: LanguageOfTargets = None


class TableCorpus(Settings):
    """.csv, .tsv, .jsonl or .tmx files, plain, .gz or .zst; or spreadsheets, .xlsx or .ods.

    A column is a number from 0, a name in the header, or a letter such as C; in a .jsonl it is a
    key, and in a translation memory (.tmx) a language.
    """

    table: Paths = Field(description="table, or a list of tables with the same columns")
    source_column: str | int = Field(0, description="column of the source text")
    target_column: str | int = Field(1, description="column of the target text")
    sheet: str | None = Field(None, description="sheet of a spreadsheet (default: with the text)")
    weight: Weight = 1.0
    tag: SourceTag = None
    target_tag: LanguageOfTargets = None


class DatasetCorpus(Settings):
    """A dataset of the Hugging Face hub, or a local folder that `datasets` can load."""

    dataset: str = Field(description="name on the hub, or path of a local folder")
    name: str | None = Field(None, description="configuration of the dataset, if it has several")
    split: str = Field("train", description="part of the dataset, such as train or validation")
    source_column: str = Field(description="column; inside a record with dots: translation.en")
    target_column: str = Field(description="column; inside a record with dots: translation.de")
    weight: Weight = 1.0
    tag: SourceTag = None
    target_tag: LanguageOfTargets = None


def _corpus_kind(value: Any) -> str:
    settings = dict(value) if isinstance(value, dict | Settings) else {}
    if "dataset" in settings:
        return "DatasetCorpus"
    return "TableCorpus" if "table" in settings else "TextCorpus"


Corpus = Annotated[
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[DatasetCorpus, Tag("DatasetCorpus")],
    Discriminator(_corpus_kind),
]


def listed(corpora: Corpus | list[Corpus] | None) -> list[Corpus]:
    """Return one corpus, or several, as a list; None is no corpus."""
    if corpora is None:
        return []
    return corpora if isinstance(corpora, list) else [corpora]
