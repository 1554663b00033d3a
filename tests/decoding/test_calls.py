"""Laws of calls: each gets its translations or an error, also after `close`, a fork or a failure.

A wait of PATIENCE seconds is the end of a test that fails: calls that pass never wait so long.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, wait
from pathlib import Path
from threading import Barrier, Event, Thread
from typing import Any

import pytest
import torch

from architectures import assemble, transformer
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.batches import BatchQueue, SentenceBatch
from mtkit.decoding.engines.engine import Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.errors import MtkitError
from mtkit.symbols import EOS
from signatures import stop_checks

PATIENCE = 60
CLOSED = "this translator is closed; load the model again"
REQUEST = Request(DecodingSettings(beam=1, max_length=4))

each_engine = pytest.mark.parametrize("engine", ["torch", "ctranslate2"])


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "model"
    return write_model(path, train(), transformer(), as_if_trained)


def start(function: Callable[[], object]) -> Future[Any]:
    """Call a function in another thread, which does not keep the tests alive if it hangs."""
    future = Future[Any]()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


# After close


def never() -> Iterator[str]:
    """Lines that never arrive."""
    Event().wait()
    yield ""


CALLS: dict[str, Callable[[Translator], object]] = {
    "translate": lambda translator: translator.translate(SENTENCES),
    "translate nothing": lambda translator: translator.translate([]),
    "translate a blank line": lambda translator: translator.translate([""]),
    "translate by sampling": lambda translator: translator.translate(SENTENCES, sample=True),
    "results": lambda translator: translator.results(SENTENCES),
    "stream": lambda translator: translator.stream(SENTENCES),
    "stream of lines that never arrive": lambda translator: translator.stream(never()),
    "submit": lambda translator: translator.submit(SENTENCES).result(),
    "submit alone": lambda translator: translator.submit(SENTENCES, alone=True).result(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("engine", ["auto", "torch", "ctranslate2"])
def test_every_call_of_a_closed_translator_is_refused(engine: str, call: str, model: Path) -> None:
    translator = load(model, "cpu", engine=engine)
    assert translator.translate(SENTENCES)
    translator.close()
    translator.close()
    for _ in range(3):
        with pytest.raises(MtkitError, match=f"^{CLOSED}$"):
            start(lambda: CALLS[call](translator)).result(PATIENCE)


@each_engine
def test_a_running_stream_ends_with_an_error_after_close(engine: str, model: Path) -> None:
    translator = load(model, "cpu", engine=engine)
    stream = translator.stream(SENTENCES * 250)
    assert next(stream)
    translator.close()
    with pytest.raises(MtkitError, match=CLOSED):
        start(lambda: list(stream)).result(PATIENCE)


@each_engine
def test_calls_during_close_get_their_translations_or_an_error(engine: str, model: Path) -> None:
    translator = load(model, "cpu", engine=engine)
    expected = translator.translate(SENTENCES)
    first_calls = Barrier(5)

    def call_until_closed() -> None:
        assert translator.translate(SENTENCES) == expected
        first_calls.wait(PATIENCE)
        while True:
            assert translator.translate(SENTENCES) == expected

    callers = [start(call_until_closed) for _ in range(4)]
    first_calls.wait(PATIENCE)
    translator.close()
    for caller in callers:
        with pytest.raises(MtkitError, match=CLOSED):
            caller.result(PATIENCE)


def test_a_translator_is_shown_as_one_line_with_its_models(model: Path) -> None:
    for translator, count in ((load(model, "cpu"), 1), (load([model, model], "cpu"), 2)):
        shown = repr(translator)
        assert "\n" not in shown
        assert shown.count(str(model)) == count
        assert translator.engine.name in shown


# Batches that fail


def sentence(*ids: int) -> Sentence:
    return Sentence([*ids, EOS])


def copied(batch: SentenceBatch) -> NBestLists:
    """Return for each sentence one hypothesis: a copy of its source."""
    return [[Hypothesis(sentence.source, None, True)] for sentence in batch.sentences]


def search(queue: BatchQueue, *sentences: Sentence, max_tokens: int = 100) -> Future[NBestLists]:
    """Search for sentences that form a batch each, unless they join a waiting batch."""
    batches = [[place] for place in range(len(sentences))]
    return queue.search(sentences, batches, REQUEST, max_tokens, alone=False)


class BusyQueue(BatchQueue):
    """A queue whose workers first wait for `gate`, so that calls can share batches until then."""

    def __init__(self, workers: int, search: Callable[[SentenceBatch], NBestLists]) -> None:
        super().__init__(workers, self.wait_or_search)
        self.search_later = search
        self.gate, self.are_busy = Event(), Barrier(workers + 1)
        for _ in range(workers):
            self.search([sentence(0)], [[0]], REQUEST, 1, alone=True)
        self.are_busy.wait(PATIENCE)

    def wait_or_search(self, batch: SentenceBatch) -> NBestLists:
        if batch.sentences != [sentence(0)]:
            return self.search_later(batch)
        self.are_busy.wait(PATIENCE)
        assert self.gate.wait(PATIENCE)
        return copied(batch)


def test_if_two_batches_of_a_call_fail_at_the_same_time_other_calls_get_their_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first_fails, other_has_failed = Event(), Event()

    class SlowFuture(Future[Any]):
        """A future that is slow to fail the first time: it waits for the end of the other call."""

        def set_exception(self, error: BaseException | None) -> None:
            if not first_fails.is_set():
                first_fails.set()
                assert other_has_failed.wait(PATIENCE)
            super().set_exception(error)

    stop_checks()  # a check that is prepared now would expect this class in all later tests
    monkeypatch.setattr("mtkit.decoding.engines.batches.Future", SlowFuture)

    def fail(batch: SentenceBatch) -> NBestLists:
        if batch.sentences != [sentence(5, 6)]:
            assert first_fails.wait(PATIENCE)
        raise MemoryError

    queue = BusyQueue(2, fail)
    # The third sentence joins the batch of the second: together they have 4 subwords.
    call = search(queue, sentence(5, 6), sentence(7), max_tokens=4)
    other = search(queue, sentence(8), max_tokens=4)
    other.add_done_callback(lambda _: other_has_failed.set())
    queue.gate.set()
    for future in (other, call):
        with pytest.raises(MemoryError):
            future.result(PATIENCE)


def test_if_no_thread_can_be_started_later_calls_get_their_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    searched: list[Sentence] = []

    def record(batch: SentenceBatch) -> NBestLists:
        searched.extend(batch.sentences)
        return copied(batch)

    queue, started, start_thread = BatchQueue(2, record), list[Thread](), Thread.start

    def start_one(thread: Thread) -> None:
        if started:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start_thread(thread)

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="start new thread"):
        patch.setattr(Thread, "start", start_one)
        search(queue, sentence(5, 6), sentence(7), max_tokens=3)
    ((hypothesis,),) = search(queue, sentence(8), max_tokens=3).result(PATIENCE)
    assert hypothesis.tokens == [8, EOS]
    queue.close()
    assert searched == [sentence(8)]  # none of the call that failed


def test_a_worker_that_cannot_limit_its_threads_fails_its_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(threads: int) -> None:
        raise RuntimeError("no threads")

    with monkeypatch.context() as patch:
        patch.setattr(torch, "set_num_threads", refuse)
        engine = PyTorchEngine(assemble("transformer").float(), 1)
        with pytest.raises(RuntimeError, match="no threads"):
            engine.search([sentence(5)], REQUEST).result(PATIENCE)
    assert engine.search([sentence(5)], REQUEST).result(PATIENCE)
    engine.close()


@pytest.mark.parametrize("count", [0, 2])
def test_a_wrong_number_of_answers_is_an_error(count: int) -> None:
    queue = BatchQueue(1, lambda batch: copied(batch)[:1] * count)
    with pytest.raises(ValueError, match="zip"):
        search(queue, sentence(5)).result(PATIENCE)
    queue.close()


@pytest.mark.parametrize("fails", [False, True])
def test_a_callback_that_fails_does_not_affect_other_calls(fails: bool) -> None:
    def copy_or_fail(batch: SentenceBatch) -> NBestLists:
        if fails:
            raise MemoryError
        return copied(batch)

    def callback(future: Future[NBestLists]) -> None:
        raise SystemExit

    queue = BusyQueue(1, copy_or_fail)
    call, other = search(queue, sentence(5)), search(queue, sentence(6))
    call.add_done_callback(callback)
    queue.gate.set()
    queue.close()
    error = MemoryError if fails else type(None)
    assert all(isinstance(future.exception(PATIENCE), error) for future in (call, other))


def test_who_waits_for_a_cancelled_search_is_told() -> None:
    queue = BusyQueue(1, copied)
    call = search(queue, sentence(5))
    assert call.cancel()
    queue.gate.set()
    assert wait([call], PATIENCE).done == {call}
    with pytest.raises(CancelledError):
        call.result()
    queue.close()


# Forks

FORK = """
import os, signal, sys
import mtkit
from mtkit.errors import MtkitError

folder, engine = sys.argv[1:]
lines = ["A dog runs.", "Why?"]
translator = mtkit.load(folder, "cpu", engine=engine)
expected = translator.translate(lines)
lock = translator.engine._lifetime.lock
lock.acquire()  # as another thread does that opens an engine
child = os.fork()
if child == 0:
    signal.alarm(60)  # ends a child that hangs
    calls = (translator.translate, translator.results, translator.stream, translator.submit)
    for call in calls:
        try:
            call(lines)
        except MtkitError as error:
            print(error, flush=True)
    translator.close()
    other = mtkit.load(folder, "cpu", engine=engine)
    assert other.translate(lines) == expected
    sys.exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
lock.release()
assert translator.translate(lines) == expected
translator.close()
"""


@pytest.mark.slow
@each_engine
def test_a_forked_child_refuses_the_translator_and_exits(engine: str, model: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(model), engine]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=3 * PATIENCE)
    advice = (
        "this translator was loaded before the process was forked; load the model in the child "
        "process"
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [advice] * 4 + ["7"]


@each_engine
def test_a_with_statement_closes_the_translator(engine: str, model: Path) -> None:
    with load(model, "cpu", engine=engine) as translator:
        translator.translate(SENTENCES)
    with pytest.raises(MtkitError, match=CLOSED):
        translator.translate(SENTENCES)
    with pytest.raises(ZeroDivisionError), load(model, "cpu", engine=engine) as translator:
        raise ZeroDivisionError
    with pytest.raises(MtkitError, match=CLOSED):
        translator.translate(SENTENCES)


@each_engine
def test_a_translator_that_is_sent_to_another_process_is_refused(engine: str, model: Path) -> None:
    with load(model, "cpu", engine=engine) as translator:
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            with pytest.raises(MtkitError, match="load the model in the other process"):
                pickle.dumps([translator], protocol)
        assert translator.translate(SENTENCES)
