"""The calls of a translator: each may search several times, and `close` waits for all of them."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from threading import Condition
from typing import TypeVar

from mtkit.decoding.engines.engine import Lifetime, NBestLists

_Result = TypeVar("_Result")
Searches = Generator[Future[NBestLists], NBestLists, _Result]
"""A call: yields a future for each of its searches, gets the answers, and returns the result."""


class RunningCalls:
    """The calls that have not ended.

    The engines must stay open until all calls have ended, because a call may search once more.
    """

    def __init__(self) -> None:
        self._lifetime = Lifetime()
        self._has_ended = Condition(self._lifetime.lock)
        self._count = 0

    def start(self, searches: Searches[_Result]) -> Future[_Result]:
        """Start a call, and return the future of its result; cancelling it stops the search.

        Raises:
            MtkitError: `close` was called, or this process is a forked child.
            Exception: whatever the call raises before its first search has started.
        """
        with self._lifetime.locked():
            self._count += 1
        try:
            call = _Call(searches)
            call.search_first()
        except BaseException:
            self._end()
            raise
        # The first callback, so that a later one may close the translator.
        call.add_done_callback(lambda _: self._end())
        return call

    def close(self) -> None:
        """Refuse new calls, and wait for all others; do nothing in a forked child."""
        if self._lifetime.is_in_child:
            return
        self._lifetime.end()
        with self._has_ended:
            self._has_ended.wait_for(lambda: self._count == 0)

    def _end(self) -> None:
        with self._has_ended:
            self._count -= 1
            self._has_ended.notify_all()


class _Call(Future[_Result]):
    """A call; the threads that complete its searches also run what follows them.

    It refers to a search only as long as this runs. Otherwise they would refer to each other, and
    Python frees such a cycle late, with all results in it.
    """

    def __init__(self, searches: Searches[_Result]) -> None:
        super().__init__()
        self._searches = searches
        self._search: Future[NBestLists] | None = None

    def cancel(self) -> bool:
        """Cancel the call, and the search that it waits for."""
        is_cancelled = super().cancel()
        search = self._search
        if is_cancelled and search is not None:
            search.cancel()
        return is_cancelled

    def search_first(self) -> None:
        """Start the first search."""
        self._wait_for(next(self._searches))

    def _wait_for(self, search: Future[NBestLists]) -> None:
        self._search = search
        search.add_done_callback(self._go_on)
        # Before the first line, `cancel` may have cancelled the search before this one.
        if self.cancelled():
            search.cancel()

    def _go_on(self, search: Future[NBestLists]) -> None:
        """Use the answers of a search, and start the next one, or end the call."""
        self._search = None
        if self.cancelled():
            self._searches.close()
            self.set_running_or_notify_cancel()  # tells those who wait for the call
            return
        try:
            following = self._searches.send(search.result())
        except StopIteration as end:
            if self.set_running_or_notify_cancel():
                self.set_result(end.value)
        except BaseException as error:
            if self.set_running_or_notify_cancel():
                self.set_exception(error)
        else:
            self._wait_for(following)
