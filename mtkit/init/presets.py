"""What `mtkit init` chooses: a table of models, and a plan for a corpus and a time.

Choices for small corpora were measured on Multi30k and Tatoeba (configs/RESULTS.md). Choices for
millions of pairs are from Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from mtkit.decoding.limits import (
    MAX_CALIBRATED,
    MAX_CALIBRATION_COST,
    MIN_CALIBRATED,
    max_test_seconds,
)
from mtkit.init.facts import CorpusFacts


@dataclass(frozen=True)
class Preset:
    """A Transformer, and how much data and time it needs to be useful."""

    min_pairs: int
    min_tokens: float
    """Fewest target tokens, over all epochs, that training must have time for."""
    layers: int
    d_model: int
    ffn: int
    heads: int
    published_dropout: float | None = None
    """Dropout of the models of Vaswani et al. 2017, which are trained as in the paper."""

    def cost(self, vocabulary: int) -> float:
        """Return the relative time per target token, fitted to widths of 128, 192 and 512.

        The sum of the operations in matrix products, in millions (six per parameter), and of work
        that is limited by the speed of the memory.
        """
        # Attention has 4 square matrices in an encoder layer and 8 in a decoder layer; a
        # feed-forward network has 2 matrices in each.
        per_layer = 12 * self.d_model**2 + 4 * self.d_model * self.ffn
        products = 6e-6 * (self.layers * per_layer + self.d_model * vocabulary)
        return products + 0.1 * self.layers * self.d_model

    def __str__(self) -> str:
        return f"{self.layers} + {self.layers} layers of width {self.d_model}"


PRESETS = (  # min_pairs, min_tokens, layers, d_model, ffn, heads, published_dropout
    Preset(0, 0.0, 2, 128, 256, 4),
    Preset(3_000, 5e6, 4, 128, 256, 4),
    Preset(100_000, 4e7, 4, 256, 1024, 4),
    Preset(500_000, 2e8, 6, 512, 2048, 8, 0.1),  # base
    Preset(4_000_000, 1e9, 6, 1024, 4096, 16, 0.3),  # big
)
NOMINAL_VOCABULARY = 8_000
"""The vocabulary for which the presets are compared; the vocabulary is chosen after the preset."""
VOCABULARY_BY_PAIRS = {2_000_000: 32_000, 500_000: 16_000, 15_000: 8_000, 5_000: 4_000, 0: 2_000}
"""For each least number of pairs: the subwords of a vocabulary that both sides share."""
SUBWORDS_PER_WORD = 4
"""Most subwords for each frequent word, beside bytes and characters; text has 1 to 3."""
VALIDATIONS = (10, 5, 3, 2)
"""Possible numbers of validations: as many as there is time for."""
MIN_STEPS = 100
"""Steps of the shortest run."""
MAX_SUBWORDS = 1024
"""Most subwords of a side; longer pairs would take too much memory."""
OTHER_SECONDS = 12.0
"""Part of the time of a run that does not depend on the corpus, such as loading libraries."""
LOSS_COST, GREEDY_COST, BEAM_COST = 0.4, 4.0, 2.0
"""Time per pair relative to training: validation loss, greedy translation, beam search."""
CALIBRATION_COST = 2.0
"""The same for the beam search in PyTorch whose scores confidence is fitted to."""
VALIDATION_SHARE = 0.05
"""Largest share of the time for all validations together."""
TRAINING_SHARE = 2 / 3
"""Least share of the time for training, unless loading and preparation take more than the rest."""
MIN_VALIDATION_SENTENCES, MAX_VALIDATION_SENTENCES = 20, 1000
MAX_OVERRUN = 1.15
"""A forecast that exceeds the time by this factor is reported."""
PUBLISHED_STEP_TOKENS = 25_000
"""Tokens per step of Vaswani et al. 2017."""


@dataclass(frozen=True)
class Measurement:
    """How fast this machine prepares and trains a model, and how long the pairs are."""

    tokens_per_second: float
    """Speed of training in target tokens."""
    warm_up_seconds: float = 0.0
    """Time until training reaches its full speed."""
    pair_seconds: float = 1e-4
    """Time per pair to train the tokenizer, to filter and to encode."""
    target_tokens: float = 16.0
    """Mean number of target tokens of a pair, with the end of sentence."""
    padded_tokens: float = 20.0
    """Mean number of tokens of a batch per pair."""
    long_tokens: int = 64
    """99% of the pairs have at most this many tokens on their longer side."""

    @property
    def training_seconds(self) -> float:
        """Time to train on one pair."""
        return self.target_tokens / self.tokens_per_second


@dataclass(frozen=True, kw_only=True)
class Trial(Measurement):
    """The measurement of a preset."""

    preset: Preset
    vocabulary: int
    is_gpu: bool = False

    def scaled_to(self, preset: Preset, vocabulary: int) -> Trial:
        """Return the trial with the speed of another model, estimated from its cost."""
        cost = self.preset.cost(self.vocabulary) / preset.cost(vocabulary)
        speed = self.tokens_per_second * cost
        return replace(self, preset=preset, vocabulary=vocabulary, tokens_per_second=speed)


@dataclass(frozen=True)
class Validations:
    """How often a run validates, and how many sentences each validation translates."""

    count: int
    sentences: int
    seconds: float
    """Time of all validations together."""


@dataclass(frozen=True)
class Plan:
    """What to train, and how long each part of a run will take."""

    preset: Preset
    vocabulary: int
    max_length: int
    max_output: int
    max_tokens: int
    accumulate: int
    steps: int
    epochs: float
    has_spare_time: bool
    """Whether there is time for more epochs, which would not help."""
    validations: Validations
    training_seconds: float
    seconds: float
    trial: Trial
    """What the plan rests on."""


def choose_plan(
    facts: CorpusFacts, trial: Trial, minutes: float, preset: Preset | None = None
) -> Plan:
    """Return the best plan for `minutes`: of `preset`, by default of the largest useful preset."""
    budget = 60 * minutes
    preset = preset or _largest_useful_preset(facts, trial, budget)
    # The vocabulary depends on the pairs that training will see, and these on the speed.
    nominal_speed = trial.scaled_to(preset, NOMINAL_VOCABULARY).tokens_per_second
    seen_pairs = min(facts.pairs, round(budget * nominal_speed / trial.target_tokens))
    trial = trial.scaled_to(preset, choose_vocabulary(facts, seen_pairs))

    validations = _plan_validations(facts, trial, budget)
    other_seconds = _other_seconds(facts, trial, budget) + validations.seconds
    training_budget = max(0.0, budget - other_seconds)
    affordable_epochs = training_budget / trial.training_seconds / facts.pairs
    max_epochs = round(_max_epochs(facts.pairs))
    wanted_epochs = min(affordable_epochs, max_epochs)

    epoch_tokens = facts.pairs * trial.padded_tokens
    wanted_tokens = wanted_epochs * epoch_tokens
    max_length = min(MAX_SUBWORDS, max(256, trial.long_tokens))
    max_tokens, accumulate = choose_batch(trial, wanted_tokens, epoch_tokens)
    max_tokens = max(max_tokens, 2 * max_length)
    step_tokens = max_tokens * accumulate
    steps = _round_steps(wanted_tokens / step_tokens, validations.count)
    epochs = steps * step_tokens / epoch_tokens
    training_seconds = epochs * facts.pairs * trial.training_seconds
    return Plan(
        preset=preset,
        vocabulary=trial.vocabulary,
        max_length=max_length,
        max_output=longest_output(max_length, trial.long_tokens),
        max_tokens=max_tokens,
        accumulate=accumulate,
        steps=steps,
        epochs=epochs,
        has_spare_time=affordable_epochs > max_epochs,
        validations=validations,
        training_seconds=training_seconds,
        seconds=other_seconds + training_seconds,
        trial=trial,
    )


def longest_output(max_length: int, long_tokens: int) -> int:
    """Return the largest length of translations, for pairs of which 99% have `long_tokens`."""
    return min(max_length, max(64, 3 * long_tokens))


def _largest_useful_preset(facts: CorpusFacts, trial: Trial, budget: float) -> Preset:
    """Return the largest preset with enough pairs, and enough time: `budget` seconds."""

    def is_useful(preset: Preset) -> bool:
        speed = trial.scaled_to(preset, NOMINAL_VOCABULARY).tokens_per_second
        return facts.pairs >= preset.min_pairs and budget * speed >= preset.min_tokens

    return [preset for preset in PRESETS if is_useful(preset)][-1]


def _round_steps(steps: float, validations: int) -> int:
    """Return at least MIN_STEPS steps, of which the same number comes before each validation.

    So the last validation is at the last step.
    """
    between_validations = round(steps) // validations
    least = math.ceil(MIN_STEPS / validations)
    return validations * max(least, between_validations)


def _max_epochs(pairs: int) -> float:
    """Return the most epochs that were tested: 100 on Multi30k, 17 in Vaswani et al. 2017."""
    multi30k_pairs = 29_000
    epochs = 100 * math.pow(multi30k_pairs / pairs, 0.35)
    return min(100.0, max(17.0, epochs))


def _other_seconds(facts: CorpusFacts, trial: Trial, budget: float) -> float:
    """Return the seconds of a run without training and validations."""
    preparation = facts.pairs * trial.pair_seconds
    test = evaluation_seconds(facts.test, trial.training_seconds, TRAINING_SHARE * budget)
    calibration = calibration_seconds(facts.valid, trial.training_seconds, TRAINING_SHARE * budget)
    return OTHER_SECONDS + trial.warm_up_seconds + preparation + test + calibration


def evaluation_seconds(
    test: int, training_seconds_per_pair: float, training_seconds: float
) -> float:
    """Return the time to translate a test set of `test` lines.

    Of a set that takes too long, `mtkit run` translates a part. `training_seconds`: the time for
    training, which limits the part.
    """
    line_seconds = BEAM_COST * training_seconds_per_pair
    return min(test * line_seconds, max_test_seconds(training_seconds))


def calibration_seconds(
    valid: int, training_seconds_per_pair: float, training_seconds: float
) -> float:
    """Return the time to fit confidence to a part of the validation set, with `valid` lines.

    `training_seconds`: the time for training, which limits the part.
    """
    if valid < MIN_CALIBRATED:
        return 0.0
    line_seconds = CALIBRATION_COST * training_seconds_per_pair
    affordable = max(MIN_CALIBRATED * line_seconds, MAX_CALIBRATION_COST * training_seconds)
    return min(affordable, min(valid, MAX_CALIBRATED) * line_seconds)


def _plan_validations(facts: CorpusFacts, trial: Trial, budget: float) -> Validations:
    """Return as many validations as there is time for, of as many sentences as possible.

    The last one costs least: two validations of few sentences are made in any case.
    """
    max_seconds = VALIDATION_SHARE * budget
    least = min(facts.valid, MIN_VALIDATION_SENTENCES)
    for count in VALIDATIONS:
        loss_seconds = count * LOSS_COST * facts.valid * trial.training_seconds
        sentence_seconds = count * GREEDY_COST * trial.training_seconds
        affordable = int((max_seconds - loss_seconds) / sentence_seconds)
        if affordable >= least:
            break
    sentences = min(facts.valid, MAX_VALIDATION_SENTENCES, max(least, affordable))
    return Validations(count, sentences, loss_seconds + sentences * sentence_seconds)


def choose_vocabulary(facts: CorpusFacts, pairs: int) -> int:
    """Return the number of subwords of each vocabulary, for `pairs` pairs in training.

    A corpus of few words, such as a price list, gets a small one: a larger vocabulary would have
    parts of codes and names, of which each is too rare to be learned.
    """
    size = next(subwords for least, subwords in VOCABULARY_BY_PAIRS.items() if pairs >= least)
    if not facts.is_joint:
        size = size * 5 // 8
    bytes_and_special_symbols = 256 + 4
    # Half as many again, so that the vocabulary holds more than single characters.
    needed = bytes_and_special_symbols + facts.characters + facts.characters // 2
    if facts.frequent_words is not None:
        useful = needed + SUBWORDS_PER_WORD * facts.frequent_words
        size = min(size, _round_up(useful))
    size = max(size, _round_up(needed))
    return min(size, facts.max_vocabulary or size)


def _round_up(size: int) -> int:
    """Return the next multiple of 100."""
    return 100 * math.ceil(size / 100)


def choose_batch(trial: Trial, tokens: float, epoch_tokens: float) -> tuple[int, int]:
    """Return the tokens per batch and the batches per step; arguments are padded tokens.

    For a small model, batches are small enough that training has 1,000 steps, and an epoch 40. A
    model of Vaswani et al. has 25,000 tokens per step, in batches that fit in memory.
    """
    if trial.preset.published_dropout is not None:
        if trial.is_gpu:
            return PUBLISHED_STEP_TOKENS, 1
        max_tokens = 4096
        return max_tokens, PUBLISHED_STEP_TOKENS // max_tokens
    wanted = min(tokens / 1000, epoch_tokens / 40)
    return power_of_two(wanted, least=1024, most=4096), 1


def power_of_two(tokens: float, least: int, most: int) -> int:
    """Return a number of tokens from `least` to `most`, rounded down to a power of two."""
    return 1 << int(math.log2(min(most, max(least, tokens))))
