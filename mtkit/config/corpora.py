"""Corpora as a config names them: text that is there, and text that a model is to write."""

from __future__ import annotations

from collections.abc import Collection
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, PositiveInt, Tag, model_validator

from mtkit.config.base import Paths, Settings
from mtkit.config.decoding import SamplingSettings

Weight = Annotated[float, Field(gt=0, le=10_000)]


class TextCorpus(Settings):
    """Two line-parallel text files (or two equally long lists of them), plain or .gz."""

    source: Paths
    target: Paths
    weight: Weight = Field(1.0, description="times each pair is seen per epoch")


class TableCorpus(Settings):
    """.tsv or .jsonl files, plain or .gz.

    A TSV column is a number from 0, or a name that the first line has; a JSONL one a key.
    """

    table: Paths
    source_column: str | int = 0
    target_column: str | int = 1
    weight: Weight = 1.0


class DatasetCorpus(Settings):
    """A dataset of the Hugging Face hub, or a local folder that `datasets` can load."""

    dataset: str
    name: str | None = Field(None, description="configuration of the dataset, if it has several")
    split: str = "train"
    source_column: str = Field(description="column; inside a record with dots: translation.en")
    target_column: str
    weight: Weight = 1.0


class Writing(Settings):
    """How a model writes text: what is not said here is as it was trained for."""

    choose_by: Literal["bleu", "chrf"] | None = Field(
        None, description="of n_best translations, the most like the target by this sentence score"
    )
    n_best: int | None = Field(
        None, ge=2, le=10_000, description="translations, or samples, that choose_by chooses from"
    )
    beam: PositiveInt | None = Field(None, le=10_000)
    sampling: SamplingSettings | None = Field(None, description="draws, instead of a search")

    @model_validator(mode="after")
    def _fit(self) -> Writing:
        if (self.choose_by is None) != (self.n_best is None):
            raise ValueError("choose_by and n_best go together: by what to choose, of how many")
        if self.beam and self.sampling:
            raise ValueError("beam is of a search, and sampling searches for nothing: set one")
        if self.beam and self.n_best and self.n_best > self.beam:
            raise ValueError(f"n_best: {self.n_best} of a beam of {self.beam}: raise the beam")
        return self


class WrittenCorpus(Writing):
    """Text of which a model, or an ensemble, writes the missing side before anything else is done.

    `source` alone: the target, by a model like this one (self-training, distillation); `target`
    alone: the source, by one of the other direction (back-translation); both: other targets.
    """

    source: Paths | None = None
    target: Paths | None = None
    model: Paths = Field(description="run or model folder; several are an ensemble")
    tag: str | None = Field(None, description="what is read before each source that was written")
    weight: Weight = 1.0

    @model_validator(mode="after")
    def _sides_fit(self) -> WrittenCorpus:
        if not (self.source or self.target):
            raise ValueError("a model writes, but for which text? set source, target or both")
        if self.source and self.target and not self.choose_by:
            raise ValueError(
                "source and target are both there: leave out the one that the model is to write, "
                "or set choose_by and n_best, and it writes targets like those"
            )
        if self.choose_by and not (self.source and self.target):
            raise ValueError("choose_by compares with the target: set source and target")
        if not self.model:
            raise ValueError("model: none is named that could write")
        if self.tag is not None and self.source:
            raise ValueError("tag marks sources that the model writes: set target alone")
        if self.tag is not None and self.tag.split() != [self.tag]:
            raise ValueError(f"tag: expected one word, such as <bt>, found {self.tag!r}")
        return self

    @property
    def sides(self) -> list[Literal["source", "target"]]:
        """Those that are there."""
        both: tuple[Literal["source"], Literal["target"]] = ("source", "target")
        return [side for side in both if getattr(self, side)]

    def as_given(self) -> TextCorpus:
        """The text that is there, in the place of a missing side as well."""
        source, target = self.source or self.target, self.target or self.source
        return TextCorpus(source=source or [], target=target or [])


class WrittenText(TextCorpus):
    """Such a corpus once it is written: no setting, but what stands in its place."""

    tag: str | None = None


def _corpus_kind(value: Any) -> str:
    keys = _keys(value)
    if "dataset" in keys:
        return "DatasetCorpus"
    return "TableCorpus" if "table" in keys else "TextCorpus"


def _training_kind(value: Any) -> str:
    of_written_alone = WrittenCorpus.model_fields.keys() - TextCorpus.model_fields.keys()
    return "WrittenCorpus" if of_written_alone & set(_keys(value)) else _corpus_kind(value)


def _keys(value: Any) -> Collection[str]:
    return value if isinstance(value, dict) else vars(value) if isinstance(value, Settings) else ()


_Pairs = (
    Annotated[TextCorpus, Tag("TextCorpus")]
    | Annotated[TableCorpus, Tag("TableCorpus")]
    | Annotated[DatasetCorpus, Tag("DatasetCorpus")]
)
Corpus = Annotated[_Pairs, Discriminator(_corpus_kind)]
TrainingCorpus = Annotated[
    _Pairs | Annotated[WrittenCorpus, Tag("WrittenCorpus")], Discriminator(_training_kind)
]


def listed(corpora: Corpus | list[Corpus]) -> list[Corpus]:
    return corpora if isinstance(corpora, list) else [corpora]
