"""Batches of sentences, and the worker threads that translate them.

While all workers are busy, calls with equal requests share the batches that have not started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from threading import Lock

from mtkit.decoding.engines.engine import Hypothesis, Lifetime, NBestLists, Request, Sentence


def divide(
    sentences: Sequence[Sentence], places: Iterable[int], max_tokens: int
) -> Iterator[list[int]]:
    """Divide the sentences with indices `places` into batches of at most `max_tokens`, padded.

    The longest sentences come first, so that all workers end at about the same time.
    """
    longest_first = sorted(places, key=lambda place: len(sentences[place].source), reverse=True)
    begin = 0
    while begin < len(longest_first):
        width = len(sentences[longest_first[begin]].source)
        size = max(1, max_tokens // width)  # even if a single sentence has more tokens
        yield longest_first[begin : begin + size]
        begin += size


class _Call:
    """A call of `BatchQueue.search`.

    Only the methods of this class complete its future. Several batches may end at the same time, so
    `_claim` decides which of them does it.
    """

    def __init__(self, count: int) -> None:
        """Expect the answers to `count` sentences."""
        self.future: Future[NBestLists] = Future()
        self._lock = Lock()
        self._answers: NBestLists = [[] for _ in range(count)]
        self._missing = count
        self._is_claimed = False

    def answer(self, place: int, hypotheses: list[Hypothesis]) -> None:
        """Store the answer to one sentence; the last answer completes the call."""
        with self._lock:
            self._answers[place] = hypotheses
            self._missing -= 1
            is_last = self._missing == 0
        if is_last:
            self.complete()

    def complete(self) -> None:
        """Set the answers as the result, unless the call has failed or was cancelled."""
        if self._claim():
            with suppress(BaseException):  # from a callback, which must not stop the worker
                self.future.set_result(self._answers)

    def fail(self, error: BaseException) -> None:
        """Set an error as the result, unless the call is complete, has failed or was cancelled."""
        if self._claim():
            with suppress(BaseException):  # from a callback, which must not stop the worker
                self.future.set_exception(error)

    def _claim(self) -> bool:
        """Return whether the caller must complete the future: at most one caller, and only once."""
        with self._lock:
            if self._is_claimed:
                return False
            self._is_claimed = True
        return self.future.set_running_or_notify_cancel()


@dataclass(eq=False)
class SentenceBatch:
    """Sentences that are translated together."""

    request: Request
    sentences: list[Sentence]
    places: list[tuple[_Call, int]]
    """For each sentence, its call and its place in that call."""

    @property
    def kind(self) -> tuple[Request, bool]:
        """What batches must have in common to be merged: the request, and whether with prefixes."""
        return self.request, bool(self.sentences[0].prefix)

    @property
    def is_unwanted(self) -> bool:
        """Whether every call has been cancelled, or has failed."""
        return all(call.future.done() for call, _ in self.places)

    def has_room_for(self, other: SentenceBatch, max_tokens: int) -> bool:
        """Return whether the two batches together have at most `max_tokens`, padded."""
        sentences = [*self.sentences, *other.sentences]
        width = max(len(sentence.source) for sentence in sentences)
        return width * len(sentences) <= max_tokens

    def add(self, other: SentenceBatch) -> None:
        """Add the sentences of another batch."""
        self.sentences += other.sentences
        self.places += other.places

    def answer(self, answers: NBestLists) -> None:
        """Give every call its answers; raise ValueError if their number is wrong."""
        answered = list(zip(self.places, answers, strict=True))
        for (call, place), hypotheses in answered:
            call.answer(place, hypotheses)

    def fail(self, error: BaseException) -> None:
        """Give every call the error."""
        for call, _ in self.places:
            call.fail(error)


class BatchQueue:
    """Worker threads that search batches in order of arrival."""

    def __init__(self, workers: int, search: Callable[[SentenceBatch], NBestLists]) -> None:
        self.lifetime = Lifetime()
        self._search = search
        self._pool = ThreadPoolExecutor(workers)
        self._waiting: dict[tuple[Request, bool], SentenceBatch] = {}
        """Batches that calls may join until they start."""

    def search(
        self,
        sentences: Sequence[Sentence],
        batches: Iterable[Sequence[int]],
        request: Request,
        max_tokens: int,
        *,
        alone: bool,
    ) -> Future[NBestLists]:
        """Add batches, each a list of indices into `sentences`; return a future of all answers.

        Unless `alone` is true, calls share batches of at most `max_tokens`.

        Raises:
            MtkitError: the queue is closed, or belongs to the parent process.
            RuntimeError: no thread can be started.
        """
        call = _Call(len(sentences))
        added: list[SentenceBatch] = []
        for places in batches:
            batch = SentenceBatch(
                request,
                sentences=[sentences[place] for place in places],
                places=[(call, place) for place in places],
            )
            added.append(batch)
        with self.lifetime.locked():
            try:
                for batch in added:
                    self._enqueue(batch, max_tokens, alone=alone)
            except BaseException as error:
                call.fail(error)  # so that no worker searches the batches before this one
                raise
        if not sentences:
            call.complete()
        return call.future

    def close(self) -> None:
        """Wait for all batches, and end the threads; do nothing in a forked child."""
        if not self.lifetime.is_in_child:
            self.lifetime.end()
            self._pool.shutdown()

    def _enqueue(self, batch: SentenceBatch, max_tokens: int, *, alone: bool) -> None:
        """Add the batch to a waiting batch if it may and if there is room, else to the pool."""
        waiting = None if alone else self._waiting.get(batch.kind)
        if waiting is not None and waiting.has_room_for(batch, max_tokens):
            waiting.add(batch)
            return
        self._pool.submit(self._run, batch)
        if not alone:  # only now, so that no call joins a batch that the pool has refused
            self._waiting[batch.kind] = batch

    def _run(self, batch: SentenceBatch) -> None:
        """Search a batch and complete its calls; raise nothing, because nobody would see it."""
        with self.lifetime.lock:  # from now on, no call joins the batch
            if self._waiting.get(batch.kind) is batch:
                del self._waiting[batch.kind]
        try:
            if batch.is_unwanted:
                raise CancelledError
            batch.answer(self._search(batch))
        except BaseException as error:
            batch.fail(error)
