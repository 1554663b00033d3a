"""Learning rate schedules follow the formulas they are named after."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import get_args

import pytest

from mtkit.artifacts.recipe import checkpoint_recipe
from mtkit.config.schedules import (
    AnySchedule,
    Cosine,
    InverseSqrt,
    Noam,
    Plateau,
    Schedule,
    ScheduleInputs,
    StepDecay,
)
from mtkit.config.settings import Config

INPUTS = ScheduleInputs(warmup=100, total_steps=1000, d_model=512)
SCHEDULES: list[Schedule] = [
    Noam(),
    InverseSqrt(peak=0.5),
    Cosine(peak=0.5),
    Plateau(peak=0.5),
    StepDecay(peak=0.5, start=300, every=50),
]


def rate(step: int, schedule: Schedule, losses: list[tuple[int, float]] | None = None) -> float:
    return schedule.rate(step, replace(INPUTS, validations=losses or []))


def test_every_schedule_is_tested() -> None:
    assert [*map(type, SCHEDULES)] == [*get_args(get_args(AnySchedule)[0])]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.kind)
def test_a_schedule_declares_whether_it_depends_on_the_length_of_the_run(
    schedule: Schedule,
) -> None:
    twice = replace(INPUTS, total_steps=2000)
    rates = [(schedule.rate(step, INPUTS), schedule.rate(step, twice)) for step in range(1, 1001)]
    assert schedule.depends_on_length == any(one != other for one, other in rates)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda schedule: schedule.kind)
def test_only_a_schedule_that_depends_on_the_length_fixes_it(
    schedule: Schedule, fresh: Callable[..., Config]
) -> None:
    changes = [{"steps": steps, "schedule": schedule.model_dump()} for steps in (100, 200)]
    short, long = (checkpoint_recipe(fresh("transformer", training=it)) for it in changes)
    assert (short.resolved() != long.resolved()) == schedule.depends_on_length


def test_noam_is_the_equation_of_the_paper() -> None:
    for step in (1, 50, 100, 101, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 100**-1.5)
        assert rate(step, Noam()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("schedule", SCHEDULES[1:], ids=lambda schedule: schedule.kind)
def test_warmup_is_linear_and_ends_at_the_peak(schedule: Schedule) -> None:
    assert [rate(step, schedule) for step in (1, 25, 50, 100)] == pytest.approx(
        [0.005, 0.125, 0.25, 0.5]
    )
    rates = [rate(step, schedule) for step in range(1, 1001)]
    assert max(rates) == rates[99]


def test_inverse_sqrt_decays_with_the_root_of_the_step() -> None:
    assert rate(400, InverseSqrt(peak=0.5)) == pytest.approx(0.25)
    # Noam is inverse_sqrt with a peak of (d_model · warmup)^-0.5.
    same = InverseSqrt(peak=(512 * 100) ** -0.5)
    assert rate(777, same) == pytest.approx(rate(777, Noam()))


def test_cosine_is_half_way_in_the_middle_and_at_its_floor_at_the_end() -> None:
    schedule = Cosine(peak=0.5, floor=0.1)
    assert rate(550, schedule) == pytest.approx(0.3)
    assert rate(1000, schedule) == pytest.approx(0.1)
    assert rate(2000, schedule) == pytest.approx(0.1)


def test_step_decay_halves_from_its_start_on() -> None:
    schedule = StepDecay(peak=0.8, factor=0.5, start=300, every=50)
    assert [rate(step, schedule) for step in (299, 300, 349, 350, 400)] == pytest.approx(
        [0.8, 0.4, 0.4, 0.2, 0.1]
    )


def test_plateau_decays_after_patience_validations_without_a_new_best() -> None:
    schedule = Plateau(peak=0.8, factor=0.5, patience=2)
    losses = [(200, 3.0), (300, 2.0), (400, 2.1), (500, 2.0), (600, 1.9), (700, 2.0), (800, 2.0)]
    assert rate(500, schedule, losses) == pytest.approx(0.8)  # 400 is one without a new best
    assert rate(501, schedule, losses) == pytest.approx(0.4)
    assert rate(701, schedule, losses) == pytest.approx(0.4)
    assert rate(801, schedule, losses) == pytest.approx(0.2)


def test_a_validation_counts_only_from_the_step_after_it() -> None:
    schedule = Plateau(peak=0.8, patience=1)
    losses = [(200, 1.0), (300, math.inf)]
    assert rate(300, schedule, losses) == pytest.approx(0.8)
    assert rate(301, schedule, losses) == pytest.approx(0.4)
