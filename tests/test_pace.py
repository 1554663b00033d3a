"""How long the rest of a task takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.progress import MAX_MARKS, Pace


def run(pace: Pace, seconds: list[float], pause: float = 0.0, done: int = 0) -> dict[int, float]:
    """Time left after each unit, where each takes so many `seconds`; `done` were there before."""
    now, left = 100.0, {}
    pace.note(done, now)
    for count, taken in enumerate(seconds, done + 1):
        now += taken
        pace.note(count, now)
        if (found := pace.left()) is not None:
            left[count] = found
        if pace.pause_every and (count % pace.pause_every == 0 or count == pace.total):
            now += pause
            pace.paused(pause)
    return left


def rest(pace: Pace, seconds: list[float], pause: float, count: int) -> float:
    """What is still to come after `count` units, the pause that is due then included."""
    every = pace.pause_every or pace.total + 1
    due = range(max(count, 1), pace.total + 1)
    pauses = sum(unit % every == 0 or (unit == pace.total and pause > 0) for unit in due)
    return sum(seconds[count:]) + pauses * pause


@given(st.integers(2, 400), st.integers(1, 50), st.floats(0.001, 1e4), st.floats(0, 1e4))
def test_at_an_even_pace_it_is_exact_once_a_pause_is_known(
    total: int, every: int, unit: float, pause: float
) -> None:
    pace, seconds = Pace(total, every), [unit] * total
    for count, left in run(pace, seconds, pause).items():
        if every < count < total and count % every:
            assert left == pytest.approx(rest(pace, seconds, pause, count), rel=1e-6)


@pytest.mark.parametrize("other_work", [(0.0, 0.3), (0.1, 0.4), (0.0, 0.05)])
def test_other_work_that_ended_is_forgotten(other_work: tuple[float, float]) -> None:
    begin, end = (round(10_000 * share) for share in other_work)
    seconds = [2.5 if begin <= unit < end else 1.0 for unit in range(10_000)]
    pace = Pace(10_000, 1000)
    left = run(pace, seconds, 30.0)
    for count in range(3 * end + 100, 9000, 500):
        assert left[count] == pytest.approx(rest(pace, seconds, 30.0, count), rel=0.15)


def test_what_was_done_before_says_nothing_of_the_pace() -> None:
    assert run(Pace(1000), [1.0] * 10, done=900)[910] == pytest.approx(90.0)


def test_nothing_is_said_before_anything_is_done_and_memory_is_bounded() -> None:
    pace = Pace(10**6)
    assert pace.left() is None
    pace.note(0, 1.0)
    assert pace.left() is None
    for count in range(1, 5000):
        pace.note(count, 1.0 + count)
    assert len(pace._marks) <= MAX_MARKS
    assert pace.left() == pytest.approx(10**6 - 4999, rel=1e-3)
