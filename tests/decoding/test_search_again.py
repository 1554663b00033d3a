"""Laws of second searches: what is searched again, how, and which translation is kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import replace
from threading import Event
from typing import Any

import pytest

from estimators import ESTIMATOR
from folders import SENTENCES, train
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.batches import BatchQueue, SentenceBatch
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.loops import NGRAM_IN_LOOP

PATIENCE = 60
"""Seconds until a test that hangs fails."""
TOKENIZER = train()
CLEAN = "A dog runs."
LOOP = "run run run run run run"
REQUEST = Request(DecodingSettings(beam=1, max_length=60))


def hypothesis(text: str, score: float | None = -1.0) -> Hypothesis:
    (ids,) = TOKENIZER.encode_target([text])
    return Hypothesis(ids, score, finished=True)


class ScriptedEngine(Engine):
    """An engine that gives the texts of a script: those of one search after the other.

    Each text is an n-best list of one hypothesis, or several with `|` between them; "" is none.
    """

    name = "scripted"

    def __init__(self, script: list[list[str]]) -> None:
        self.searches: list[tuple[list[Sentence], Request]] = []
        self.second_begins, self.may_end = Event(), Event()
        self.may_end.set()
        self._script = iter(script)
        self._queue = BatchQueue(1, self._answer)

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        batches = [range(len(sentences))] if sentences else []
        return self._queue.search(sentences, batches, request, 1000, alone=alone)

    def _answer(self, batch: SentenceBatch) -> NBestLists:
        self.searches.append((batch.sentences, batch.request))
        if len(self.searches) > 1:
            self.second_begins.set()
            assert self.may_end.wait(PATIENCE)
        texts = next(self._script)
        return [[hypothesis(part) for part in text.split("|") if part] for text in texts]

    def close(self) -> None:
        self._queue.close()


def translator_of(*script: list[str], **settings: Any) -> tuple[Translator, ScriptedEngine]:
    engine = ScriptedEngine(list(script))
    return Translator(engine, TOKENIZER, REQUEST.changed(**settings)), engine


# Loops


def test_only_lines_with_a_loop_are_searched_again_without_repeated_ngrams() -> None:
    translator, engine = translator_of([CLEAN, LOOP, CLEAN], ["It rains."])
    translations = list(translator.results(["One.", "Two.", "Three."]))
    assert [translation.text for translation in translations] == [CLEAN, "It rains.", CLEAN]
    assert [translation.mended for translation in translations] == [(), ("loop",), ()]
    (first, request), (second, other_request) = engine.searches
    assert second == [first[1]]
    settings = request.settings.model_copy(update={"no_repeat_ngram": NGRAM_IN_LOOP})
    assert other_request == replace(request, settings=settings)


def test_the_second_translation_is_kept_only_if_its_loop_has_ended() -> None:
    other_loop = "Why why why why why why?"
    translator, engine = translator_of([LOOP, LOOP], [other_loop, ""])
    first, second = translator.results(["One.", "Two."])
    assert (first.text, second.text) == (LOOP, LOOP)
    assert first.mended == second.mended == ()
    assert len(engine.searches) == 2


def test_without_a_loop_there_is_one_search_and_the_same_translations() -> None:
    answers = [CLEAN, "Two men, one boat.", "It rains on the plain in Spain."]
    translator, engine = translator_of(answers)
    plain, _ = translator_of(answers)
    request = replace(plain.request, search_again=False)
    assert list(translator.results(SENTENCES[:3])) == list(plain.results(SENTENCES[:3], request))
    assert len(engine.searches) == 1


def test_a_loop_that_the_source_has_too_stays() -> None:
    translator, engine = translator_of([LOOP])
    assert translator.translate(["dog dog dog dog dog dog"]) == [LOOP]
    assert len(engine.searches) == 1


def test_only_the_sentence_of_a_line_that_loops_is_searched_again() -> None:
    translator, engine = translator_of([CLEAN, LOOP], ["It rains."], sentences="en")
    assert translator.translate(["This is one sentence. This is another one."]) == [
        f"{CLEAN} It rains."
    ]
    assert engine.searches[1][0] == [engine.searches[0][0][1]]


def test_who_forbids_ngrams_or_samples_gets_one_search() -> None:
    for settings in ({"no_repeat_ngram": 3}, {"sample": True}):
        translator, engine = translator_of([LOOP], **settings)
        assert translator.translate(["One."]) == [LOOP]
        assert len(engine.searches) == 1


def test_in_a_language_of_many_loops_no_line_is_searched_again() -> None:
    translator, engine = translator_of([LOOP])
    assert ESTIMATOR.facts is not None
    facts = replace(ESTIMATOR.facts, unreliable_flags=frozenset({"loop"}))
    translator.estimator = replace(ESTIMATOR, facts=facts)
    assert translator.translate(["One."]) == [LOOP]
    assert len(engine.searches) == 1


@pytest.mark.parametrize("scores", [True, False])
def test_loops_are_found_with_and_without_scores(scores: bool) -> None:
    translator, _ = translator_of([LOOP], [CLEAN], scores=scores)
    (translation,) = translator.results(["One."])
    assert translation.text == CLEAN
    assert (translation.score is None) != scores or translation.score == -1.0
    assert "loop" not in translation.flags


def test_an_n_best_list_comes_from_one_search() -> None:
    translator, _ = translator_of([f"{LOOP}|Why?"], [f"{CLEAN}|It rains."], beam=2, n_best=2)
    (translation,) = translator.results(["One."])
    assert [translation.text, translation.alternatives[0].text] == [CLEAN, "It rains."]


def test_the_best_hypothesis_without_a_loop_replaces_the_loop() -> None:
    translator, _ = translator_of([LOOP], [f"{LOOP}|{CLEAN}|It rains."], beam=3, n_best=3)
    (translation,) = translator.results(["One."])
    texts = [found.text for found in (translation, *translation.alternatives)]
    assert texts == [CLEAN, LOOP, "It rains."]
    assert translation.mended == ("loop",)


# Close, cancel, errors


def test_close_waits_for_second_searches() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    engine.may_end.clear()
    call = translator.submit(["One."])
    assert engine.second_begins.wait(PATIENCE)
    assert not call.done()
    engine.may_end.set()
    translator.close()
    assert call.result(0)[0].text == CLEAN


def test_a_call_that_is_cancelled_is_told_and_frees_the_worker() -> None:
    translator, engine = translator_of([LOOP], [CLEAN], [CLEAN])
    engine.may_end.clear()
    call = translator.submit(["One."])
    assert engine.second_begins.wait(PATIENCE)
    assert call.cancel()
    engine.may_end.set()
    assert wait([call], PATIENCE).done == {call}
    with pytest.raises(CancelledError):
        call.result()
    assert translator.translate(["Two."]) == [CLEAN]


def test_an_error_of_the_second_search_is_that_of_the_call() -> None:
    translator, _ = translator_of([LOOP])
    with pytest.raises(StopIteration):
        translator.submit(["One."]).result(PATIENCE)


def test_results_are_freed_with_their_future() -> None:
    translator, _ = translator_of([LOOP], [CLEAN])
    gc.collect()
    gc.disable()
    try:
        call = translator.submit(["One."])
        translation = weakref.ref(call.result(PATIENCE)[0])
        assert translation() is not None
        translator.close()  # so that the thread of the search has forgotten it
        del call
        assert translation() is None
    finally:
        gc.enable()
