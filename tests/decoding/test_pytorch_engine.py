"""Laws of the PyTorch engine: translations do not depend on batches, workers or other calls."""

from __future__ import annotations

import random
from concurrent.futures import CancelledError, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest
import torch
from torch import Tensor

from architectures import ARCHITECTURES, ENSEMBLES, VOCAB, assemble
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.engines.engine import Hypothesis, Request, Sentence
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.models.device import TORCH_DTYPES
from mtkit.symbols import EOS

every_model = pytest.mark.parametrize("name", [*ARCHITECTURES, *ENSEMBLES])
SETTINGS = DecodingSettings(beam=3, max_length=7)
DRAWN = random.Random(1)
SENTENCES = [
    Sentence([*DRAWN.choices(range(EOS + 1, VOCAB), k=DRAWN.randint(1, 9)), EOS], key=(number, 0))
    for number in range(10)
]


def engine_of(name: str, workers: int | None = None) -> PyTorchEngine:
    """Return an engine in float32, its default."""
    return PyTorchEngine(assemble(name).float(), workers)


def in_windows(engine: PyTorchEngine, size: int, request: Request) -> list[list[Hypothesis]]:
    windows = [SENTENCES[first : first + size] for first in range(0, len(SENTENCES), size)]
    return [actual for window in windows for actual in engine.search(window, request).result()]


def assert_same(actual: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    for ours, theirs in zip(actual, expected, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        assert [one.score for one in ours] == pytest.approx([one.score for one in theirs], abs=1e-4)


@pytest.mark.slow
@every_model
def test_a_translation_does_not_depend_on_batches_or_workers(name: str) -> None:
    expected = in_windows(engine_of(name, 1), 1, Request(SETTINGS, 3))
    for window, batch_tokens, workers in ((10, 1024, 1), (10, 25, 3), (4, 1024, 2)):
        settings = SETTINGS.model_copy(update={"batch_tokens": batch_tokens})
        assert_same(in_windows(engine_of(name, workers), window, Request(settings, 3)), expected)


def test_a_search_does_not_change_torch_threads() -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        in_windows(engine_of("transformer"), 10, Request(SETTINGS))
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def hold(engine: PyTorchEngine, name: str, patch: pytest.MonkeyPatch) -> Any:
    """Let a method of the model wait for `gate`; return `begun`, `gate` and the sizes of its calls.

    A size is the number of sentences for `encode`, and 0 for other methods.
    """
    begun, gate, sizes = Event(), Event(), list[int]()
    method = getattr(engine.model, name)

    def held(first: Any, *args: Any, **kwargs: Any) -> Any:
        sizes.append(len(first) if isinstance(first, Tensor) else 0)
        begun.set()
        assert gate.wait(60)
        return method(first, *args, **kwargs)

    patch.setattr(engine.model, name, held)
    return begun, gate, sizes


def test_a_cancelled_search_never_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("transformer", 1)
    begun, gate, sizes = hold(engine, "encode", monkeypatch)
    first, *others = [
        engine.search([sentence], Request(SETTINGS), alone=True) for sentence in SENTENCES
    ]
    assert begun.wait(60)
    assert all(future.cancel() for future in others[1:])
    gate.set()
    assert len(first.result()) == len(others[0].result()) == 1
    engine.close()
    assert sizes == [1, 1]


def test_calls_of_several_threads_share_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = in_windows(engine_of("transformer"), 10, Request(SETTINGS, 3))
    engine = engine_of("transformer", 1)
    _, gate, sizes = hold(engine, "encode", monkeypatch)
    with ThreadPoolExecutor(4) as pool:  # as a server of four threads
        requests = [Request(SETTINGS, 3)] * 9 + [Request(SETTINGS, 2)]
        futures = list(pool.map(lambda s, r: engine.search([s], r), SENTENCES, requests))
    futures[1].cancel()
    gate.set()
    actual = [future.result()[0] for future in (futures[0], *futures[2:])]
    assert_same(actual, [expected[0], *expected[2:9], expected[9][:2]])
    assert len(sizes) <= 3  # the other request is by itself
    # Whether the cancelled sentence is searched depends on which thread came first.
    assert len(SENTENCES) - sum(sizes) in (0, 1)


def test_a_cancelled_search_ends_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = engine_of("transformer", 1)
    begun, gate, steps = hold(engine, "decode", monkeypatch)
    pending = engine.search(SENTENCES, Request(SETTINGS))
    assert begun.wait(60)
    assert pending.cancel()
    gate.set()
    with pytest.raises(CancelledError):
        pending.result()
    engine.close()
    assert len(steps) == 1


def test_a_model_in_training_mode_is_refused() -> None:
    engine = engine_of("transformer")
    engine.model.train()
    with pytest.raises(ValueError, match="in training mode"):
        in_windows(engine, 10, Request(SETTINGS))


def test_an_error_in_a_worker_ends_the_search() -> None:
    engine = engine_of("transformer", 2)
    engine.model.project = None  # type: ignore[method-assign, assignment]
    with pytest.raises(TypeError, match="not callable"):
        in_windows(engine, 10, Request(SETTINGS.model_copy(update={"batch_tokens": 20})))


@pytest.mark.parametrize("compute_type", ["bfloat16", "float16"])
def test_other_compute_types_find_similar_scores(compute_type: str) -> None:
    expected = in_windows(engine_of("transformer"), 10, Request(SETTINGS))
    engine = PyTorchEngine(assemble("transformer").to(TORCH_DTYPES[compute_type]))
    assert engine.name == f"torch {compute_type}"
    for (actual,), (best,) in zip(in_windows(engine, 10, Request(SETTINGS)), expected, strict=True):
        assert actual.score == pytest.approx(best.score, abs=0.05)
