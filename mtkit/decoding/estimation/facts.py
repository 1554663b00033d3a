"""What the training data showed: facts that a model brings along for its flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from mtkit.artifacts.records import Names, NotStored
from mtkit.corpus.statistics import CorpusStatistics
from mtkit.decoding.estimation.bigrams import SeenBigrams


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
