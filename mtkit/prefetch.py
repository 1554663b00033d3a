"""Prefetching: another thread produces items while the consumer works on earlier ones."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from threading import Condition, Thread
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Prefetcher(Generic[Item]):
    """Items that another thread produces, up to `capacity` of them in advance.

    If producing an item raises an error, the consumer gets the error after the last item. If
    `size_of` is given, capacity and counts are sums of sizes, which the last item may exceed.
    """

    def __init__(
        self,
        items: Iterable[Item],
        capacity: int = 1,
        size_of: Callable[[Item], int] = lambda item: 1,
    ) -> None:
        self._ready: deque[Item] = deque()
        self._size, self._awaited = 0, 1
        self._size_of, self._capacity = size_of, capacity
        self._end: BaseException | None = None
        self._is_closed = False
        self._changed = Condition()
        # A daemon, so that the process can end while this thread waits for input.
        self.thread = Thread(target=self._produce, args=[items], daemon=True)
        self.thread.start()

    def take(self, count: int, patience: float = 0.0) -> list[Item]:
        """Wait for an item, then at most `patience` seconds for `count` items; return those ready.

        Return an empty list after the last item.
        """
        with self._changed:
            self._wait(1, None)
            if not self._ready and not isinstance(self._end, StopIteration | None):
                raise self._end
            self._wait(count, patience)
            taken: list[Item] = []
            end = self._size - count
            while self._ready and self._size > end:
                taken.append(self._ready.popleft())
                self._size -= self._size_of(taken[-1])
            self._changed.notify_all()
            return taken

    def ready_within(self, seconds: float, count: int = 1) -> bool:
        """Return whether `count` items, or all that remain, are ready within so many seconds."""
        with self._changed:
            return self._wait(count, seconds)

    def close(self) -> None:
        """Stop the thread after the item that it is producing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _wait(self, count: int, seconds: float | None) -> bool:
        """Wait until `count` items, or all that remain, are ready; return False after a timeout."""
        self._awaited = min(count, self._capacity)
        return self._changed.wait_for(
            lambda: self._size >= self._awaited or self._end is not None, seconds
        )

    def _produce(self, items: Iterable[Item]) -> None:
        end: BaseException = StopIteration()
        try:
            for item in items:
                with self._changed:
                    self._ready.append(item)
                    self._size += self._size_of(item)
                    if self._size >= self._awaited:
                        self._changed.notify_all()
                    self._changed.wait_for(lambda: self._size < self._capacity or self._is_closed)
                    if self._is_closed:
                        return
        except BaseException as error:
            end = error
        with self._changed:
            self._end = end
            self._changed.notify_all()


def prefetch(items: Iterable[Item], count: int = 2) -> Iterator[Item]:
    """Yield `items`; another thread produces up to `count` in advance, and works on one more.

    An error is raised in place of the item that failed. The thread ends when the consumer stops.
    """
    prefetcher = Prefetcher(items, count + 1)
    try:
        while taken := prefetcher.take(1):
            yield from taken
    finally:
        prefetcher.close()
        prefetcher.thread.join()
