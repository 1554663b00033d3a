"""Laws of beam search for all architectures; the references share no code with the search."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from architectures import ARCHITECTURES, ENSEMBLES
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search.beam import GROUP_SIZE, best_sums
from mtkit.decoding.search.search import NEG_INF
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.symbols import BOS, EOS, PAD
from searches import (
    SYMBOLS,
    assert_same,
    beam_search,
    everything,
    hypotheses_of,
    random_model,
    teacher_forcing,
)

SOURCE = torch.tensor([[4, 5, 6, 5, EOS], [6, EOS, PAD, PAD, PAD], [5, 5, 4, EOS, PAD]])

every_model = pytest.mark.parametrize("name", [*ARCHITECTURES, *ENSEMBLES])
both = pytest.mark.parametrize("name", ["transformer-neighbourhood", "seq2seq-general-feeding"])


@pytest.mark.slow
@every_model
def test_an_exhaustive_beam_finds_everything_in_order(name: str) -> None:
    model = random_model(name)
    log_probs = [teacher_forcing(model, source) for source in SOURCE]
    for alpha in (0.0, 0.7, 1.0):
        settings = DecodingSettings(beam=200, length_penalty=alpha, max_length=3)
        actual = beam_search(model, SOURCE, settings)
        for sentence in range(len(SOURCE)):
            expected = everything(log_probs[sentence], 3, alpha)
            assert_same(hypotheses_of(actual, sentence), expected)


@pytest.mark.parametrize("vocabulary", [1, 7, GROUP_SIZE, 2 * GROUP_SIZE - 1, 100, 513])
@pytest.mark.parametrize("count", [1, 4, 30])
def test_the_best_sums_are_those_of_sorting_all(vocabulary: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary + count)
    totals = torch.randn(3, 4, generator=generator)
    log_probs = torch.randn(3, 4, vocabulary, generator=generator)
    log_probs[:, :, ::5] = NEG_INF
    sums = (log_probs + totals.unsqueeze(2)).flatten(1)
    best, places = best_sums(totals, log_probs, count)
    expected = sums.sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(best, expected)
    assert torch.equal(sums.gather(1, places), expected)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@both
def test_finished_sentences_leave_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, seed=3)
    sizes: list[int] = []
    decode = model.decode

    def counting(memory: Any, state: Any, target: Tensor) -> object:
        sizes.append(target.shape[0])
        return decode(memory, state, target)

    monkeypatch.setattr(model, "decode", counting)
    actual = beam_search(model, SOURCE, DecodingSettings(beam=1, max_length=30))
    steps = actual.lengths + actual.finished.long()
    assert sizes == [int((steps > step).sum()) for step in range(len(sizes))]
    assert len(set(sizes)) > 1


@both
@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (3, 3), (2, 5), (4, 9)])
def test_lengths_are_between_the_minimum_and_the_maximum(
    name: str, shortest: int, longest: int
) -> None:
    settings = DecodingSettings(beam=4, min_length=shortest, max_length=longest)
    actual = beam_search(random_model(name), SOURCE, settings)
    is_present = actual.scores > -math.inf
    assert is_present[:, 0].all()
    assert (actual.lengths[is_present] >= shortest).all()
    assert (actual.lengths[is_present] <= longest).all()


@both
def test_tokens_never_contain_special_symbols(name: str) -> None:
    model = random_model(name)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        model.output_weight[[PAD, BOS]] *= 50
    actual = beam_search(model, SOURCE, DecodingSettings(beam=4, max_length=6))
    inside = torch.arange(actual.tokens.shape[2]) < actual.lengths.unsqueeze(2)
    assert torch.isin(actual.tokens[inside], torch.tensor(SYMBOLS)).all()
    assert (actual.tokens[~inside] == PAD).all()


@both
def test_scores_are_float32_for_every_compute_type(name: str) -> None:
    for dtype in (torch.bfloat16, torch.float64):
        model = random_model(name).to(dtype)
        actual = beam_search(model, SOURCE, DecodingSettings(beam=2, max_length=4))
        assert actual.scores.dtype == torch.float32
