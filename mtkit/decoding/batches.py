"""Batches of sentences, and the worker threads that translate them.

While all workers are busy, calls with equal requests share the batches that have not started.
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
    """Divide the sentences with indices `places` into batches of at most `max_tokens`, padded.

    The longest sentences come first, so that all workers end at about the same time.
    """
    ranked = sorted(places, key=lambda place: -len(sentences[place].source))
    first = 0
    while first < len(ranked):
        end = first + max(1, max_tokens // len(sentences[ranked[first]].source))
        yield ranked[first:end]
        first = end


@dataclass(eq=False)
class _Call:
    """A call of `Engine.search`; `missing` counts its sentences that have no answer yet."""

    answers: NBestLists
    missing: int
    future: Future[NBestLists] = field(default_factory=Future)


@dataclass(eq=False)
class SentenceBatch:
    """Sentences that are translated together."""

    request: Request
    sentences: list[Sentence] = field(default_factory=list)
    places: list[tuple[_Call, int]] = field(default_factory=list)
    """For each sentence, its call and its place in that call."""

    @property
    def is_unwanted(self) -> bool:
        """Whether every call has been cancelled, or has failed."""
        return all(call.future.done() for call in {call for call, _ in self.places})


class BatchQueue:
    """Worker threads that search batches in order of arrival."""

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
        """Batches that calls may join until they start, by request and whether it has prefixes."""

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
        """Wait for all batches, and end the threads."""
        self._pool.shutdown()

    def _run(self, batch: SentenceBatch) -> None:
        with self._lock:  # so that no other call joins the batch
            self._waiting = {k: other for k, other in self._waiting.items() if other is not batch}
        if batch.is_unwanted:
            return
        answers, failure = [], None
        try:
            answers = self._search(batch)
        except BaseException as error:
            failure = error
        for (call, place), answer in zip(batch.places, answers, strict=failure is None):
            call.answers[place] = answer
        for call, count in Counter(call for call, _ in batch.places).items():
            with self._lock:
                call.missing -= count
                if call.future.done() or (call.missing and failure is None):
                    continue
                if not call.future.set_running_or_notify_cancel():
                    continue
            if failure is None:
                call.future.set_result(call.answers)
            else:
                call.future.set_exception(failure)
