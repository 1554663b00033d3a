"""Functions that search by settings, and references that share no code with them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from architectures import assemble
from mtkit.config.decoding import DecodingSettings
from mtkit.decoding.search.beam import Beam
from mtkit.decoding.search.constraints import constraints_of
from mtkit.decoding.search.sampling import Sampler
from mtkit.decoding.search.search import Hypotheses, search
from mtkit.models.interfaces import TranslationModel
from mtkit.symbols import BOS, EOS, PAD

VOCABULARY = 7
SYMBOLS = [symbol for symbol in range(VOCABULARY) if symbol not in (PAD, BOS, EOS)]
ANY = DecodingSettings()

Scored = tuple[tuple[int, ...], float]
LogProbs = Callable[[tuple[int, ...]], list[float]]


def beam_search(
    model: TranslationModel[Any, Any],
    source: Tensor,
    settings: DecodingSettings,
    prefixes: Sequence[Sequence[int]] = (),
) -> Hypotheses:
    stepper = Beam(settings.beam, settings.length_penalty)
    constraints = constraints_of(settings, prefixes)
    return search(model, source, stepper, constraints, settings.max_length)


def sample(
    model: TranslationModel[Any, Any],
    source: Tensor,
    settings: DecodingSettings,
    sampler: Sampler,
    prefixes: Sequence[Sequence[int]] = (),
) -> Hypotheses:
    return search(model, source, sampler, constraints_of(settings, prefixes), settings.max_length)


def random_model(name: str, seed: int = 0) -> TranslationModel[Any, Any]:
    """Return a model with peaked distributions, so that hypotheses have different lengths."""
    model = assemble(name, seed=seed, vocab=VOCABULARY)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.5)
    return model


def teacher_forcing(
    model: TranslationModel[Any, Any],
    source: Tensor,
    settings: DecodingSettings = ANY,
    prefix: Sequence[int] = (),
) -> LogProbs:
    """Return a function from a prefix to log P of each next symbol, for one source sentence."""
    source = source[source != PAD].unsqueeze(0)

    @cache
    def log_probs_after(written: tuple[int, ...]) -> list[float]:
        with torch.inference_mode():
            hidden = model(source, source != PAD, torch.tensor([[BOS, *written]]))
            logits = model.project(hidden)[0, -1].tolist()
        for symbol in set(written):
            factor = settings.repetition_penalty
            logits[symbol] *= factor if logits[symbol] < 0 else 1 / factor
        probs = [math.exp(logit) for logit in logits]
        allowed = [symbol for symbol in [*SYMBOLS, EOS] if may_follow(symbol, written)]
        total = sum(probs[symbol] for symbol in allowed)
        return [
            math.log(probs[symbol] / total) if symbol in allowed else -math.inf
            for symbol in range(VOCABULARY)
        ]

    def may_follow(symbol: int, written: tuple[int, ...]) -> bool:
        if len(written) < len(prefix):
            return symbol == prefix[len(written)]
        if symbol == EOS:
            return len(written) >= settings.min_length
        ngrams = ngrams_of((*written, symbol), settings.no_repeat_ngram)
        return not ngrams or ngrams[-1] not in ngrams[:-1]

    return log_probs_after


def ngrams_of(tokens: Sequence[int], size: int) -> list[tuple[int, ...]]:
    """Return all n-grams of `size` tokens in order; none for size 0."""
    places = range(len(tokens) - size + 1) if size else range(0)
    return [tuple(tokens[place : place + size]) for place in places]


def score(log_probs: LogProbs, tokens: tuple[int, ...], alpha: float, ends: bool) -> float:
    """Return log P / |y|^alpha, summed symbol by symbol."""
    symbols = [*tokens, EOS] if ends else tokens
    total = sum(log_probs(tokens[:position])[symbol] for position, symbol in enumerate(symbols))
    return total / float(max(len(tokens), 1) ** alpha)


def everything(log_probs: LogProbs, longest: int, alpha: float) -> list[Scored]:
    """Return all possible hypotheses from best to worst; only those of full length lack EOS."""
    hypotheses = [
        (tokens, score(log_probs, tokens, alpha, ends=length < longest))
        for length in range(longest + 1)
        for tokens in itertools.product(SYMBOLS, repeat=length)
    ]
    return sorted(hypotheses, key=lambda scored: -scored[1])


def one_by_one(log_probs: LogProbs, settings: DecodingSettings) -> list[Scored]:
    """Search a beam with lists, one hypothesis at a time."""
    beam, alpha = settings.beam, settings.length_penalty
    live: list[Scored] = [((), 0.0)]
    finished: list[Scored] = []
    for length in range(settings.max_length):
        grown = [
            ((*tokens, symbol), total + log_probs(tokens)[symbol])
            for tokens, total in live
            for symbol in [*SYMBOLS, EOS]
            if log_probs(tokens)[symbol] > -math.inf
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


def hypotheses_of(batch: Hypotheses, sentence: int) -> list[Scored]:
    return [
        (tuple(tokens[:length]), value)
        for tokens, length, value in zip(
            batch.tokens[sentence].tolist(),
            batch.lengths[sentence].tolist(),
            batch.scores[sentence].tolist(),
            strict=True,
        )
        if value > -math.inf
    ]


def assert_same(actual: list[Scored], expected: list[Scored]) -> None:
    assert [tokens for tokens, _ in actual] == [tokens for tokens, _ in expected]
    assert [value for _, value in actual] == pytest.approx([v for _, v in expected], abs=1e-4)
