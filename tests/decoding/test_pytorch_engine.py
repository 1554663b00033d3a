"""The PyTorch engine is batch-invariant: what it finds for a sentence depends on nothing else."""

from __future__ import annotations

import random
from concurrent.futures import CancelledError
from threading import Event
from typing import Any

import pytest
import torch

from architectures import ARCHITECTURES, ENSEMBLES, VOCAB, assemble
from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.engine import Found, Hypothesis, Key, Request, Sentence
from mtkit.decoding.pytorch import PyTorchEngine
from mtkit.models.device import TORCH_DTYPES
from mtkit.symbols import EOS

every_model = pytest.mark.parametrize("name", [*ARCHITECTURES, *ENSEMBLES])
SETTINGS = DecodingSettings(beam=3, max_length=7)
DRAWN = random.Random(1)
SENTENCES: dict[Key, Sentence] = {
    (number, 0): Sentence([*DRAWN.choices(range(EOS + 1, VOCAB), k=DRAWN.randint(1, 9)), EOS])
    for number in range(10)
}


def engine_of(name: str, workers: int | None = None) -> PyTorchEngine:
    """In float32, as it is used."""
    return PyTorchEngine(assemble(name).float(), workers)


def in_windows(engine: PyTorchEngine, size: int, request: Request) -> list[list[Hypothesis]]:
    keys = list(SENTENCES)
    windows = [keys[first : first + size] for first in range(0, len(keys), size)]
    return [
        found
        for window in windows
        for found in engine.submit({key: SENTENCES[key] for key in window}, request).wait()
    ]


def assert_same(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> None:
    for of_found, of_wanted in zip(found, wanted, strict=True):
        assert [one.tokens for one in of_found] == [one.tokens for one in of_wanted]
        assert [one.score for one in of_found] == pytest.approx(
            [one.score for one in of_wanted], abs=1e-4
        )


@every_model
def test_neither_windows_nor_batches_nor_workers_change_a_translation(name: str) -> None:
    wanted = in_windows(engine_of(name, 1), 1, Request(SETTINGS, 3))
    for window, batch_tokens, workers in ((10, 1024, 1), (10, 25, 3), (4, 1024, 2)):
        settings = SETTINGS.model_copy(update={"batch_tokens": batch_tokens})
        assert_same(in_windows(engine_of(name, workers), window, Request(settings, 3)), wanted)


def test_neither_windows_nor_batches_nor_workers_change_a_sample() -> None:
    sampling = SamplingSettings(seed=5)
    wanted = in_windows(engine_of("transformer", 1), 1, Request(SETTINGS, 2, sampling))
    settings = SETTINGS.model_copy(update={"batch_tokens": 25})
    request = Request(settings, 2, sampling)
    assert_same(in_windows(engine_of("transformer", 3), 10, request), wanted)


def test_torch_has_as_many_threads_after_a_search_as_before() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        in_windows(engine_of("transformer"), 10, Request(SETTINGS))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_search_begins_before_it_is_waited_for_and_never_once_it_is_cancelled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, gate = Event(), Event()
    searched: list[Key] = []

    def search_once_open(request: Request, _: Event, sentences: dict[Key, Sentence]) -> Found:
        begun.set()
        assert gate.wait(60)
        searched.extend(sentences)
        return [[] for _ in sentences]

    engine = engine_of("transformer", 1)
    monkeypatch.setattr(engine, "_search", search_once_open)
    first, *others = [engine.submit({key: SENTENCES[key]}, Request(SETTINGS)) for key in SENTENCES]
    assert begun.wait(60)
    for pending in others[1:]:
        pending.cancel()
    gate.set()
    assert (first.wait(), others[0].wait()) == ([[]], [[]])
    assert searched == list(SENTENCES)[:2]


def test_a_search_that_is_cancelled_ends_with_the_step_that_it_is_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine, gate = engine_of("transformer", 1), Event()
    begun, steps = Event(), 0
    decode = engine.model.decode

    def slowly(*given: Any) -> Any:
        nonlocal steps
        steps += 1
        begun.set()
        assert gate.wait(60)
        return decode(*given)

    monkeypatch.setattr(engine.model, "decode", slowly)
    pending = engine.submit(SENTENCES, Request(SETTINGS))
    assert begun.wait(60)
    pending.cancel()
    gate.set()
    with pytest.raises(CancelledError):
        pending.wait()
    assert steps == 1


def test_a_model_with_its_dropout_on_does_not_translate() -> None:
    engine = engine_of("transformer")
    engine.model.train()
    with pytest.raises(ValueError, match="in training mode"):
        in_windows(engine, 10, Request(SETTINGS))


def test_an_error_in_one_of_the_workers_ends_the_search() -> None:
    engine = engine_of("transformer", 2)
    engine.model.project = None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError, match="not callable"):
        in_windows(engine, 10, Request(SETTINGS.model_copy(update={"batch_tokens": 20})))


@pytest.mark.parametrize("compute_type", ["bfloat16", "float16"])
def test_other_types_find_translations_of_nearly_the_same_score(compute_type: str) -> None:
    wanted = in_windows(engine_of("transformer"), 10, Request(SETTINGS))
    engine = PyTorchEngine(assemble("transformer").to(TORCH_DTYPES[compute_type]))
    assert engine.name == f"torch {compute_type}"
    for (found,), (best,) in zip(in_windows(engine, 10, Request(SETTINGS)), wanted, strict=True):
        assert found.score == pytest.approx(best.score, abs=0.05)
