"""What the training data showed: facts that a model brings along for its flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mtkit.corpus.statistics import CorpusStatistics
from mtkit.decoding.estimation.bigrams import SeenBigrams


@dataclass(frozen=True)
class TrainingFacts:
    """What the translation of a line is compared with."""

    statistics: CorpusStatistics
    """The usual length ratio, scripts and languages."""
    source_bigrams: SeenBigrams
    target_bigrams: SeenBigrams
    max_unseen_share: float
    """Largest share of unseen subword pairs in a source that is like the training data."""
    unreliable_flags: frozenset[str] = frozenset()
    """Names of flags that too many of the corpus's own translations would have."""

    def record(self) -> dict[str, Any]:
        """Return the facts as JSON, without the subword pairs."""
        return {
            "statistics": self.statistics.record(),
            "max_unseen_share": self.max_unseen_share,
            "unreliable_flags": sorted(self.unreliable_flags),
        }

    @classmethod
    def from_record(
        cls, record: Mapping[str, Any], source_bigrams: SeenBigrams, target_bigrams: SeenBigrams
    ) -> TrainingFacts:
        """Restore the facts from the JSON of `record`.

        Raises:
            KeyError, TypeError, ValueError: the record is damaged.
        """
        return cls(
            statistics=CorpusStatistics.from_record(record["statistics"]),
            source_bigrams=source_bigrams,
            target_bigrams=target_bigrams,
            max_unseen_share=float(record["max_unseen_share"]),
            unreliable_flags=frozenset(map(str, record["unreliable_flags"])),
        )
