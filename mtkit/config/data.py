"""Settings of what is read, and of the first two stages: tokenizer and batches."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, NonNegativeInt, PositiveFloat, PositiveInt, Tag

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


class DataSettings(Settings):
    train: Corpus | list[Corpus]
    valid: Corpus
    test: Corpus | None = None
    target_language: str | None = Field(
        None, description="code such as ko: chooses the tokenization that scores are counted on"
    )


class TokenizerSettings(Settings):
    type: Literal["bpe", "unigram", "char"] = "bpe"
    vocab_size: int = Field(8000, ge=8, le=1_000_000)
    joint: bool = Field(True, description="one vocabulary for both sides")
    normalization: Literal["nmt_nfkc", "nfkc", "nmt_nfkc_cf", "nfkc_cf", "identity"] = "nmt_nfkc"
    byte_fallback: bool = Field(True, description="unseen characters become bytes, never <unk>")
    character_coverage: float = Field(0.9995, gt=0, le=1)
    sample_lines: PositiveInt = Field(2_000_000, description="lines per side it is trained on")


class Filtering(Settings):
    """Which pairs are kept: what the stored batches are known by."""

    max_length: int = Field(256, ge=2, le=65_534, description="subwords; longer pairs are dropped")
    max_ratio: float | None = Field(None, gt=1, description="longer / shorter side, in subwords")
    deduplicate: bool = Field(False, description="keep the first of equal pairs")


class BatchingSettings(Filtering):
    max_tokens: PositiveInt | Literal["auto"] = Field(
        4096, description="padded tokens of a batch, the longer side; auto: what memory holds"
    )
    workers: NonNegativeInt = Field(0, description="threads that encode; 0: one per core")
