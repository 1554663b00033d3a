"""Items that are made, or arrive, while those before them are dealt with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
MOMENT = 0.02
"""Seconds; a window that is there to be read takes less."""


class Ahead(Iterator[Item]):
    """The same items, of which another thread makes `count` ahead, and one that waits for room.

    What the making raises, the one that asks for the item gets.
    """

    def __init__(self, items: Iterable[Item], count: int = 1) -> None:
        self._made: Queue[tuple[Item] | BaseException] = Queue(count)
        self._first: tuple[Item] | BaseException | None = None
        self._unwanted = Event()
        # Nobody waits for it at the end of the process: it may be waiting for a line of input.
        self.thread = Thread(target=self._make, args=[items], daemon=True)
        self.thread.start()

    def __next__(self) -> Item:
        found, self._first = self._first or self._made.get(), None
        if isinstance(found, BaseException):
            self._first = found  # for whoever asks again
            raise found
        return found[0]

    def is_soon(self) -> bool:
        """Whether the next item, or the end, is there within a MOMENT."""
        if self._first is None:
            with suppress(Empty):
                self._first = self._made.get(timeout=MOMENT)
        return self._first is not None

    def close(self) -> None:
        """No more is made, but for what is being made now."""
        self._unwanted.set()
        with suppress(Empty):
            self._made.get_nowait()  # so that the thread can put what it has, and end

    def _make(self, items: Iterable[Item]) -> None:
        try:
            for item in items:
                self._made.put((item,))
                if self._unwanted.is_set():
                    return
            self._made.put(StopIteration())
        except BaseException as error:
            self._made.put(error)


def prefetch(items: Iterable[Item], ahead: int = 2) -> Iterator[Item]:
    """The same items, of which `ahead` are made ahead, and one more that waits for room.

    What `items` raise comes out where the consumer asks for the item. The thread that makes them
    has ended when the consumer stops.
    """
    made = Ahead(items, ahead)
    try:
        yield from made
    finally:
        made.close()
        made.thread.join()
