"""What to expect from a plan, in words: it depends on the pairs, their length and the epochs.

The limits were calibrated on a few small corpora: configs/RESULTS.md#mtkit-init has the runs.
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
    min_trainings: float
    """Least number of epochs, in units of `_least_epochs`."""
    min_pairs: int = 0
    needs_pairs_for_length: bool = False
    """Whether it takes at least `_pairs_for_length`."""


EXPECTATIONS = (
    Expectation("too little to translate", 0.0),
    Expectation("hardly better than a look-up in the training data", 1.0),
    Expectation("the gist of sentences like these", 1.0, needs_pairs_for_length=True),
    Expectation(
        "enough for one kind of text; other text will be translated badly",
        3.0,
        min_pairs=10_000,
        needs_pairs_for_length=True,
    ),
    Expectation(
        "enough for a usable translator", 3.0, min_pairs=300_000, needs_pairs_for_length=True
    ),
)
"""The expectations, from low to high."""
MIN_EPOCHS = 2.5
"""Least epochs of a small corpus of short sentences, before a model translates at all."""
EPOCHS_PER_SQUARED_TOKEN = 1 / 144
"""Least epochs for each squared target token of a mean sentence: long sentences are harder."""
PAIRS_PER_SQUARED_TOKEN = 4.0
"""Least pairs for each squared target token, from which a model can learn the gist."""
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
    expected = expected_level(facts, plan)
    text = f"expect: {describe_level(facts, plan)}"
    higher = _next_level(facts, plan, minutes)
    if higher is not None:
        least_minutes, next_level = higher
        text += f"; from {least_minutes:,} minutes: {next_level.text}"
    pairs_for_length = round(_pairs_for_length(plan), -2)
    if facts.pairs < pairs_for_length:
        text += f"; for the gist, sentences this long need about {pairs_for_length:,.0f} pairs"
    elif higher is None and expected is not EXPECTATIONS[-1]:
        text += "; more pairs would help most"
    yield text
    if plan.has_spare_time:
        yield (
            f"{minutes:g} minutes are more than the run can use: after {plan.epochs:,.0f} epochs, "
            "the model would learn so few pairs by heart"
        )


def describe_level(facts: CorpusFacts, plan: Plan) -> str:
    """Return how much training the plan gives, and what a model of it can do."""
    expected = expected_level(facts, plan)
    return f"{plan.epochs:,.1f} epochs of {plural(facts.pairs, 'pair')}: {expected.text}"


def expected_level(facts: CorpusFacts, plan: Plan) -> Expectation:
    """Return the highest expectation for which pairs and epochs are enough."""
    trainings = plan.epochs / _least_epochs(facts, plan)
    has_pairs_for_length = facts.pairs >= _pairs_for_length(plan)
    reached = [
        level
        for level in EXPECTATIONS
        if trainings >= level.min_trainings
        and facts.pairs >= level.min_pairs
        and (has_pairs_for_length or not level.needs_pairs_for_length)
    ]
    return reached[-1]


def _least_epochs(facts: CorpusFacts, plan: Plan) -> float:
    """Return after how many epochs a model is better than a look-up in the training data."""
    epochs = max(MIN_EPOCHS, EPOCHS_PER_SQUARED_TOKEN * plan.trial.target_tokens**2)
    return epochs * math.sqrt(min(1.0, SMALL_PAIRS / facts.pairs))


def _pairs_for_length(plan: Plan) -> float:
    """Return how many pairs a model needs to learn the gist of sentences of this length."""
    return PAIRS_PER_SQUARED_TOKEN * plan.trial.target_tokens**2


def _next_level(facts: CorpusFacts, plan: Plan, minutes: float) -> tuple[int, Expectation] | None:
    """Return the smallest of MINUTES_TO_TRY that reaches a higher level, and that level.

    Return None if no time reaches one.
    """
    level = expected_level(facts, plan)
    for more_minutes in MINUTES_TO_TRY:
        if more_minutes > minutes:
            longer = choose_plan(facts, plan.trial, float(more_minutes))
            next_level = expected_level(facts, longer)
            if EXPECTATIONS.index(next_level) > EXPECTATIONS.index(level):
                return more_minutes, next_level
    return None
