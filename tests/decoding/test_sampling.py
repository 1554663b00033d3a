"""Laws of sampling."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from architectures import ENSEMBLES, assemble, sources
from mtkit.config.decoding import (
    MAX_LENGTH_PENALTY,
    MIN_SAMPLING_VALUE,
    DecodingSettings,
    SamplingSettings,
)
from mtkit.decoding.search.sampling import Sampler, uniform_noise
from mtkit.decoding.search.search import Hypotheses
from mtkit.models.interfaces import TranslationModel
from mtkit.symbols import BOS, EOS, PAD
from searches import beam_search, sample

SOURCE = sources([6, 3, 4])
KEYS: list[tuple[int, ...]] = [(7, 0), (8, 0), (8, 1)]
LONGEST = DecodingSettings(max_length=9)

every_kind = pytest.mark.parametrize(
    "name", ["transformer", "seq2seq-general-feeding", ENSEMBLES[0]]
)


def sampler(
    keys: list[tuple[int, ...]], count: int, settings: DecodingSettings = LONGEST, **sampling: Any
) -> Sampler:
    asked = SamplingSettings.model_validate(sampling)
    noise = uniform_noise(keys, count, settings.max_length, asked.seed)
    return Sampler(asked, noise, settings.length_penalty)


def draw(model: TranslationModel[Any, Any], count: int = 3, **sampling: Any) -> Hypotheses:
    return sample(model, SOURCE, LONGEST, sampler(KEYS, count, **sampling))


def first_log_probs(model: TranslationModel[Any, Any], source: Tensor) -> Tensor:
    with torch.inference_mode():
        hidden = model(source, source != PAD, torch.full((len(source), 1), BOS))
        return model.project(hidden)[:, 0].log_softmax(-1)


@every_kind
def test_a_sample_depends_only_on_seed_and_key(name: str) -> None:
    model = assemble(name)
    together = draw(model)
    for sentence, source in enumerate(SOURCE):
        unpadded = source[source != PAD].unsqueeze(0)
        alone = sample(model, unpadded, LONGEST, sampler([KEYS[sentence]], 2))
        for index in range(2):
            length = int(alone.lengths[0, index])
            assert together.lengths[sentence, index] == length
            assert (
                together.tokens[sentence, index, :length] == alone.tokens[0, index, :length]
            ).all()
    assert draw(model).tokens.equal(together.tokens)
    assert not draw(model, seed=2).tokens.equal(together.tokens)
    assert not together.tokens[:, 0].equal(together.tokens[:, 1])


def test_equal_sentences_get_different_samples() -> None:
    source = SOURCE[:1].expand(2, -1)
    drawn = sample(assemble("transformer"), source, LONGEST, sampler([(1, 0), (2, 0)], 1))
    assert not drawn.tokens[0].equal(drawn.tokens[1])


def test_forbidden_symbols_are_never_drawn() -> None:
    least = Sampler(SamplingSettings(), torch.zeros(3, 1, 9), 1.0)
    drawn = sample(assemble("transformer"), SOURCE, LONGEST, least)
    assert (drawn.lengths > 0).any()
    assert not (drawn.tokens[drawn.lengths > 0] == BOS).any()
    assert (drawn.tokens[:, :, 0][drawn.lengths > 0] != PAD).all()


@every_kind
def test_scores_are_those_of_the_model_without_temperature_or_truncation(name: str) -> None:
    model = assemble(name)
    actual = draw(model, temperature=0.7, top_k=8)
    for sentence, source in enumerate(SOURCE):
        for index in range(3):
            length = int(actual.lengths[sentence, index])
            target = [BOS, *actual.tokens[sentence, index, :length].tolist(), EOS]
            with torch.inference_mode():
                row = source.unsqueeze(0)
                hidden = model(row, row != PAD, torch.tensor([target[:-1]]))
                logits = model.project(hidden)[0]
                logits[:, [PAD, BOS]] = -math.inf
                log_probs = logits.log_softmax(-1)
            taken = log_probs.gather(1, torch.tensor(target[1:]).unsqueeze(1)).squeeze(1)
            total = taken.sum() if actual.finished[sentence, index] else taken[:-1].sum()
            assert actual.scores[sentence, index].item() == pytest.approx(
                total.item() / max(length, 1), abs=1e-4
            )


@every_kind
def test_top_k_1_and_low_temperature_are_greedy(name: str) -> None:
    model = assemble(name)
    greedy = beam_search(model, SOURCE, LONGEST.model_copy(update={"beam": 1}))
    for sampled in (draw(model, top_k=1), draw(model, temperature=1e-6), draw(model, top_p=1e-6)):
        for index in range(3):
            assert sampled.lengths[:, index].equal(greedy.lengths[:, 0])
            assert sampled.tokens[:, index].equal(greedy.tokens[:, 0])
            torch.testing.assert_close(sampled.scores[:, index], greedy.scores[:, 0])


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_frequencies_match_the_probabilities(temperature: float) -> None:
    model = assemble("transformer")
    one = DecodingSettings(max_length=1)
    asked = sampler([(1, 0)], 4000, one, temperature=temperature)
    drawn = sample(model, SOURCE[:1], one, asked)
    symbols = drawn.tokens[0, :, 0].masked_fill(drawn.finished[0], EOS)
    log_probs = first_log_probs(model, SOURCE[:1])[0] / temperature
    log_probs[[PAD, BOS]] = float("-inf")
    expected = log_probs.softmax(-1)
    counted = symbols.bincount(minlength=len(expected)) / 4000
    deviation = (expected * (1 - expected) / 4000).sqrt()
    assert ((counted - expected).abs() <= 4.5 * deviation + 1e-9).all()


@pytest.mark.parametrize("top_p", [0.2, 0.6, 0.95])
def test_top_p_keeps_the_smallest_set_that_reaches_p(top_p: float) -> None:
    model = assemble("transformer")
    one = DecodingSettings(max_length=1)
    drawn = sample(model, SOURCE[:1], one, sampler([(1, 0)], 3000, one, top_p=top_p))
    symbols = set(drawn.tokens[0, :, 0].masked_fill(drawn.finished[0], EOS).tolist())
    probabilities = first_log_probs(model, SOURCE[:1])[0].exp()
    probabilities[[PAD, BOS]] = 0.0
    expected: set[int] = set()
    reached = 0.0
    for probability, symbol in sorted(zip(probabilities.tolist(), range(30), strict=True))[::-1]:
        if reached >= top_p * probabilities.sum():
            break
        expected.add(symbol)
        reached += probability
    assert symbols <= expected
    assert {s for s in expected if probabilities[s] > 0.005} <= symbols


EXTREMES = [
    {"top_p": MIN_SAMPLING_VALUE},
    {"top_p": 1 - 2**-53},
    {"temperature": MIN_SAMPLING_VALUE},
    {"temperature": 1e6},
    {"temperature": 1e6, "top_p": MIN_SAMPLING_VALUE, "top_k": 1},
    {"temperature": MIN_SAMPLING_VALUE, "top_p": MIN_SAMPLING_VALUE},
    {"top_k": 10**30, "seed": 10**30},
]


@pytest.mark.parametrize("sampling", EXTREMES, ids=str)
@pytest.mark.parametrize("length_penalty", [0.0, 5e-324, MAX_LENGTH_PENALTY])
def test_the_extremes_that_settings_allow_draw_symbols(
    sampling: dict[str, Any], length_penalty: float
) -> None:
    settings = DecodingSettings(max_length=9, length_penalty=length_penalty)
    stepper = sampler(KEYS, 3, settings, **sampling)
    drawn = sample(assemble("transformer"), SOURCE, settings, stepper)
    assert drawn.scores.isfinite().all()
    assert ((drawn.tokens >= 0) & (drawn.tokens < 30)).all()
    assert (drawn.lengths > 0).any()


@pytest.mark.parametrize(
    "sampling", [{"top_p": 0.0}, {"top_p": 1e-46}, {"top_p": 1e-300}, {"temperature": 1e-46}]
)
def test_numbers_that_float32_rounds_to_zero_are_refused(sampling: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"greater than or equal to 0\.000001"):
        SamplingSettings.model_validate(sampling)
