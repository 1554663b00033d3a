"""How often people agree with a difference between the scores of two systems."""

from __future__ import annotations

import math

AGREEMENT = {"bleu": (0.883, 0.966), "chrf": (0.930, 1.114)}
"""Ceiling and slope of a logistic curve (Kocmi et al. 2024, "Navigating the Metrics Maze")."""


def agreement_with_people(key: str, difference: float) -> float:
    """Estimate how often people prefer the system that a metric of AGREEMENT prefers, 0.5 to 1."""
    ceiling, slope = AGREEMENT[key]
    return max(0.5, ceiling / (1 + math.exp(-slope * abs(difference))))
