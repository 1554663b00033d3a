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
    `size_of` is given, capacity and counts are sums of sizes. The last of the items that are ready,
    or that `take` returns, may exceed them.
    """

    def __init__(
        self,
        items: Iterable[Item],
        capacity: int = 1,
        size_of: Callable[[Item], int] = lambda item: 1,
    ) -> None:
        self._capacity = capacity
        self._size_of = size_of
        self._ready: deque[Item] = deque()
        self._size = 0
        """Size of all items that are ready."""
        self._awaited = 1
        """Size for which the consumer waits."""
        self._end: BaseException | None = None
        """Why no item follows: StopIteration or an error; None while items may follow."""
        self._is_closed = False
        self._changed = Condition()
        """Guards all of these, which both threads change."""
        # A daemon, so that the process can end while this thread waits for input.
        self.thread = Thread(target=self._produce, args=[items], daemon=True)
        self.thread.start()

    def take(self, count: int, patience: float = 0.0) -> list[Item]:
        """Wait for an item, then at most `patience` seconds for `count` items.

        Return what is ready, but no more than `count` items; an empty list after the last item.
        Raise the error of the producer once all items before it have been taken.
        """
        with self._changed:
            self._wait(1, seconds=None)
            end = self._end
            if not self._ready and end is not None and not isinstance(end, StopIteration):
                raise end
            self._wait(count, seconds=patience)
            taken: list[Item] = []
            size_to_leave = self._size - count  # negative if fewer than `count` are ready
            while self._ready and self._size > size_to_leave:
                item = self._ready.popleft()
                self._size -= self._size_of(item)
                taken.append(item)
            self._changed.notify_all()
            return taken

    def ready_within(self, seconds: float, count: int = 1) -> bool:
        """Return whether `count` items, or all that remain, are ready within so many seconds."""
        with self._changed:
            return self._wait(count, seconds=seconds)

    def close(self) -> None:
        """Stop the thread after the item that it is producing."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()

    def _wait(self, count: int, seconds: float | None) -> bool:
        """Wait until `count` items, or all that remain, are ready; return False after a timeout.

        `seconds`: the timeout; None: without end. The lock must be held.
        """
        self._awaited = min(count, self._capacity)  # more will never be ready at once
        return self._changed.wait_for(
            lambda: self._size >= self._awaited or self._end is not None,
            timeout=seconds,
        )

    def _produce(self, items: Iterable[Item]) -> None:
        """Produce the items in the thread, and wait whenever enough are ready."""
        end: BaseException = StopIteration()
        try:
            for item in items:
                with self._changed:
                    self._ready.append(item)
                    self._size += self._size_of(item)
                    # The consumer is woken only when it has enough items, not for each item.
                    if self._size >= self._awaited:
                        self._changed.notify_all()
                    self._changed.wait_for(lambda: self._size < self._capacity or self._is_closed)
                    if self._is_closed:
                        return
        except BaseException as error:  # raised again in the thread of the consumer
            end = error
        with self._changed:
            self._end = end
            self._changed.notify_all()


def prefetch(items: Iterable[Item], count: int = 2) -> Iterator[Item]:
    """Yield `items`; another thread has up to `count` ready in advance, and works on one more.

    An error is raised in place of the item that failed. The thread ends when the consumer stops.
    """
    # The producer waits once `count` + 1 items are ready. The last of these is the item on which it
    # has worked while `count` were ready.
    prefetcher = Prefetcher(items, capacity=count + 1)
    try:
        while taken := prefetcher.take(1):
            yield from taken
    finally:
        prefetcher.close()
        prefetcher.thread.join()
