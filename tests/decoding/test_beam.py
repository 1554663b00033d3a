"""Laws of beam search, on both architectures; the references share no code with the search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from architectures import ARCHITECTURES, make
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.beam import FOLD, best_sums
from mtkit.decoding.search import NEVER, Hypotheses
from mtkit.models.base import TranslationModel
from mtkit.tokenizer.symbols import BOS, EOS, PAD
from searches import beam_search

VOCABULARY = 7
SYMBOLS = [symbol for symbol in range(VOCABULARY) if symbol not in (PAD, BOS, EOS)]
SOURCE = torch.tensor([[4, 5, 6, 5, EOS], [6, EOS, PAD, PAD, PAD], [5, 5, 4, EOS, PAD]])

every_architecture = pytest.mark.parametrize("name", ARCHITECTURES)
both = pytest.mark.parametrize("name", ["transformer-neighbourhood", "seq2seq-general-feeding"])

Scored = tuple[tuple[int, ...], float]
LogProbs = Callable[[tuple[int, ...]], list[float]]


def random_model(name: str, seed: int = 0) -> TranslationModel:
    """Peaked distributions, so that hypotheses end at different lengths."""
    model = make(name, seed=seed, vocab=VOCABULARY)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5)
    return model


def teacher_forcing(model: TranslationModel, source: Tensor, min_length: int = 0) -> LogProbs:
    """log P of every symbol that may follow a prefix, for one sentence without padding."""
    source = source[source != PAD].unsqueeze(0)

    @cache
    def log_probs_after(prefix: tuple[int, ...]) -> list[float]:
        with torch.inference_mode():
            hidden = model(source, source != PAD, torch.tensor([[BOS, *prefix]]))
            probs = model.project(hidden)[0, -1].softmax(-1)
        allowed = [*SYMBOLS, *([EOS] if len(prefix) >= min_length else [])]
        return (probs / probs[allowed].sum()).log().tolist()

    return log_probs_after


def score(log_probs: LogProbs, tokens: tuple[int, ...], alpha: float, ends: bool) -> float:
    """log P / |y|^alpha, symbol by symbol."""
    symbols = [*tokens, EOS] if ends else tokens
    total = sum(log_probs(tokens[:position])[symbol] for position, symbol in enumerate(symbols))
    return total / float(max(len(tokens), 1) ** alpha)


def everything(log_probs: LogProbs, longest: int, alpha: float) -> list[Scored]:
    """Every hypothesis there is, best first: ended ones, and unended ones of the full length."""
    found = [
        (tokens, score(log_probs, tokens, alpha, ends=length < longest))
        for length in range(longest + 1)
        for tokens in itertools.product(SYMBOLS, repeat=length)
    ]
    return sorted(found, key=lambda scored: -scored[1])


def one_by_one(log_probs: LogProbs, settings: DecodingSettings) -> list[Scored]:
    """Beam search over lists, a hypothesis at a time."""
    beam, alpha = settings.beam, settings.length_penalty
    live: list[Scored] = [((), 0.0)]
    finished: list[Scored] = []
    for length in range(settings.max_length):
        grown = [
            ((*tokens, symbol), total + log_probs(tokens)[symbol])
            for tokens, total in live
            for symbol in [*SYMBOLS, *([EOS] if length >= settings.min_length else [])]
        ]
        grown.sort(key=lambda scored: -scored[1])
        is_last = length + 1 == settings.max_length
        for tokens, total in grown[:beam]:
            if tokens[-1] == EOS:
                finished.append((tokens[:-1], total / max(length, 1) ** alpha))
            elif is_last:
                finished.append((tokens, total / (length + 1) ** alpha))
        if len(finished) >= beam:
            break
        live = [scored for scored in grown[: 2 * beam] if scored[0][-1] != EOS][:beam]
    return sorted(finished, key=lambda scored: -scored[1])[:beam]


def hypotheses_of(found: Hypotheses, sentence: int) -> list[Scored]:
    return [
        (tuple(tokens[:length]), value)
        for tokens, length, value in zip(
            found.tokens[sentence].tolist(),
            found.lengths[sentence].tolist(),
            found.scores[sentence].tolist(),
            strict=True,
        )
        if value > -math.inf
    ]


def assert_same(found: list[Scored], wanted: list[Scored]) -> None:
    assert [tokens for tokens, _ in found] == [tokens for tokens, _ in wanted]
    assert [value for _, value in found] == pytest.approx([v for _, v in wanted], abs=1e-4)


@every_architecture
@pytest.mark.parametrize("alpha", [0.0, 0.7, 1.0])
def test_a_beam_as_wide_as_the_search_space_finds_all_of_it_in_order(
    name: str, alpha: float
) -> None:
    model = random_model(name)
    settings = DecodingSettings(beam=200, length_penalty=alpha, max_length=3)
    found = beam_search(model, SOURCE, settings)
    for sentence, source in enumerate(SOURCE):
        wanted = everything(teacher_forcing(model, source), 3, alpha)
        assert_same(hypotheses_of(found, sentence), wanted)


@both
@pytest.mark.parametrize("seed", range(3))
def test_no_narrower_beam_beats_the_full_one(name: str, seed: int) -> None:
    model = random_model(name, seed)
    full = beam_search(model, SOURCE, DecodingSettings(beam=400, max_length=4)).scores[:, 0]
    for beam in (1, 2, 3, 5):
        narrow = beam_search(model, SOURCE, DecodingSettings(beam=beam, max_length=4)).scores[:, 0]
        assert (narrow <= full + 1e-5).all()


@every_architecture
def test_beam_1_is_greedy(name: str) -> None:
    model = random_model(name)
    found = beam_search(model, SOURCE, DecodingSettings(beam=1, max_length=8))
    for sentence, source in enumerate(SOURCE):
        log_probs = teacher_forcing(model, source)
        tokens: tuple[int, ...] = ()
        while len(tokens) < 8:
            best = max([*SYMBOLS, EOS], key=log_probs(tokens).__getitem__)
            if best == EOS:
                break
            tokens = (*tokens, best)
        assert hypotheses_of(found, sentence)[0][0] == tokens
        assert found.finished[sentence, 0].item() == (len(tokens) < 8)


@both
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("beam", [2, 3, 4])
def test_it_is_the_search_that_lists_of_hypotheses_would_make(
    name: str, beam: int, seed: int
) -> None:
    model = random_model(name, seed)
    settings = DecodingSettings(beam=beam, max_length=6, min_length=seed % 3)
    found = beam_search(model, SOURCE, settings)
    for sentence, source in enumerate(SOURCE):
        wanted = one_by_one(teacher_forcing(model, source, settings.min_length), settings)
        assert_same(hypotheses_of(found, sentence), wanted)


@pytest.mark.parametrize("vocabulary", [1, 7, FOLD, 2 * FOLD - 1, 100, 513])
@pytest.mark.parametrize("count", [1, 4, 30])
def test_the_best_sums_are_those_of_sorting_all(vocabulary: int, count: int) -> None:
    generator = torch.Generator().manual_seed(vocabulary + count)
    totals = torch.randn(3, 4, generator=generator)
    log_probs = torch.randn(3, 4, vocabulary, generator=generator)
    log_probs[:, :, ::5] = NEVER
    sums = (log_probs + totals.unsqueeze(2)).flatten(1)
    best, places = best_sums(totals, log_probs, count)
    wanted = sums.sort(dim=1, descending=True).values[:, :count]
    assert torch.equal(best, wanted)
    assert torch.equal(sums.gather(1, places), wanted)
    assert all(len(set(row)) == len(row) for row in places.tolist())


@every_architecture
def test_hypotheses_are_distinct_and_sorted_and_scored_by_the_model(name: str) -> None:
    model = random_model(name)
    settings = DecodingSettings(beam=6, max_length=7, length_penalty=0.8)
    found = beam_search(model, SOURCE, settings)
    for sentence, source in enumerate(SOURCE):
        log_probs = teacher_forcing(model, source)
        ranked = hypotheses_of(found, sentence)
        assert len({tokens for tokens, _ in ranked}) == len(ranked) == 6
        assert ranked == sorted(ranked, key=lambda scored: -scored[1])
        for (tokens, value), ends in zip(ranked, found.finished[sentence].tolist(), strict=True):
            assert value == pytest.approx(score(log_probs, tokens, 0.8, ends), abs=1e-4)
            assert ends == (len(tokens) < 7)


@every_architecture
def test_neither_batch_mates_nor_padding_nor_their_leaving_change_a_sentence(name: str) -> None:
    model = random_model(name, seed=1).float()
    settings = DecodingSettings(beam=3, max_length=12)
    together = beam_search(model, SOURCE, settings)
    for sentence, source in enumerate(SOURCE):
        alone = beam_search(model, source[source != PAD].unsqueeze(0), settings)
        assert_same(hypotheses_of(together, sentence), hypotheses_of(alone, 0))


@both
def test_finished_sentences_leave_the_batch(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(name, seed=3)
    sizes: list[int] = []
    decode = model.decode

    def counting(memory: Any, state: Any, target: Tensor) -> object:
        sizes.append(target.shape[0])
        return decode(memory, state, target)

    monkeypatch.setattr(model, "decode", counting)
    found = beam_search(model, SOURCE, DecodingSettings(beam=1, max_length=30))
    steps = found.lengths + found.finished.long()
    assert sizes == [int((steps > step).sum()) for step in range(len(sizes))]
    assert len(set(sizes)) > 1


@both
@pytest.mark.parametrize(("shortest", "longest"), [(0, 1), (3, 3), (2, 5), (9, 4)])
def test_lengths_are_between_the_minimum_and_the_maximum(
    name: str, shortest: int, longest: int
) -> None:
    settings = DecodingSettings(beam=4, min_length=shortest, max_length=longest)
    found = beam_search(random_model(name), SOURCE, settings)
    there = found.scores > -math.inf
    assert there[:, 0].all()
    assert (found.lengths[there] >= min(shortest, longest)).all()
    assert (found.lengths[there] <= longest).all()


@both
def test_padding_and_bos_and_eos_are_never_among_the_tokens(name: str) -> None:
    model = random_model(name)
    with torch.no_grad():
        model.output_weight[[PAD, BOS]] *= 50
    found = beam_search(model, SOURCE, DecodingSettings(beam=4, max_length=6))
    inside = torch.arange(found.tokens.shape[2]) < found.lengths.unsqueeze(2)
    assert torch.isin(found.tokens[inside], torch.tensor(SYMBOLS)).all()
    assert (found.tokens[~inside] == PAD).all()


@both
def test_scores_are_float32_whatever_the_model_computes_in(name: str) -> None:
    for dtype in (torch.bfloat16, torch.float64):
        model = random_model(name).to(dtype)
        found = beam_search(model, SOURCE, DecodingSettings(beam=2, max_length=4))
        assert found.scores.dtype == torch.float32
