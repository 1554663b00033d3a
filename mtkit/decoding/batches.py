"""Batches of sentences, and the worker threads of an engine that search them.

Sentences join a batch of another call that asks for the same and has not started: so requests of
many threads share batches if all workers are busy.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock

from mtkit.decoding.engine import NBestLists, Request, Sentence


def divide(
    sentences: Sequence[Sentence], places: Iterable[int], max_tokens: int
) -> Iterator[list[int]]:
    """Yield the places of the sentences of each batch: at most `max_tokens`, padding included.

    The longest come first, so that workers end at about the same time.
    """
    ranked = sorted(places, key=lambda place: -len(sentences[place].source))
    first = 0
    while first < len(ranked):
        end = first + max(1, max_tokens // len(sentences[ranked[first]].source))
        yield ranked[first:end]
        first = end


@dataclass(eq=False)
class _Call:
    """One call of `Engine.search`."""

    answers: NBestLists
    missing: int
    future: Future[NBestLists] = field(default_factory=Future)


@dataclass(eq=False)
class SentenceBatch:
    """Sentences that are searched together."""

    request: Request
    sentences: list[Sentence] = field(default_factory=list)
    places: list[tuple[_Call, int]] = field(default_factory=list)
    """The call of each sentence, and its place there."""

    @property
    def is_unwanted(self) -> bool:
        """Whether every call has been cancelled, or has failed."""
        return all(call.future.done() for call in {call for call, _ in self.places})


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
        self._waiting: dict[tuple[Request, bool], SentenceBatch] = {}
        """The last batch of each kind that has not started."""

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

        Calls that are not `alone` share batches of at most `max_tokens`.
        """
        call = _Call([[] for _ in sentences], len(sentences))
        if not sentences:
            call.future.set_result([])
        for places in batches:
            members = [sentences[place] for place in places]
            kind = request, bool(members[0].prefix)
            with self._lock:
                batch = None if alone else self._waiting.get(kind)
                joined = [*members, *batch.sentences] if batch else members
                width = max(len(sentence.source) for sentence in joined)
                is_new = batch is None or width * len(joined) > max_tokens
                if batch is None or is_new:
                    batch = SentenceBatch(request)
                    if not alone:
                        self._waiting[kind] = batch
                batch.sentences += members
                batch.places += [(call, place) for place in places]
            if is_new:
                self._pool.submit(self._run, batch)
        return call.future

    def close(self) -> None:
        """Wait for all batches."""
        self._pool.shutdown()

    def _run(self, batch: SentenceBatch) -> None:
        with self._lock:  # from now on no other call joins it
            self._waiting = {k: other for k, other in self._waiting.items() if other is not batch}
        if batch.is_unwanted:
            return
        try:
            answers = self._search(batch)
        except BaseException as error:
            self._finish(batch, error)
            return
        for (call, place), answer in zip(batch.places, answers, strict=True):
            call.answers[place] = answer
        self._finish(batch)

    def _finish(self, batch: SentenceBatch, error: BaseException | None = None) -> None:
        for call, count in Counter(call for call, _ in batch.places).items():
            with self._lock:
                call.missing -= count
                if call.future.done() or (call.missing and error is None):
                    continue
                if not call.future.set_running_or_notify_cancel():
                    continue
            if error is None:
                call.future.set_result(call.answers)
            else:
                call.future.set_exception(error)
