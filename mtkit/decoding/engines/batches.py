"""Batches of sentences, and the worker threads that translate them.

While all workers are busy, calls with equal requests share the batches that have not started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from threading import Lock

from mtkit.decoding.engines.engine import (
    Hypothesis,
    Lifetime,
    NBestLists,
    Request,
    Sentence,
    SentenceKind,
    find_whole,
)
from mtkit.decoding.loops import NGRAM_IN_LOOP, LoopJudge


def divide(sentences: Sequence[Sentence], max_tokens: int) -> Iterator[list[int]]:
    """Divide sentences into batches of one kind with at most `max_tokens`, padded.

    The kind of a sentence is what it asks of the search; sentences of one batch must ask the same.
    A batch is a list of indices. A longer sentence has a batch of its own. Of each kind, the
    longest sentences come first, so that all workers end at about the same time.
    """

    def kind_and_length(index: int) -> tuple[SentenceKind, int]:
        return sentences[index].kind, len(sentences[index].source)

    batch: list[int] = []
    for index in sorted(range(len(sentences)), key=kind_and_length, reverse=True):
        longest = sentences[batch[0]] if batch else sentences[index]
        is_full = (len(batch) + 1) * len(longest.source) > max_tokens
        if batch and (is_full or sentences[index].kind != longest.kind):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


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
        """Return whether the caller must complete the future: at most one caller, and only once.

        Nobody must if the future has been cancelled.
        """
        with self._lock:
            if self._is_claimed:
                return False
            self._is_claimed = True
        return self.future.set_running_or_notify_cancel()  # False if it was cancelled


BatchKind = tuple[Request, SentenceKind]
"""A request, and the kind of the sentences."""


# Batches are compared by identity, because sentences of different calls may be equal.
@dataclass(eq=False)
class SentenceBatch:
    """Sentences that are translated together."""

    request: Request
    sentences: list[Sentence]
    places: list[tuple[_Call, int]]
    """For each sentence, its call and its place in that call."""

    @property
    def needs_attention(self) -> bool:
        """Whether hypotheses contain their attention weights."""
        return self.request.alignments or self.sentences[0].needs_attention

    @property
    def kind(self) -> BatchKind:
        """What batches must have in common to be merged."""
        return self.request, self.sentences[0].kind

    @property
    def is_unwanted(self) -> bool:
        """Whether every call has been cancelled, or has failed."""
        return all(call.future.done() for call, _ in self.places)

    def has_room_for(self, other: SentenceBatch, max_tokens: int) -> bool:
        """Return whether the two batches together have at most `max_tokens`, as in `divide`."""
        sentences = [*self.sentences, *other.sentences]
        width = max(len(sentence.source) for sentence in sentences)
        return width * len(sentences) <= max_tokens

    def add(self, other: SentenceBatch) -> None:
        """Add the sentences of another batch."""
        self.sentences += other.sentences
        self.places += other.places

    def answer(self, answers: NBestLists) -> None:
        """Give every call its answers; raise ValueError if their number is wrong."""
        answered = list(zip(self.places, answers, strict=True))  # a list: raises before any answer
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
        self._waiting: dict[BatchKind, SentenceBatch] = {}
        """By `SentenceBatch.kind`, the last batch in the queue, which calls may join."""

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
        for indices in batches:
            batch = SentenceBatch(
                request,
                sentences=[sentences[index] for index in indices],
                places=[(call, index) for index in indices],
            )
            added.append(batch)
        # Under the lock, so that no batch starts before all have been added.
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
        """Join the batch to a waiting batch if it fits there, else add it to the pool.

        With `alone`, it joins no other batch, and no other batch joins it. The lock must be held.
        """
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
            batch.answer(search_without_loops(self._search, batch))
        except BaseException as error:
            batch.fail(error)


def search_without_loops(
    search: Callable[[SentenceBatch], NBestLists], batch: SentenceBatch
) -> NBestLists:
    """Search a batch, and those of its sentences again whose translation has a loop.

    The best hypothesis of the second search that has no loop becomes the translation.
    """
    answers = search(batch)
    loops: list[tuple[int, LoopJudge]] = []
    for number, (sentence, hypotheses) in enumerate(zip(batch.sentences, answers, strict=True)):
        judge = sentence.judge
        if judge is None or not hypotheses:
            continue
        best = find_whole(hypotheses, judge.tokenizer)[0]
        if judge.has_loop(best.tokens):
            loops.append((number, judge))
    if not loops:
        return answers
    settings = batch.request.settings.model_copy(update={"no_repeat_ngram": NGRAM_IN_LOOP})
    second = replace(
        batch,
        request=replace(batch.request, settings=settings),
        sentences=[batch.sentences[number] for number, _ in loops],
        places=[batch.places[number] for number, _ in loops],
    )
    for (number, judge), hypotheses in zip(loops, search(second), strict=True):
        whole = find_whole(hypotheses, judge.tokenizer)
        better = next((each for each in whole if not judge.has_loop(each.tokens)), None)
        if better is not None:
            others = [hypothesis for hypothesis in hypotheses if hypothesis is not better]
            answers[number] = [replace(better, replaces_loop=True), *others]
    return answers
