"""What flags and confidence depend on: a translated line, and what the training data showed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from mtkit.artifacts.records import Names, NotStored
from mtkit.corpus.statistics import CorpusStatistics
from mtkit.decoding.estimation.bigrams import SeenBigrams


@dataclass(frozen=True)
class TranslatedLine:
    """A line and its translation, and what the search knows of them."""

    source: str
    """The line, normalised as lines of corpora are."""
    text: str
    """The translation."""
    letters: int
    """Number of letters in the line that should be translated, so without those of URLs."""
    is_finished: bool = True
    """Whether no part of the translation was cut at `max_length`."""
    lost: Sequence[str] = ()
    """URLs, placeholders, tags and the like in the line that the translation lacks."""
    missing_terms: Sequence[str] = ()
    """What terms of the glossary in the line should have become, and the translation lacks."""
    has_placeholder: bool = False
    """Whether the model has read a stand-in for something in the line."""
    source_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """The subword ids of each part of the line that the model read.

    None: the line was copied.
    """
    target_parts: Sequence[Sequence[int]] = field(default=(), repr=False)
    """The subword ids of the translation of each part."""
    log_probability: float | None = None
    """log P of all parts together; None if it is unknown."""

    @property
    def is_copied(self) -> bool:
        """Whether no part of the line went through the model."""
        return not self.source_parts


@dataclass(frozen=True)
class TrainingFacts:
    """What the translation of a line is compared with."""

    statistics: CorpusStatistics
    """The usual length ratio, scripts and languages."""
    source_bigrams: NotStored[SeenBigrams]
    target_bigrams: NotStored[SeenBigrams]
    max_unseen_share: Annotated[float, Field(ge=0, le=1)]
    """Largest share of unseen subword pairs in a source that is like the training data."""
    unreliable_flags: Names = frozenset()
    """Names of flags that too many of the corpus's own translations would have."""
    stand_in: str = ""
    """The word that the model reads best in place of a placeholder; "" if that is unknown."""
    stand_in_translation: str = ""
    """What usually translates the stand-in; if the stand-in is unknown, "" too."""
