"""Learning rates against the formulas they are named after."""

from __future__ import annotations

import math

import pytest

from mtkit.config.settings import Cosine, InverseSqrt, Learning, Noam, Plateau, Schedule, StepDecay
from mtkit.training.schedules import learning_rate


def rate(step: int, schedule: Schedule, losses: list[tuple[int, float]] | None = None) -> float:
    return learning_rate(step, Learning(schedule=schedule, warmup=100), 512, 1000, losses or [])


def test_noam_is_the_equation_of_the_paper() -> None:
    for step in (1, 50, 100, 101, 100_000):
        expected = 512**-0.5 * min(step**-0.5, step * 100**-1.5)
        assert rate(step, Noam()) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    "schedule",
    [
        InverseSqrt(peak=0.5),
        Cosine(peak=0.5),
        Plateau(peak=0.5),
        StepDecay(peak=0.5, start=300, every=50),
    ],
)
def test_warmup_is_linear_and_ends_at_the_peak(schedule: Schedule) -> None:
    assert [rate(step, schedule) for step in (1, 25, 50, 100)] == pytest.approx(
        [0.005, 0.125, 0.25, 0.5]
    )
    rates = [rate(step, schedule) for step in range(1, 1001)]
    assert max(rates) == rates[99]


def test_inverse_sqrt_falls_with_the_root_of_the_step() -> None:
    assert rate(400, InverseSqrt(peak=0.5)) == pytest.approx(0.25)
    # Noam is inverse_sqrt with a peak of (d_model · warmup)^-0.5.
    same = InverseSqrt(peak=(512 * 100) ** -0.5)
    assert rate(777, same) == pytest.approx(rate(777, Noam()))


def test_cosine_reaches_its_floor_at_the_last_step_and_the_middle_half_way() -> None:
    schedule = Cosine(peak=0.5, floor=0.1)
    assert rate(550, schedule) == pytest.approx(0.3)
    assert rate(1000, schedule) == pytest.approx(0.1)
    assert rate(2000, schedule) == pytest.approx(0.1)


def test_step_decay_halves_from_its_start_on() -> None:
    schedule = StepDecay(peak=0.8, factor=0.5, start=300, every=50)
    assert [rate(step, schedule) for step in (299, 300, 349, 350, 400)] == pytest.approx(
        [0.8, 0.4, 0.4, 0.2, 0.1]
    )


def test_plateau_falls_after_patience_validations_without_a_new_best() -> None:
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
