"""Laws of items that another thread produces: their order, their end, and how many are ready."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from threading import Event

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.prefetch import Prefetcher, prefetch


def produced(upto: int, drawn: list[int]) -> Iterator[int]:
    for i in range(upto):
        drawn.append(i)
        yield i


@given(st.integers(0, 20), st.integers(1, 5))
def test_prefetch_gives_the_same_items(upto: int, ahead: int) -> None:
    assert list(prefetch(produced(upto, []), ahead)) == list(range(upto))


def test_prefetch_runs_ahead_by_as_much_as_asked() -> None:
    drawn: list[int] = []
    items = prefetch(produced(100, drawn), 3)
    assert [next(items) for _ in range(10)] == list(range(10))
    assert len(drawn) <= 10 + 3 + 1  # and the one that waits for room
    items.close()  # type: ignore[attr-defined]


def test_prefetch_works_before_anybody_asks_for_more() -> None:
    made = threading.Event()

    def items() -> Iterator[int]:
        yield from range(3)
        made.set()
        yield 3

    ahead = prefetch(items(), 3)
    assert next(ahead) == 0
    assert made.wait(60)
    assert list(ahead) == [1, 2, 3]


@pytest.mark.parametrize("taken", [0, 1, 50])
def test_prefetch_leaves_no_thread_behind(taken: int) -> None:
    before = threading.active_count()
    items = prefetch(produced(10_000, []), 2)
    for _ in range(taken):
        next(items)
    items.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_items_come_in_order_and_end_alike() -> None:
    items = Prefetcher(range(100))
    assert [items.take(1) for _ in range(101)] == [*([it] for it in range(100)), []]

    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("two")

    items = Prefetcher(failing())
    assert items.take(1) == [1]
    for _ in range(2):
        with pytest.raises(KeyError, match="two"):
            items.take(1)
        assert items.ready_within(60.0)


def test_no_more_items_are_produced_than_there_is_room_for() -> None:
    made: list[int] = []
    gate = Event()

    def making() -> Iterator[int]:
        for number in range(1000):
            made.append(number)
            yield number
            if number == 1:
                gate.wait()

    items = Prefetcher(making())
    assert items.take(1) == [0] and items.take(1) == [1]
    assert not items.ready_within(0.01)
    gate.set()
    assert items.take(1) == [2]
    items.close()
    items.thread.join()
    assert len(made) <= 5


def test_as_many_items_are_taken_as_wanted_or_as_arrive_in_time() -> None:
    gate = Event()

    def making() -> Iterator[int]:
        yield from range(70)
        gate.wait()
        yield from range(70, 80)

    items = Prefetcher(making(), 50)
    assert items.take(30, 60.0) == list(range(30))
    assert items.take(30, 60.0) == list(range(30, 60))
    assert items.take(30, 0.01) == list(range(60, 70))
    gate.set()
    assert items.take(30, 60.0) == list(range(70, 80))
    assert items.take(30, 60.0) == []


def test_large_items_count_as_several() -> None:
    items = Prefetcher(["a", "bbbb", "c", "d"], 5, len)
    assert items.take(4, 60.0) == ["a", "bbbb"]
    assert items.take(4, 60.0) == ["c", "d"]
