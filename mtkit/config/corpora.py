"""Corpora as a config names them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Discriminator, Field, PositiveFloat, Tag

from mtkit.config.base import Paths, Settings


class TextCorpus(Settings):
    """Two line-parallel text files (or two equally long lists of them), plain or .gz."""

    source: Paths
    target: Paths
    weight: PositiveFloat = Field(1.0, description="times each pair is seen per epoch")


class TableCorpus(Settings):
    """.tsv or .jsonl files, plain or .gz; a TSV column is a number from 0, a JSONL one a key."""

    table: Paths
    source_column: str | int = 0
    target_column: str | int = 1
    weight: PositiveFloat = 1.0


class DatasetCorpus(Settings):
    """A dataset of the Hugging Face hub, or a local folder that `datasets` can load."""

    dataset: str
    name: str | None = Field(None, description="configuration of the dataset, if it has several")
    split: str = "train"
    source_column: str = Field(description="column; inside a record with dots: translation.en")
    target_column: str
    weight: PositiveFloat = 1.0


def _corpus_kind(value: Any) -> str:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    if "dataset" in keys:
        return "DatasetCorpus"
    return "TableCorpus" if "table" in keys else "TextCorpus"


Corpus = Annotated[
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[DatasetCorpus, Tag("DatasetCorpus")],
    Discriminator(_corpus_kind),
]


def listed(corpora: Corpus | list[Corpus]) -> list[Corpus]:
    return corpora if isinstance(corpora, list) else [corpora]
