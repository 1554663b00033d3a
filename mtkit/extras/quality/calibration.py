"""The quality estimator of a model, made at the end of training.

The token store shows what the training data is like. Translations of the validation set show how
far scores can be trusted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mtkit.batching.store import Store
from mtkit.corpus.characters import count_letters
from mtkit.corpus.read import Pair
from mtkit.corpus.spread import spread
from mtkit.corpus.statistics import compute_statistics
from mtkit.decoding.api import Translator
from mtkit.decoding.engines.engine import Request
from mtkit.decoding.engines.pytorch import PyTorchEngine
from mtkit.decoding.estimation.bigrams import SeenBigrams
from mtkit.decoding.estimation.estimator import Calibration, Estimator, Features
from mtkit.decoding.estimation.facts import TrainingFacts, TranslatedLine
from mtkit.decoding.estimation.flags import FLAGS, find_flags
from mtkit.decoding.limits import (
    MAX_CALIBRATED,
    MAX_CALIBRATION_COST,
    MIN_CALIBRATED,
    limit_lengths,
)
from mtkit.decoding.text.demands import find_unmet
from mtkit.decoding.text.line import Context, Line, Translation
from mtkit.decoding.text.pipeline import begin_line, demands_of, list_first_steps, own_text_of
from mtkit.decoding.text.text import Text
from mtkit.models.encoder_decoder import EncoderDecoder
from mtkit.plugins import find_action
from mtkit.report import say, silently
from mtkit.scoring.metrics import score, sentence_chrf
from mtkit.training.setup import RunInputs

BIGRAM_BLOCK = 1 << 16
"""Number of training pairs whose subword pairs are collected at once."""
SAMPLED_PAIRS = 5_000
"""Number of training pairs whose lengths, scripts, languages and flags are looked at."""
MAX_FLAGGED = 0.05
"""Largest share of the corpus's own translations that may have a flag.

A model never sets a flag with a larger share.
"""
LIKE_TRAINING = 0.9
"""Share of the validation sources that counts as similar to the training data."""
MIN_UNLIKE = 0.2
"""A source with a smaller share of unseen subword pairs is never unlike the training data."""
MIN_TRANSLATED = 50
"""Fewest lines that must go through the model; lines without letters to translate do not."""
STAND_IN_COST = 0.01
"""Largest cost of the choice of a stand-in, as MAX_CALIBRATION_COST."""
FOLDS = 5
"""Confidence is compared with lines that it was not fitted to, by cross-validation."""
TYPICAL_FEATURES = np.array([[1.0, 1.0], [2.0, 1.0]])
TYPICAL_CHRF = np.array([0.5, 0.3])
"""Features and chrF / 100 of lines that are translated badly, as in several models.

The curve is fitted to them, too: an easy validation set does not show what a bad line looks like.
"""
TYPICAL_SHARE = 0.005
"""How much each of them counts, as a share of the lines of the validation set."""
RIDGE = 0.01
"""Penalty of squared weights, which keeps them finite."""
NEWTON_STEPS = 30
MIN_SCALE = 1e-6
"""Added to standard deviations, because that of a feature may be 0."""
DIGITS = 4
"""Decimals of the fitted numbers, so that rounding on other machines hardly changes them."""

_Numbers = NDArray[np.float64]


def make_estimator(inputs: RunInputs, model: EncoderDecoder, steps: int) -> Estimator:
    """Return the estimator of a model after so many steps of training.

    It has no calibration if the validation set has too few lines. The result depends on nothing
    but the arguments, so that an interrupted run ends with the same estimator.
    """
    sample = _sample_pairs(inputs)
    facts = collect_facts(inputs, sample)
    translator = Translator(
        PyTorchEngine(model),
        inputs.tokenizer,
        Request(inputs.config.decoding),
        estimator=Estimator(facts),
    )
    with closing(translator):
        stand_in, stand_in_translation = _find_stand_in(inputs, translator, facts, sample, steps)
        facts = replace(facts, stand_in=stand_in, stand_in_translation=stand_in_translation)
        calibration = _calibrate(inputs, translator, steps)
    return Estimator(facts, calibration)


def _find_stand_in(
    inputs: RunInputs,
    translator: Translator,
    facts: TrainingFacts,
    sample: Sequence[Pair],
    steps: int,
) -> tuple[str, str]:
    """Return what the model should read in place of a placeholder, and how that is translated."""
    choose_stand_in = find_action("stand_in")
    if choose_stand_in is None:
        return "", ""
    data = inputs.data
    lines = [
        Line(source, tag=tag)
        for source, tag in zip(data.valid_source, data.valid_tags, strict=True)
    ]
    subwords = max(1, sum(map(len, inputs.tokenizer.encode_target(list(data.valid_target)))))
    budget = STAND_IN_COST * steps * inputs.config.batching.max_tokens
    max_translations = int(budget * len(lines) / subwords)
    chosen: tuple[str, str] = choose_stand_in(
        sample, translator, facts, lines, data.valid_target, max_translations
    )
    return chosen


def collect_facts(inputs: RunInputs, sample: list[Pair]) -> TrainingFacts:
    """Return what the training data and the validation sources show."""
    with silently():
        languages = (None, inputs.config.data.target_language)
        # The sample is text of the corpus, which a model must not hold.
        statistics = replace(compute_statistics(sample, languages), sample=())
    facts = TrainingFacts(
        statistics=statistics,
        source_bigrams=SeenBigrams.of(_blocks(inputs.data.train, target=False)),
        target_bigrams=SeenBigrams.of(_blocks(inputs.data.train, target=True)),
        max_unseen_share=1.0,  # so that no line is "unlike" in `_unreliable_flags`; replaced below
    )
    valid_sources = inputs.tokenizer.encode_source(inputs.data.valid_source)
    shares = [facts.source_bigrams.unseen_share([ids]) for ids in valid_sources]
    usual_share = float(np.quantile(shares, LIKE_TRAINING))
    return replace(
        facts,
        max_unseen_share=round(max(MIN_UNLIKE, usual_share), DIGITS),
        unreliable_flags=_unreliable_flags(sample, facts, inputs),
    )


def _blocks(store: Store, *, target: bool) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the joined ids of one side of many pairs, and their lengths."""
    for first in range(0, len(store), BIGRAM_BLOCK):
        rows = np.arange(first, min(first + BIGRAM_BLOCK, len(store)))
        ids, lengths = store.side(rows, target=target)
        yield ids.astype(np.int64), lengths


def _sample_pairs(inputs: RunInputs) -> list[Pair]:
    """Return up to SAMPLED_PAIRS training pairs, at equal distances, decoded to text."""
    store = inputs.data.train
    rows = np.array(spread(range(len(store)), SAMPLED_PAIRS))
    source_ids, source_lengths = store.side(rows, target=False)
    target_ids, target_lengths = store.side(rows, target=True)
    sources = inputs.tokenizer.decode_source(_split(source_ids, source_lengths))
    targets = inputs.tokenizer.decode(_split(target_ids, target_lengths))
    pairs: list[Pair] = []
    for row, (source, target) in enumerate(zip(sources, targets, strict=True)):
        pairs.append(Pair(source, target, corpus=0, file="", line=row))
    return pairs


def _split(ids: NDArray[np.integer], lengths: NDArray[np.int64]) -> list[list[int]]:
    """Return the ids of each sentence; `ids`: those of all sentences, end to end."""
    ends = lengths.cumsum()[:-1]
    return [part.tolist() for part in np.split(ids, ends)]


def _unreliable_flags(
    sample: Sequence[Pair], facts: TrainingFacts, inputs: RunInputs
) -> frozenset[str]:
    """Return the flags that too many of the corpus's own translations would have."""
    sources = inputs.tokenizer.encode_source([pair.source for pair in sample])
    targets = inputs.tokenizer.encode_target([pair.target for pair in sample])
    counts = dict.fromkeys((flag.name for flag in FLAGS), 0)
    context = Context(inputs.tokenizer, Request(inputs.config.decoding))
    for pair, source_ids, target_ids in zip(sample, sources, targets, strict=True):
        pieces = begin_line(Line(pair.source), context, list_first_steps())
        unmet = find_unmet(demands_of(pieces), Text(pair.target, ()))
        line = TranslatedLine(
            pair.source,
            pair.target,
            letters=count_letters(own_text_of(pieces)),
            lost=[demand.text for demand in unmet],
            source_parts=[source_ids],
            target_parts=[target_ids],
        )
        for name in find_flags(line, facts):
            counts[name] += 1
    return frozenset(name for name, count in counts.items() if count > MAX_FLAGGED * len(sample))


def _calibrate(inputs: RunInputs, translator: Translator, steps: int) -> Calibration | None:
    """Translate a part of the validation set, and fit confidence to it."""
    references = inputs.data.valid_target
    translations: dict[int, Translation] = {}
    if len(references) >= MIN_CALIBRATED:
        translations = _translate_part(inputs, translator, steps)
    rows: list[int] = []
    features: list[Features] = []
    chrf: list[float] = []
    for row, translation in sorted(translations.items()):
        if translation.estimate.features is not None:  # the line went through the model
            rows.append(row)
            features.append(translation.estimate.features)
            chrf.append(sentence_chrf(translation.text, [references[row]]) / 100)
    if len(rows) < MIN_TRANSLATED:
        say(
            f"confidence: none, because it needs {MIN_CALIBRATED} validation lines, of which the "
            f"model translates {MIN_TRANSLATED}"
        )
        return None
    curve, predicted = fit_confidence(np.array(features), np.array(chrf))
    residual = float((np.array(chrf) - predicted).std())
    hypotheses = [translations[row].text for row in rows]
    scores = score(hypotheses, [references[row] for row in rows], keys=["chrf"])
    file_chrf = scores["chrf"].value / 100
    # Long lines count more in the chrF of a file, so confidence is averaged with such weights. The
    # offset is what this average misses. Its standard error is that of a mean with these weights.
    lengths = np.array([translations[row].estimate.length for row in rows], np.float64)
    length_shares = lengths / lengths.sum()
    mean_confidence = float(length_shares @ predicted)
    offset_error = residual * float(np.sqrt(length_shares @ length_shares))
    say(
        f"confidence: fitted to {len(rows):,} validation lines; predicted and true chrF of a line "
        f"differ by {100 * residual:.0f} (standard deviation)"
    )
    return replace(
        curve,
        residual=round(residual, DIGITS),
        offset=round(file_chrf - mean_confidence, DIGITS),
        offset_error=round(offset_error, DIGITS),
        chrf=round(file_chrf, DIGITS),
        lines=len(rows),
    )


def _translate_part(
    inputs: RunInputs, translator: Translator, steps: int
) -> dict[int, Translation]:
    """Translate lines spread over the validation set; the longer the training, the more lines.

    Their number is computed from steps and lengths, not from a clock, so that a repeated run gets
    the same estimator.
    """
    sources, references = inputs.data.valid_source, inputs.data.valid_target
    # The references only limit the lengths of the translations.
    groups = limit_lengths(sources, references, translator.tokenizer, translator.request)
    beam = translator.request.settings.beam
    max_subwords = sum(len(group.rows) * group.request.settings.max_length for group in groups)
    beam_subwords_per_line = beam * max_subwords / len(sources)
    beam_subword_budget = MAX_CALIBRATION_COST * steps * inputs.config.batching.max_tokens
    affordable = int(beam_subword_budget / beam_subwords_per_line)
    count = min(MAX_CALIBRATED, max(MIN_CALIBRATED, affordable))
    chosen_rows = set(spread(range(len(sources)), count))
    tags = inputs.data.valid_tags
    translations: dict[int, Translation] = {}
    for group in groups:
        rows = [row for row in group.rows if row in chosen_rows]
        lines = [Line(sources[row], tag=tags[row]) for row in rows]
        search = translator.submit(lines, group.request)
        try:
            translations.update(zip(rows, search.result(), strict=True))
        finally:
            search.cancel()  # after Ctrl-C, `close` would wait for the whole search
    return translations


def fit_confidence(features: _Numbers, chrf: _Numbers) -> tuple[Calibration, _Numbers]:
    """Fit the curve to all lines; also return the confidence of each line by cross-validation.

    `features`: (N, 2), as in `Features`. `chrf`: (N,), from 0 to 1. The curve for the confidence of
    a line, (N,), was fitted without the line.
    """
    predicted = np.zeros(len(chrf))
    folds = np.arange(len(chrf)) % FOLDS
    for fold in range(FOLDS):
        is_left_out = folds == fold
        is_fitted = ~is_left_out
        coefficients = _fit(features[is_fitted], chrf[is_fitted])
        predicted[is_left_out] = _predict(features[is_left_out], coefficients)
    coefficients = _fit(features, chrf)
    intercept, *weights = np.round(coefficients, DIGITS).tolist()
    curve = Calibration(intercept, Features(*weights))
    return curve, predicted


def _fit(features: _Numbers, chrf: _Numbers) -> _Numbers:
    """Return intercept and weights of the curve; no weight is negative."""
    line_counts = np.ones(len(chrf))
    typical_counts = np.full(len(TYPICAL_CHRF), TYPICAL_SHARE * len(chrf))
    counts = np.concatenate([line_counts, typical_counts])
    features = np.vstack([features, TYPICAL_FEATURES])
    chrf = np.concatenate([chrf, TYPICAL_CHRF])
    is_used = np.ones(features.shape[1], bool)
    while True:
        coefficients = _solve(features * is_used, chrf, counts)
        is_negative = coefficients[1:] < 0
        if not is_negative.any():
            return coefficients
        # Confidence would rise with some features. Fit again without them.
        is_used &= ~is_negative


def _solve(features: _Numbers, chrf: _Numbers, counts: _Numbers) -> _Numbers:
    """Fit a logistic regression by Newton's method; return intercept and weights, (1 + F,).

    `features`: (N, F). `chrf`: (N,), from 0 to 1: the targets of the cross-entropy. `counts`: how
    often each line counts, (N,). The squares of all coefficients are penalised by RIDGE.
    """
    # Standardise the features, so that the penalty is the same for all of them.
    mean = features.mean(axis=0)
    scale = features.std(axis=0) + MIN_SCALE
    standardised = (features - mean) / scale
    # A feature lowers the logit, so its weight is positive; the column of ones is the intercept's.
    inputs = np.insert(-standardised, 0, 1.0, axis=1)  # (N, 1 + F)
    coefficients = np.zeros(inputs.shape[1])
    ridge = RIDGE * np.eye(len(coefficients))
    for _ in range(NEWTON_STEPS):
        predicted = _sigmoid(inputs @ coefficients)
        variance = counts * predicted * (1 - predicted)
        gradient = inputs.T @ (counts * (predicted - chrf)) + ridge @ coefficients
        hessian = (inputs.T * variance) @ inputs + ridge
        coefficients -= np.linalg.solve(hessian, gradient)
    # The same logits from features that are not standardised:
    # b - w (x - mean) / scale = (b + w mean / scale) - (w / scale) x.
    coefficients[1:] /= scale
    coefficients[0] += coefficients[1:] @ mean
    return coefficients


def _predict(features: _Numbers, coefficients: _Numbers) -> _Numbers:
    """Return the confidence of each line, (N,); the formula of `Calibration.confidence`."""
    return _sigmoid(coefficients[0] - features @ coefficients[1:])


def _sigmoid(logits: _Numbers) -> _Numbers:
    return np.asarray(1 / (1 + np.exp(-logits)))
