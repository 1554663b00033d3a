"""chrF of two systems on the same lines, and the difference between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import NonNegativeInt

from mtkit.scoring.metrics import Score, compute_scores, resampling_obstacle
from mtkit.scoring.writing import Writing


@dataclass(frozen=True)
class BeforeAndAfter:
    """chrF of two systems on the same lines: of the given and of the adapted model.

    Copied sources are a given system, too, beside which any model is compared.
    """

    lines: NonNegativeInt
    given: Score
    adapted: Score
    """The score, with its difference from `given` and the p-value of the difference."""

    @classmethod
    def of(
        cls,
        given: Sequence[str],
        adapted: Sequence[str],
        references: Sequence[str],
        language: str | None,
    ) -> BeforeAndAfter:
        """Score the translations of both systems, and test the difference.

        With too few or too many lines for a test, the p-value is None. `language`: language of the
        target, if known.
        """
        can_be_tested = resampling_obstacle(len(references)) is None
        scores = compute_scores(
            {"given": given, "adapted": adapted},
            [references],
            Writing.of(language, references),
            test=can_be_tested,
            keys=["chrf"],
        )
        return cls(len(references), scores["given"]["chrf"], scores["adapted"]["chrf"])

    @property
    def difference(self) -> float:
        """What the adapted model gains, in points of chrF."""
        return self.adapted.value - self.given.value
