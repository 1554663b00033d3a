"""What to expect from a plan, in words: it depends on the pairs, their length and the epochs.

The limits were calibrated on runs of this machine's kind, see configs/RESULTS.md#mtkit-init.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Plan, choose_plan
from mtkit.report import plural


@dataclass(frozen=True)
class Expectation:
    """What a model can do, and how much it takes."""

    text: str
    min_pairs: int
    min_trainings: float
    """Least number of epochs, in units of `_least_epochs`."""


EXPECTATIONS = (
    Expectation("too little to translate", 0, 0.0),
    Expectation("the gist of short sentences like these", 0, 1.0),
    Expectation("enough for one kind of text; other text will be translated badly", 10_000, 3.0),
    Expectation("enough for a usable translator", 300_000, 3.0),
)
"""The levels, from low to high."""
MIN_EPOCHS = 2.5
"""Least epochs of a small corpus of short sentences, before a model translates at all."""
EPOCHS_PER_TOKEN = 1 / 6
"""Least epochs for each target token of a mean sentence: long sentences are harder."""
SMALL_PAIRS = 30_000
"""From this number of pairs on, fewer epochs do: half of them for four times the pairs."""
MINUTES_TO_TRY = (
    *(1, 2, 3, 5, 8, 10, 15, 20, 30, 45),
    *(60, 90, 120, 180, 240, 360, 480, 720, 1440),
    *(2880, 5760, 10_000, 20_000, 50_000, 100_000),
)
"""Training times for which the level is computed, to find the one at which it changes."""


def describe_expectation(facts: CorpusFacts, plan: Plan, minutes: float) -> Iterator[str]:
    """Say what to expect of the plan, in which time more, and why it does not use all the time."""
    level = expected_level(facts, plan)
    text = f"expect: {plan.epochs:,.1f} epochs of {plural(facts.pairs, 'pair')}: {level.text}"
    higher = _next_level(facts, plan, minutes)
    if higher is not None:
        least_minutes, next_level = higher
        text += f"; from {least_minutes:,} minutes: {next_level.text}"
    elif level is not EXPECTATIONS[-1]:
        text += "; more pairs would help most"
    yield text
    if plan.has_spare_time:
        yield (
            f"{minutes:g} minutes are more than the run can use: after {plan.epochs:,.0f} epochs, "
            "the model would learn so few pairs by heart"
        )


def expected_level(facts: CorpusFacts, plan: Plan) -> Expectation:
    """Return the highest level for which pairs and epochs are enough."""
    trainings = plan.epochs / _least_epochs(facts.pairs, plan.trial.target_tokens)
    reached = [
        level
        for level in EXPECTATIONS
        if facts.pairs >= level.min_pairs and trainings >= level.min_trainings
    ]
    return reached[-1]


def _least_epochs(pairs: int, target_tokens: float) -> float:
    """Return after how many epochs a model is better than a look-up in the training data."""
    epochs = max(MIN_EPOCHS, EPOCHS_PER_TOKEN * target_tokens)
    return epochs * math.sqrt(min(1.0, SMALL_PAIRS / pairs))


def _next_level(facts: CorpusFacts, plan: Plan, minutes: float) -> tuple[int, Expectation] | None:
    """Return the least time to try that reaches a higher level; None if no time does."""
    level = expected_level(facts, plan)
    for more_minutes in MINUTES_TO_TRY:
        if more_minutes > minutes:
            longer = choose_plan(facts, plan.trial, float(more_minutes))
            next_level = expected_level(facts, longer)
            if EXPECTATIONS.index(next_level) > EXPECTATIONS.index(level):
                return more_minutes, next_level
    return None
