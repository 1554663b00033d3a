"""Laws of constraints: one at a time, combined, in beam search and in sampling."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mtkit.config.decoding import DecodingSettings, SamplingSettings
from mtkit.decoding.search.constraints import (
    begin_with,
    forbid_repeated_ngrams,
    penalise_repetition,
)
from mtkit.decoding.search.sampling import Sampler, uniform_noise
from mtkit.decoding.search.search import NEG_INF, Live
from mtkit.symbols import BOS, EOS, PAD
from searches import (
    SYMBOLS,
    assert_same,
    beam_search,
    everything,
    hypotheses_of,
    ngrams_of,
    one_by_one,
    random_model,
    sample,
    teacher_forcing,
)

SOURCE = torch.tensor([[4, 5, 6, 5, EOS], [6, EOS, PAD, PAD, PAD], [5, 5, 4, EOS, PAD]])
both = pytest.mark.parametrize("name", ["transformer-neighbourhood", "seq2seq-general-feeding"])

DECODING = st.builds(
    DecodingSettings,
    beam=st.sampled_from([1, 2, 4]),
    max_length=st.just(6),
    min_length=st.integers(0, 2),
    no_repeat_ngram=st.integers(0, 3),
    repetition_penalty=st.sampled_from([1.0, 1.7, 0.6]),
)
PREFIX = st.lists(st.sampled_from(SYMBOLS), max_size=4)
PREFIXES = st.lists(PREFIX, min_size=3, max_size=3)


def live_of(written: list[list[int]]) -> Live:
    tokens = torch.tensor([[[BOS, *row]] for row in written])
    rows = torch.arange(len(written))
    return Live(rows, tokens, torch.zeros(len(rows), 1), rows.unsqueeze(1))


@pytest.mark.slow
@settings(max_examples=25)
@given(decoding=DECODING, prefixes=PREFIXES, seed=st.integers(0, 3))
@both
def test_the_search_equals_a_reference_implementation(
    name: str, decoding: DecodingSettings, prefixes: list[list[int]], seed: int
) -> None:
    model = random_model(name, seed)
    actual = beam_search(model, SOURCE, decoding, prefixes)
    for sentence, (source, prefix) in enumerate(zip(SOURCE, prefixes, strict=True)):
        expected = one_by_one(teacher_forcing(model, source, decoding, prefix), decoding)
        assert_same(hypotheses_of(actual, sentence), expected)


@both
def test_an_exhaustive_beam_finds_everything_allowed(name: str) -> None:
    model = random_model(name)
    decoding = DecodingSettings(beam=200, max_length=3, no_repeat_ngram=1, repetition_penalty=1.5)
    prefixes = [[4], [], [5, 6]]
    actual = beam_search(model, SOURCE, decoding, prefixes)
    for sentence, (source, prefix) in enumerate(zip(SOURCE, prefixes, strict=True)):
        log_probs = teacher_forcing(model, source, decoding, prefix)
        allowed = [one for one in everything(log_probs, 3, 1.0) if one[1] > -math.inf]
        assert_same(hypotheses_of(actual, sentence), allowed)


@given(
    rows=st.lists(st.lists(st.sampled_from(SYMBOLS), min_size=5, max_size=5), min_size=1),
    penalty=st.floats(0.2, 5.0),
)
def test_the_repetition_penalty_applies_once_to_repeated_symbols(
    rows: list[list[int]], penalty: float
) -> None:
    logits = torch.randn(len(rows), 7, generator=torch.Generator().manual_seed(1))
    actual = penalise_repetition(logits.clone(), live_of(rows), penalty=penalty)
    for before, after, written in zip(logits.tolist(), actual.tolist(), rows, strict=True):
        for symbol, (old, new) in enumerate(zip(before, after, strict=True)):
            factor = (penalty if old < 0 else 1 / penalty) if symbol in written else 1.0
            assert new == pytest.approx(old * factor, rel=1e-5)


@given(
    rows=st.lists(PREFIX.map(lambda row: (row + SYMBOLS)[:4]), min_size=1), size=st.integers(1, 6)
)
def test_only_symbols_that_would_repeat_an_ngram_are_forbidden(
    rows: list[list[int]], size: int
) -> None:
    actual = forbid_repeated_ngrams(torch.zeros(len(rows), 30), live_of(rows), size=size)
    for logits, written in zip(actual.tolist(), rows, strict=True):
        for symbol in range(EOS + 1, 30):
            ngrams = ngrams_of([*written, symbol], size)
            is_repeated = bool(ngrams) and ngrams[-1] in ngrams[:-1]
            assert (logits[symbol] == NEG_INF) == is_repeated


def test_a_prefix_overrides_other_constraints() -> None:
    logits = torch.full((2, 7), NEG_INF)
    actual = begin_with(logits, live_of([[4], [5]]), prefixes=torch.tensor([[4, 4], [6, PAD]]))
    assert actual.log_softmax(-1)[0].tolist() == [NEG_INF] * 4 + [0.0] + [NEG_INF] * 2
    assert (actual[1] == NEG_INF).all()  # is left as it was


@pytest.mark.slow
@settings(max_examples=25)
@given(prefixes=PREFIXES, seed=st.integers(0, 5))
@both
def test_samples_begin_with_their_prefix(name: str, prefixes: list[list[int]], seed: int) -> None:
    model = random_model(name)
    decoding = DecodingSettings(max_length=5)
    noise = uniform_noise([(0,), (1,), (2,)], 3, 5, seed)
    actual = sample(model, SOURCE, decoding, Sampler(SamplingSettings(), noise, 1.0), prefixes)
    for of_sentence, prefix in zip(actual.tokens.tolist(), prefixes, strict=True):
        assert all(tokens[: len(prefix)] == prefix for tokens in of_sentence)


@both
def test_empty_prefixes_change_no_bit(name: str) -> None:
    model, decoding = random_model(name), DecodingSettings(beam=3, max_length=6)
    free, empty = (
        beam_search(model, SOURCE, decoding),
        beam_search(model, SOURCE, decoding, [[], [], []]),
    )
    assert torch.equal(free.tokens, empty.tokens) and torch.equal(free.scores, empty.scores)
    beside = beam_search(model, SOURCE, decoding, [[], [4], []])
    assert torch.equal(free.scores[::2], beside.scores[::2])
