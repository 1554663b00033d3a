"""Batches of sentences, and the threads of an engine that search them.

A batch that has not started takes sentences of other calls in, if they ask for the same: so
requests of many threads share batches just where all workers are busy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from mtkit.decoding.engine import Hypothesis, NBestLists, Request, Sentence


def divide(
    sentences: Sequence[Sentence], places: Iterable[int], max_tokens: int
) -> Iterator[list[int]]:
    """Yield batches of places of sentences, of at most `max_tokens` source tokens with padding.

    The longest come first, so that workers end at about the same time.
    """
    ranked = sorted(places, key=lambda place: -len(sentences[place].source))
    first = 0
    while first < len(ranked):
        end = first + max(1, max_tokens // len(sentences[ranked[first]].source))
        yield ranked[first:end]
        first = end


class _Call:
    """The answers to one call of `Engine.search`, as they come in."""

    def __init__(self, count: int) -> None:
        self.future: Future[NBestLists] = Future()
        self._answers: list[list[Hypothesis]] = [[] for _ in range(count)]
        self._missing = count
        self._lock = Lock()
        if not count:
            self.future.set_result([])

    def put(self, place: int, answer: list[Hypothesis]) -> None:
        with self._lock:
            self._answers[place] = answer
            self._missing -= 1
            is_complete = self._missing == 0
        if is_complete and self._has_ended_now():
            self.future.set_result(self._answers)

    def fail(self, error: BaseException) -> None:
        if self._has_ended_now():
            self.future.set_exception(error)

    def _has_ended_now(self) -> bool:
        """Return whether this is the first end of a call that nobody cancelled."""
        with self._lock:
            return not self.future.done() and self.future.set_running_or_notify_cancel()


@dataclass(eq=False)
class SentenceBatch:
    """Sentences that are searched together."""

    request: Request
    max_tokens: int
    sentences: list[Sentence] = field(default_factory=list)
    places: list[tuple[_Call, int]] = field(default_factory=list)
    """The call of each sentence, and its place there."""

    @property
    def is_unwanted(self) -> bool:
        """Whether every call has been cancelled, or has failed."""
        return all(call.future.done() for call in {call for call, _ in self.places})

    def has_room_for(self, sentences: Sequence[Sentence]) -> bool:
        together = [len(sentence.source) for sentence in (*self.sentences, *sentences)]
        return max(together) * len(together) <= self.max_tokens

    def add(self, call: _Call, sentences: Sequence[Sentence], places: Sequence[int]) -> None:
        self.sentences += [sentences[place] for place in places]
        self.places += [(call, place) for place in places]

    def fail(self, error: BaseException) -> None:
        for call in {call for call, _ in self.places}:
            call.fail(error)


class BatchQueue:
    """Worker threads that search batches in the order in which they were added."""

    def __init__(
        self,
        workers: int,
        search: Callable[[SentenceBatch], NBestLists],
        initializer: Callable[[], None] | None = None,
    ) -> None:
        self._search = search
        self._pool = ThreadPoolExecutor(workers, initializer=initializer)
        self._lock = Lock()
        self._open: dict[tuple[Request, bool], SentenceBatch] = {}
        """The last batch of each kind that has not started, for sentences of other calls."""

    def search(
        self,
        sentences: Sequence[Sentence],
        batches: Iterable[Sequence[int]],
        request: Request,
        max_tokens: int,
        *,
        alone: bool,
    ) -> Future[NBestLists]:
        """Add batches, given by the places of their sentences; return the future of all answers.

        Those of calls that are not `alone` grow by later calls up to `max_tokens`.
        """
        call = _Call(len(sentences))
        for places in batches:
            members = [sentences[place] for place in places]
            kind = request, bool(members[0].prefix)
            with self._lock:
                batch = None if alone else self._open.get(kind)
                if batch is not None and batch.has_room_for(members):
                    batch.add(call, sentences, places)
                    continue
                batch = SentenceBatch(request, max_tokens)
                batch.add(call, sentences, places)
                if not alone:
                    self._open[kind] = batch
            self._start(batch)
        return call.future

    def close(self) -> None:
        """Wait for the batches that have started, and cancel the others."""
        self._pool.shutdown(cancel_futures=True)

    def _start(self, batch: SentenceBatch) -> None:
        def fail_if_cancelled(started: Future[None]) -> None:
            if started.cancelled():
                batch.fail(CancelledError())

        self._pool.submit(self._run, batch).add_done_callback(fail_if_cancelled)

    def _run(self, batch: SentenceBatch) -> None:
        with self._lock:  # from now on it is closed to other calls
            self._open = {kind: other for kind, other in self._open.items() if other is not batch}
        if batch.is_unwanted:
            return
        try:
            answers = self._search(batch)
        except BaseException as error:
            batch.fail(error)
            return
        for (call, place), answer in zip(batch.places, answers, strict=True):
            call.put(place, answer)
