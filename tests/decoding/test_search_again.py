"""Laws of second searches: what is searched again, how, and which translation is kept."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from architectures import seq2seq, transformer
from estimators import ESTIMATOR
from folders import SENTENCES, as_if_trained, train, write_model
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.api import Translator, load
from mtkit.decoding.engines.engine import Engine, Hypothesis, NBestLists, Request, Sentence
from mtkit.decoding.search_again import MAX_DROP, MAX_TERM_SUBWORDS, NGRAM_IN_LOOP, encode_terms
from mtkit.decoding.text import pipeline
from mtkit.decoding.text.line import Context, Line, Span, SplitSpan, Translation, WantedTerm
from mtkit.decoding.text.term_subwords import encode_term, find_word_parts
from mtkit.errors import MtkitError

PATIENCE = 60
"""Seconds until a test that hangs fails."""
TOKENIZER = train()
CLEAN = "A dog runs."
LOOP = "run run run run run run"
REQUEST = Request(DecodingSettings(beam=1, max_length=60))


def hypothesis(text: str, score: float | None = -1.0) -> Hypothesis:
    (ids,) = TOKENIZER.encode_target([text])
    return Hypothesis(ids, score, finished=True)


@dataclass
class ScriptedEngine(Engine):
    """An engine that gives the texts of a script: those of one search after the other.

    Each text is an n-best list of one hypothesis, or several with `|` between them; "" is none.
    """

    script: list[list[str]]
    is_held: bool = False
    """Whether second searches wait until the test completes their futures."""
    searches: list[tuple[list[Sentence], Request]] = field(default_factory=list)
    futures: list[Future[NBestLists]] = field(default_factory=list)
    second_begins: Event = field(default_factory=Event)
    is_closed: Event = field(default_factory=Event)
    name = "scripted"

    def search(
        self, sentences: Sequence[Sentence], request: Request, *, alone: bool = False
    ) -> Future[NBestLists]:
        if self.is_closed.is_set():
            raise MtkitError("closed")
        future = Future[NBestLists]()
        if not sentences:  # a stream begins with an empty call, which shows that all is well
            future.set_result([])
            return future
        self.searches.append((list(sentences), request))
        self.futures.append(future)
        if not (self.is_held and len(self.searches) > 1):
            self.complete(future)
        else:
            self.second_begins.set()
        return future

    def complete(self, future: Future[NBestLists]) -> None:
        """Give the answers of the script."""
        texts = self.script[self.futures.index(future)]
        answers = [[hypothesis(part) for part in text.split("|") if part] for text in texts]
        if future.set_running_or_notify_cancel():
            future.set_result(answers)

    def close(self) -> None:
        self.is_closed.set()


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


def test_a_loop_that_the_source_has_too_is_no_fault() -> None:
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


# Terms


@pytest.fixture
def dog(monkeypatch: pytest.MonkeyPatch) -> None:
    """A glossary by which every sentence with "dog" must have "men" and "boat"."""

    def expect(spans: Sequence[Span], _: Context) -> list[SplitSpan]:
        wanted = [WantedTerm("men"), WantedTerm("boat")]
        terms = [wanted if "dog" in span.text else [] for span in spans]
        return [SplitSpan([span], terms=of) for span, of in zip(spans, terms, strict=True)]

    finish = pipeline.Window._finish

    def finish_and_compare(window: Any, answer: Any, hypotheses: Any, line: Any) -> Translation:
        translation = finish(window, answer, hypotheses, line)
        wanted = [term.text for terms in line.terms_of_parts for term in terms]
        missing = [term for term in wanted if term not in translation.text]
        return replace(translation, missing_terms=missing)

    monkeypatch.setattr(pipeline, "STEPS", [*pipeline.STEPS[:-1], expect, pipeline.STEPS[-1]])
    monkeypatch.setattr(pipeline.Window, "_finish", finish_and_compare)


@pytest.mark.usefixtures("dog")
def test_sentences_without_their_terms_are_searched_with_the_missing_ones() -> None:
    script = (["It rains.", "A dog runs here.", "Two men run."], ["A men boat runs."])
    translator, engine = translator_of(*script, sentences="en")
    lines = ["This is one sentence. The dog runs here.", "Any dog."]
    engine.script[1].append("Two men boat.")
    first, second = translator.results(lines)
    assert first.text == "It rains. A men boat runs."
    assert second.text == "Two men boat."
    assert first.mended == second.mended == ("term",)
    assert first.missing_terms == second.missing_terms == []
    (sentences, request), (again, other_request) = engine.searches
    men, boat = (encode_term(TOKENIZER, term) for term in ("men", "boat"))
    assert again == [
        replace(sentences[1], terms=[men, boat]),
        replace(sentences[2], terms=[boat]),
    ]
    assert other_request == request


@pytest.mark.usefixtures("dog")
def test_a_hypothesis_of_the_first_search_that_has_all_terms_costs_no_second_search() -> None:
    ranked = "Any old dog.|Two old plains.|Any men boat.|Men, men boat."
    translator, engine = translator_of([ranked])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "Any men boat."
    assert translation.mended == ("term",)
    assert len(engine.searches) == 1


@pytest.mark.usefixtures("dog")
def test_if_the_terms_do_not_fit_the_first_translation_stays() -> None:
    translator, _ = translator_of([CLEAN], [""])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == CLEAN
    assert translation.missing_terms == ["men", "boat"]


WORSE = {
    "it hangs the terms behind the full stop": "A dog runs. men boat.",
    "it has more words": "A men boat runs and rains.",
    "it has a longer word": "A men boat runnnnnnnnnnnnn.",
    "it has more full stops": "men. boat.",
    "it has a loop": "men boat men boat men boat men boat",
    "it lacks the terms": "A boy runs here.",
}


@pytest.mark.usefixtures("dog")
@pytest.mark.parametrize("second", WORSE.values(), ids=WORSE)
def test_a_glossary_never_destroys_a_sentence_the_plain_translation_stays_if(second: str) -> None:
    translator, _ = translator_of(["A dog runs here."], [second])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "A dog runs here."
    assert translation.mended == ()
    assert translation.missing_terms == ["men", "boat"]


@pytest.mark.usefixtures("dog")
@pytest.mark.parametrize(
    ("second", "is_kept"),
    [
        ("It rains men boat on the plain.", True),
        ("It men boat rains on.", False),
    ],
)
def test_a_term_replaces_at_most_two_words_and_no_phrase(second: str, is_kept: bool) -> None:
    first = "It rains two dogs here on the plain."
    translator, _ = translator_of([first], [second])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == (second if is_kept else first)


@pytest.mark.usefixtures("dog")
@pytest.mark.parametrize(("drop", "is_kept"), [(0.9 * MAX_DROP, True), (1.1 * MAX_DROP, False)])
@pytest.mark.parametrize("length_penalty", [0.0, 1.0, 2.0])
def test_a_translation_with_the_terms_is_kept_only_if_it_is_not_much_less_probable(
    drop: float, is_kept: bool, length_penalty: float
) -> None:
    translator, engine = translator_of([CLEAN], ["men boat."], length_penalty=length_penalty)

    def complete(future: Future[NBestLists]) -> None:
        number = engine.futures.index(future)
        text = engine.script[number][0]
        found = hypothesis(text)
        length = len(found.tokens)
        mean = -1.0 - drop * number  # log P per subword
        future.set_result([[replace(found, score=mean * length ** (1 - length_penalty))]])

    engine.complete = complete  # type: ignore[method-assign]
    (translation,) = translator.results(["Any dog."])
    assert (translation.text == "men boat.") == is_kept
    assert ("men" in translation.missing_terms) != is_kept


@pytest.mark.usefixtures("dog")
def test_the_first_hypothesis_of_the_second_search_that_is_no_worse_is_kept() -> None:
    answers = "A dog runs. men boat.|A men boat and a dog.|men boat.|Two men boat."
    translator, _ = translator_of([CLEAN], [answers], beam=4)
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "men boat."


@pytest.mark.usefixtures("dog")
def test_a_translation_with_one_more_term_is_kept_and_one_that_loses_a_term_is_not() -> None:
    translator, _ = translator_of([CLEAN], ["A men runs."])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "A men runs."
    assert translation.missing_terms == ["boat"]
    translator, _ = translator_of(["A men runs."], ["A boat runs."])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "A men runs."


def test_a_term_of_several_words_may_take_the_place_of_one_word() -> None:
    translator, _ = translator_of(["A dog runs."], ["A Two men runs."])
    (translation,) = translator.results(["Any dog."], glossary={"dog": "Two men"})
    assert translation.text == "A Two men runs."


@pytest.mark.usefixtures("dog")
def test_terms_are_demanded_of_a_translation_whose_loop_has_ended() -> None:
    translator, engine = translator_of([LOOP], [CLEAN], ["men boat."])
    (translation,) = translator.results(["Any dog."])
    assert translation.text == "men boat."
    assert translation.mended == ("loop", "term")
    assert [len(sentence.terms) for (sentence,), _ in engine.searches] == [0, 0, 2]
    ngrams = [request.settings.no_repeat_ngram for _, request in engine.searches]
    assert ngrams == [0, NGRAM_IN_LOOP, 0]


@pytest.mark.usefixtures("dog")
def test_no_search_has_sentences_with_terms_and_others_without() -> None:
    script = ([CLEAN, LOOP, CLEAN, LOOP], [CLEAN, CLEAN], ["men boat."] * 2)
    translator, engine = translator_of(*script)
    translator.translate(["Any dog.", "One.", "Two.", "This dog."])
    kinds = [{bool(sentence.terms) for sentence in sentences} for sentences, _ in engine.searches]
    assert kinds == [{False}, {False}, {True}]


def test_terms_have_few_subwords_all_of_them_spelled_by_the_vocabulary() -> None:
    window = pipeline.open_window([Line("Any dog.")], TOKENIZER, REQUEST)
    terms = ["men", "men", "boat", *["boat " * MAX_TERM_SUBWORDS], "rains"]
    encoded = encode_terms(terms, window.context)
    assert TOKENIZER.decode(encoded) == ["men", "boat", "rains"]


@pytest.mark.parametrize("term", ["dog", "Two men", "no-one", "3 dogs", "x", "狗", "เรือ"])
def test_a_term_decodes_to_itself_at_any_place(term: str) -> None:
    corpus = [*SENTENCES, "no-one has 3 dogs 1 x", "一只狗在跑。", "เรือลำหนึ่ง", "狗1"]
    tokenizer = train([*corpus * 3], vocab_size=400)
    ids = encode_term(tokenizer, term)
    assert tokenizer.decode([ids])[0].strip() == term
    parts = find_word_parts(tokenizer)
    assert ids[0] not in parts
    space = "" if term in ("狗", "เรือ") else " "
    before = "狗" if term == "狗" else "dog"
    (ids_before,) = tokenizer.encode_target([before])
    assert tokenizer.decode([[*ids_before, *ids]]) == [before + space + term]


@pytest.mark.parametrize("engine", ["auto", "torch", "ctranslate2"])
@pytest.mark.parametrize("compute_type", ["auto", "int8"])
@pytest.mark.usefixtures("dog", "unlimited_terms")
def test_pytorch_finds_translations_with_the_terms_for_every_engine(
    tmp_path: Path, engine: str, compute_type: str
) -> None:
    if (engine, compute_type) == ("torch", "int8"):
        pytest.skip("PyTorch does not support int8")
    path = write_model(tmp_path / "model", TOKENIZER, transformer(), as_if_trained, max_length=40)
    translator = load(path, "cpu", engine=engine, compute_type=compute_type, beam=1)
    plain = replace(translator.request, search_again=False)
    lines = [CLEAN, "A dog runs.", "Why?"]
    before = list(translator.results(lines, plain))
    after = list(translator.results(lines))
    assert after[2] == before[2]
    for translation in after[:2]:
        assert translation.missing_terms == []
        assert "term" in translation.mended
        assert {"men", "boat"} <= set(translation.text.replace(".", " ").split())
    translator.close()


@pytest.mark.usefixtures("dog", "unlimited_terms")
def test_every_architecture_finds_translations_with_the_terms(tmp_path: Path) -> None:
    path = write_model(tmp_path / "model", TOKENIZER, seq2seq(), max_length=40)
    translator = load(path, "cpu", beam=2, n_best=2)
    (translation,) = translator.results(["A dog runs."])
    for found in (translation, *translation.alternatives):
        assert {"men", "boat"} <= set(found.text.replace(".", " ").split())
    translator.close()


# Close, cancel, errors


def start(translator: Translator) -> Future[list[Translation]]:
    """Start a call whose second search waits."""
    assert isinstance(translator.engine, ScriptedEngine)
    translator.engine.is_held = True
    call = translator.submit(["One."])
    assert translator.engine.second_begins.wait(PATIENCE)
    assert not call.done()
    return call


def test_close_waits_for_second_searches_and_refuses_new_calls() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    call = start(translator)
    has_closed = Event()

    def close() -> None:
        translator.close()
        has_closed.set()

    Thread(target=close, daemon=True).start()
    # The thread refuses new calls first; then it waits.
    refused: list[MtkitError] = []
    while not refused:
        engine.script.append([CLEAN])
        try:
            translator.submit([])
        except MtkitError as error:
            refused.append(error)
    assert not has_closed.is_set() and not engine.is_closed.is_set()
    engine.complete(engine.futures[1])
    assert call.result(PATIENCE)[0].text == CLEAN
    assert has_closed.wait(PATIENCE) and engine.is_closed.is_set()


def test_a_callback_of_the_last_call_may_close_the_translator() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    call = start(translator)
    call.add_done_callback(lambda _: translator.close())
    Thread(target=lambda: engine.complete(engine.futures[1]), daemon=True).start()
    assert engine.is_closed.wait(PATIENCE)


def test_cancelling_a_call_cancels_its_second_search() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    call = start(translator)
    assert call.cancel()
    assert engine.futures[1].cancelled()
    assert wait([call], PATIENCE).done == {call}
    with pytest.raises(CancelledError):
        call.result()
    translator.close()


def test_a_call_that_is_cancelled_during_the_first_search_starts_no_second() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    first = Future[NBestLists]()
    search = engine.search

    def never_cancelled(*args: Any, **kwargs: Any) -> Future[NBestLists]:
        search(*args, **kwargs)
        first.set_running_or_notify_cancel()  # a search that runs cannot be cancelled
        return first

    engine.search = never_cancelled  # type: ignore[method-assign]
    call = translator.submit(["One."])
    assert call.cancel()
    first.set_result([[hypothesis(LOOP)]])
    assert len(engine.searches) == 1
    assert wait([call], PATIENCE).done == {call}
    translator.close()


def test_an_error_of_the_second_search_is_that_of_the_call() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    call = start(translator)
    engine.futures[1].set_exception(MemoryError())
    with pytest.raises(MemoryError):
        call.result(PATIENCE)
    translator.close()


def test_a_second_search_that_cannot_start_fails_the_call() -> None:
    translator, engine = translator_of([LOOP], [CLEAN])
    engine.script = engine.script[:1]  # the second search raises IndexError
    with pytest.raises(IndexError):
        translator.submit(["One."]).result(PATIENCE)
    translator.close()


def test_results_are_freed_with_their_future() -> None:
    translator, _ = translator_of([LOOP], [CLEAN])
    gc.collect()
    gc.disable()
    try:
        call = translator.submit(["One."])
        translation = weakref.ref(call.result(PATIENCE)[0])
        assert translation() is not None
        translator.engine = ScriptedEngine([])  # the old one remembers its futures
        del call, _
        assert translation() is None
    finally:
        gc.enable()
