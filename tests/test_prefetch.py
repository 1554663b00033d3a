"""Prefetching: the same items in order, ahead by a bounded number, without threads left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import UserError
from mtkit.prefetch import prefetch


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


def test_prefetch_forwards_exceptions_in_their_place() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise UserError("train.en:2: the disk is gone")

    items = prefetch(failing())
    assert next(items) == 1
    with pytest.raises(UserError, match="the disk is gone"):
        next(items)
