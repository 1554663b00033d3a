"""What validations said so far: which was best, and whether it is time to stop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mtkit.config.settings import Metric

LOWER_IS_BETTER: frozenset[Metric] = frozenset({"loss", "perplexity"})


@dataclass(frozen=True)
class Validation:
    """The model at `step`: nats per target token (no smoothing), and scores of decoded text."""

    step: int
    loss: float
    perplexity: float
    bleu: float | None = None
    chrf: float | None = None

    def key(self, metric: Metric) -> float:
        """Smaller is better, whatever the metric."""
        value = getattr(self, metric)
        return float(value) if metric in LOWER_IS_BETTER else -float(value)


def rank(validations: Sequence[Validation], metric: Metric) -> list[Validation]:
    """Best first; the earlier of equals first."""
    return sorted(validations, key=lambda validation: validation.key(metric))


def is_stalled(validations: Sequence[Validation], metric: Metric, patience: int | None) -> bool:
    """Whether the last `patience` validations brought no new best."""
    if patience is None or not validations:
        return False
    best = rank(validations, metric)[0]
    return len(validations) - 1 - validations.index(best) >= patience
