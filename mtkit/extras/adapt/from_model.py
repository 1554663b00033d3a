"""A proposal to adapt a base model to a corpus: `mtkit init --from`.

How long and how fast to learn was measured on models and texts of several kinds:
configs/RESULTS.md#adapting-a-model.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mtkit.config.base import Settings
from mtkit.config.decoding import MAX_SEARCH_TOKENS
from mtkit.config.settings import Config
from mtkit.corpus.read import Pair
from mtkit.errors import blame_setting
from mtkit.extras.adapt.adaptation import MAX_TRIALS
from mtkit.extras.adapt.base_model import Fit, OpenedBaseModel, check_suitability, find_missing
from mtkit.extras.adapt.used_pieces import drop_unused
from mtkit.init.config_text import (
    WHY_LAST_STEP,
    Chosen,
    Sections,
    batching_settings,
    describe_length,
)
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import (
    GREEDY_COST,
    LOSS_COST,
    MAX_OVERRUN,
    MAX_SUBWORDS,
    OTHER_SECONDS,
    TRAINING_SHARE,
    Measurement,
    calibration_seconds,
    evaluation_seconds,
    longest_output,
    power_of_two,
)
from mtkit.init.proposal import Proposal
from mtkit.init.survey import WrittenCorpus
from mtkit.init.trial import measure_training
from mtkit.models.weights import build_without_weights
from mtkit.plugins import find_plugins, load_plugin
from mtkit.report import plural, say, warn
from mtkit.tokenizer.codec import Tokenizer

PEAK_WITH_REPLAY = 1.5e-3
PEAK_ALONE = 5e-4
"""Highest learning rate at width PEAK_WIDTH, with and without old training pairs.

For other widths it is divided by the square root of width / PEAK_WIDTH.
"""
PEAK_OF_CHILD = 6e-3
"""The same for a model that learns other languages than its parent: the rate of a new model."""
PEAK_WIDTH = 128
ADAPTATION_OPTIMIZER = {"kind": "muon"}
MAX_EPOCHS = 20
"""Most epochs of an adaptation; more training hardly changes the result."""
MAX_EPOCHS_OF_CHILD = 100
"""Most epochs of a model that learns other languages than its parent."""
FULL_EPOCHS = 10
"""With time for more epochs over the new pairs, epochs get more old pairs instead."""
MIN_REPLAY, MAX_REPLAY = 2.0, 9.0
"""Fewest and most old pairs for each new pair in an epoch."""
MIN_ADAPTATION_STEPS = 40
"""Steps of the shortest adaptation."""
VALIDATION_COUNT = 2
COMPARISON_SHARE = 0.2
"""Largest share of the time for greedy translations: in validations, and to compare weights.

MIN_COMPARED lines are translated even if they take longer.
"""
MIN_COMPARED, MAX_COMPARED = 200, 1000
"""Fewest and most lines of each text that such a translation has, if the text has so many."""
NEW_PIECES = 1000
"""Most subwords that are added for the new text."""
MANY_UNKNOWN_LETTERS = 0.05
"""A vocabulary that lacks more of the letters gets subwords for the new text."""
LARGE_VOCABULARY = 100_000
"""From so many subwords on, a vocabulary loses those that the text does not use.

M2M-100 and NLLB, with 100 and 200 languages, have 128,000 and 256,000; a bilingual model of OPUS-MT
has 60,000.
"""
BATCHES_PER_EPOCH = 40
"""Number of batches that an epoch should have."""
MIN_BATCH_TOKENS, MAX_BATCH_TOKENS = 512, 2048
"""Fewest and most tokens of a batch, which count more than BATCHES_PER_EPOCH."""
TRIAL_TOKENS = 1024
"""Tokens of a batch while the speed is measured."""
MEASURED_GAIN = "0 to 13"
"""Points of chrF that adaptations to 300 to 2,300 new pairs gained on text like them."""
MAX_HARM = 0.5
"""Points of chrF that the old text may lose."""
MAX_HARM_OF_CHILD = 100.0
"""The same for a child, which may lose all languages of its parent, if no text of them is kept."""


@dataclass(frozen=True)
class AdaptationPlan:
    """How to adapt a base model, and how long each part of a run will take."""

    peak: float
    steps: int
    epochs: float
    replayed_pairs: float
    """Old pairs in each epoch."""
    max_tokens: int
    max_length: int
    max_output: int
    """Longest translation of the new text, in subwords."""
    compared_lines: int
    """Lines of the new and of the old text that are translated to compare weights."""
    training_seconds: float
    seconds: float


@dataclass(frozen=True)
class AdaptedModel(Proposal):
    """A plan to adapt a base model."""

    base: OpenedBaseModel
    new_pieces: int
    """Most subwords that are learned from the new text."""
    kept: int
    """About how many subwords of the base model stay."""
    fit: Fit
    plan: AdaptationPlan

    @property
    def old_text(self) -> Sequence[Pair]:
        return self.base.old_text

    @property
    def replayed(self) -> Sequence[dict[str, Any]]:
        """Old corpora to train on beside the new ones, as settings with weights."""
        return self.base.old_training.replay_settings(self.plan.replayed_pairs)

    def __str__(self) -> str:
        config = self.base.opened.config
        model = build_without_weights(config.model, config.source_vocab, config.target_vocab)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return f"adapts {self.base.place}, {parameters:,} parameters"

    def settings(self, facts: CorpusFacts) -> Sections:
        """Return all sections except `data`; their comments name the counts of `facts`."""
        config = self.base.opened.config
        joint = self.base.opened.tokenizer.is_joint
        old_training = self.base.old_training
        facts = replace(
            facts,
            # Old pairs are in other files. Those that measure a model, and those that the new text
            # has, too, leave when the batches are made.
            broken_rules={**facts.broken_rules, "overlap": 0},
            has_repeated_pairs=facts.has_repeated_pairs or old_training.share_in_new_text > 0,
        )
        return {
            "tokenizer": {
                "joint": Chosen(joint, "as in the base model, which brings its own tokenizer"),
                "new_pieces": self.new_pieces or None,
                "drop_unused": self._drop_unused(config.target_vocab),
            },
            "batching": batching_settings(facts, self.plan.max_tokens, self.plan.max_length),
            "model": _settings_of(config.model, "all settings of the base model"),
            "training": self._training_settings(facts),
            "decoding": self._decoding_settings(),
        }

    def _drop_unused(self, size: int) -> Chosen | None:
        """Return the setting; `size`: the number of subwords of the base model."""
        if self.kept == size:
            return None
        return Chosen(
            True,
            f"keeps about {self.kept:,} of {size:,} subwords, so the model is smaller and faster, "
            "but only for these languages; remove this line to keep all",
        )

    def _decoding_settings(self) -> dict[str, Any]:
        """Return the settings of the base model, with room for the longest new sentences."""
        decoding = self.base.opened.config.decoding
        affordable = min(self.plan.max_output, MAX_SEARCH_TOKENS // decoding.beam)
        max_length = max(decoding.max_length, affordable)
        decoding = decoding.model_copy(update={"max_length": max_length})
        return _settings_of(decoding, "as in the base model, but long enough for the new text")

    def _training_settings(self, facts: CorpusFacts) -> dict[str, Any]:
        plan = self.plan
        every = math.ceil(plan.steps / VALIDATION_COUNT)
        limits_harm = self.fit.is_better_than_chance or self.old_text
        why_peak = "far below the learning rate of a new model, so that little is forgotten"
        if not self.fit.is_better_than_chance:
            why_peak = "as high as for a new model, because the model learns other languages"
        length = describe_length(plan.epochs, facts, plan.training_seconds)
        sentences = min(plan.compared_lines, max(facts.valid, len(self.old_text)))
        return {
            "init_from": self.base.place,
            "max_harm": MAX_HARM if limits_harm else MAX_HARM_OF_CHILD,
            "steps": Chosen(plan.steps, length),
            "optimizer": Chosen(ADAPTATION_OPTIMIZER, "as for a new model, without weight decay"),
            "warmup": max(1, plan.steps // 10),
            "schedule": Chosen({"kind": "cosine", "peak": float(f"{plan.peak:.1e}")}, why_peak),
            "validate_every": every,
            "save_every": every,
            "validation_sentences": sentences,
            "best_by": Chosen("step", WHY_LAST_STEP),
            "average": 1,
        }

    def forecast(
        self, facts: CorpusFacts, written: Sequence[WrittenCorpus], minutes: float
    ) -> Iterator[str]:
        """Say how long a run will take, and what to expect from it."""
        plan = self.plan
        yield (
            f"base model: loss of {self.fit.loss:.2f} nats per subword on the new text; by the "
            f"frequencies of subwords alone {self.fit.entropy:.2f}"
        )
        length = f"{plan.epochs:,.1f} epochs in {plan.steps:,} steps"
        yield (
            f"forecast: {plan.seconds / 60:.1f} minutes, {plan.training_seconds / 60:.1f} to train "
            f"{length} on {plural(facts.pairs, 'pair')}"
        )
        if plan.seconds > MAX_OVERRUN * 60 * minutes:
            yield f"the time is too short: the shortest run takes {plan.seconds / 60:.1f} minutes"
        if not self.fit.is_better_than_chance:
            yield (
                "the base model becomes the parent of a model for other languages (Kocmi and "
                "Bojar 2018), and its languages may be forgotten"
            )
            return
        yield (
            f"expect: {MEASURED_GAIN} chrF more than the base model on text like the new "
            "pairs, as in measured adaptations; other text gains nothing"
        )
        if plan.replayed_pairs:
            old = f"about {plan.replayed_pairs:,.0f} old pairs"
            yield f"each epoch replays {old}, so that the model forgets little"
        elif self.base.old_training.is_trained_on:
            share = self.base.old_training.share_in_new_text
            yield f"the new text has {share:.0%} of the old pairs, so none is replayed"
        else:
            yield "the old training text is not at hand, so the model may forget it"
        held_out = [key for corpus in written for key in corpus.held_out]
        known = np.isin(np.array(held_out, np.uint64), self.base.old_training.keys).sum()
        if known:
            yield (
                f"{self.base.place} was trained on {known:,} of the {len(held_out):,} pairs held "
                "out, so the scores of both models are too high: name other sets with --valid and "
                "--test"
            )
        if self.old_text:
            lines = plural(len(self.old_text), "line")
            yield f"forgetting: the model may lose {MAX_HARM:g} chrF on {lines} of old text"
        else:
            yield "forgetting: unknown, because there is no old text; name some with --keep"


def _settings_of(section: Settings, why: str) -> dict[str, Any]:
    """Return what a section sets besides defaults, and its kind; the first says why."""
    values = section.model_dump(exclude_defaults=True)
    if hasattr(section, "kind"):
        values = {"kind": section.kind} | values
    if values:
        first = next(iter(values))
        values[first] = Chosen(values[first], why)
    return values


def propose_adaptation(
    base: OpenedBaseModel,
    facts: CorpusFacts,
    sample: Sequence[Pair],
    minutes: float,
    *,
    new: Iterable[Pair],
    how_to_swap: str,
    new_vocabulary: bool,
) -> AdaptedModel:
    """Measure how well the base model predicts the new text and how fast it trains; plan a run.

    Warn if it predicts the new text, or old text that the user names, no better than chance. The
    vocabulary gets subwords of the new text with `new_vocabulary`, and if it lacks many letters, or
    some that the language of a child has. Otherwise warn of letters that it lacks. `new`: all of
    the new text, of which `sample` is a part.
    """
    tokenizer = _drop_unused_subwords(base, sample)
    _check_memory(base, tokenizer)
    fit = check_suitability(base, sample, how_to_swap)
    is_parent = not fit.is_better_than_chance
    missing = {} if new_vocabulary else find_missing(base, sample)
    for letters, share in missing.items():
        if is_parent or share > MANY_UNKNOWN_LETTERS:
            say(f"init: {letters}, so the vocabulary gets subwords of the new text")
            new_vocabulary = True
        else:
            warn(
                f"--from: {letters}, so each becomes several bytes; --new-vocabulary adds subwords "
                "for the new text"
            )
    new_pieces = NEW_PIECES if new_vocabulary else 0
    if is_parent:
        base = base.as_parent()
    base = replace(base, old_training=base.old_training.without_pairs_of(new))
    say(f"init: measuring the speed of {base.place}")
    trial = AdaptedModel(base, new_pieces, tokenizer.target_vocab, fit, _plan_trial())
    measured = measure_training(trial.settings(facts), sample, TRIAL_TOKENS)
    plan = choose_adaptation(facts, measured, base, fit, minutes)
    return replace(trial, plan=plan)


def _drop_unused_subwords(base: OpenedBaseModel, sample: Sequence[Pair]) -> Tokenizer:
    """Return the tokenizer without the subwords that the text does not use, if it is large."""
    tokenizer = base.opened.tokenizer
    if tokenizer.target_vocab < LARGE_VOCABULARY:
        return tokenizer
    pairs = [*sample, *base.old_text]
    sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
    return drop_unused(tokenizer, sides)


def _check_memory(base: OpenedBaseModel, tokenizer: Tokenizer) -> None:
    """Refuse a model whose adaptation cannot fit into memory; `tokenizer`: that of the run."""
    if "memory" not in find_plugins("actions"):
        return
    corpus = {"source": "source", "target": "target"}  # which does not matter for the memory
    settings = {
        "run": "run",
        "data": {"train": corpus, "valid": corpus},
        "tokenizer": {"drop_unused": True},  # `tokenizer` has dropped what it can
        "model": base.opened.config.model,
        "training": {"init_from": base.place, "steps": 1, "optimizer": ADAPTATION_OPTIMIZER},
    }
    with blame_setting(("--from",)):
        load_plugin("actions", "memory")(Config.model_validate(settings), tokenizer)


def _plan_trial() -> AdaptationPlan:
    """Return a plan that limits no length; its other numbers do not affect the speed."""
    return AdaptationPlan(
        peak=PEAK_ALONE,
        steps=MIN_ADAPTATION_STEPS,
        epochs=1.0,
        replayed_pairs=0.0,
        max_tokens=2 * MAX_SUBWORDS,
        max_length=MAX_SUBWORDS,
        max_output=1,
        compared_lines=1,
        training_seconds=0.0,
        seconds=0.0,
    )


def choose_adaptation(
    facts: CorpusFacts, measured: Measurement, base: OpenedBaseModel, fit: Fit, minutes: float
) -> AdaptationPlan:
    """Return the plan for `minutes`."""
    max_epochs = MAX_EPOCHS if fit.is_better_than_chance else MAX_EPOCHS_OF_CHILD
    budget = 60 * minutes
    training_seconds_per_pair = measured.training_seconds
    comparison = _plan_comparison(facts, len(base.old_text), training_seconds_per_pair, budget)
    # Both models translate the test set, or the same part of it.
    test_seconds = 2 * evaluation_seconds(
        facts.test, training_seconds_per_pair, TRAINING_SHARE * budget
    )
    # The validations, and the weights that a run ends with.
    losses = VALIDATION_COUNT + 1
    other_seconds = (
        OTHER_SECONDS
        + measured.warm_up_seconds
        + facts.pairs * measured.pair_seconds
        + test_seconds
        + comparison.seconds
        + calibration_seconds(facts.valid, training_seconds_per_pair, budget)
        + losses * LOSS_COST * facts.valid * training_seconds_per_pair
    )
    affordable_pairs = max(0.0, budget - other_seconds) / training_seconds_per_pair
    replayed_pairs = _choose_replay(facts.pairs, base.old_training.pairs, affordable_pairs)
    pairs = facts.pairs + replayed_pairs
    wanted_epochs = min(float(max_epochs), affordable_pairs / pairs)
    epoch_tokens = pairs * measured.padded_tokens
    max_length = min(MAX_SUBWORDS, max(256, measured.long_tokens))
    batch_tokens = power_of_two(
        epoch_tokens / BATCHES_PER_EPOCH, MIN_BATCH_TOKENS, MAX_BATCH_TOKENS
    )
    max_tokens = max(2 * max_length, batch_tokens)
    steps = max(MIN_ADAPTATION_STEPS, round(wanted_epochs * epoch_tokens / max_tokens))
    epochs = steps * max_tokens / epoch_tokens
    training_seconds = epochs * pairs * training_seconds_per_pair
    return AdaptationPlan(
        peak=_choose_peak(base, fit),
        steps=steps,
        epochs=epochs,
        replayed_pairs=replayed_pairs,
        max_tokens=max_tokens,
        max_length=max_length,
        max_output=longest_output(max_length, measured.long_tokens),
        compared_lines=comparison.lines_per_text,
        training_seconds=training_seconds,
        seconds=other_seconds + training_seconds,
    )


def _choose_peak(base: OpenedBaseModel, fit: Fit) -> float:
    """Return the highest learning rate for the width of the base model."""
    if not fit.is_better_than_chance:
        peak = PEAK_OF_CHILD
    elif base.old_training.is_trained_on:
        peak = PEAK_WITH_REPLAY
    else:
        peak = PEAK_ALONE
    return peak * math.sqrt(PEAK_WIDTH / base.opened.config.model.d_model)


@dataclass(frozen=True)
class Comparison:
    """The greedy translations of a run: in validations, and to compare weights at the end."""

    lines_per_text: int
    """Most lines of the new text, and most lines of the old text, that are translated each time."""
    seconds: float
    """Time of all these translations together."""


def _plan_comparison(
    facts: CorpusFacts, old_lines: int, training_seconds_per_pair: float, budget: float
) -> Comparison:
    """Choose how many lines are translated, to take at most COMPARISON_SHARE of the time.

    `old_lines`: number of lines of the old text. `budget`: time of the run, in seconds.
    """
    # The end of a run translates both texts with the base model and with each of the weights that
    # it tries. Validations translate only new text, but are planned as if they translated both.
    times = 1 + MAX_TRIALS + VALIDATION_COUNT
    line_seconds = times * GREEDY_COST * training_seconds_per_pair
    texts = 2 if old_lines else 1
    affordable_lines = int(COMPARISON_SHARE * budget / (texts * line_seconds))
    lines_per_text = min(MAX_COMPARED, max(MIN_COMPARED, affordable_lines))
    lines = min(facts.valid, lines_per_text) + min(old_lines, lines_per_text)
    return Comparison(lines_per_text, seconds=lines * line_seconds)


def _choose_replay(new_pairs: int, old_pairs: int, affordable_pairs: float) -> float:
    """Return how many old pairs each epoch replays.

    The time is divided among FULL_EPOCHS epochs. What the new pairs leave of the time of an epoch
    is for old pairs: at least MIN_REPLAY and at most MAX_REPLAY for each new pair.

    `old_pairs`: size of the old training text, which is never exceeded. `affordable_pairs`: pairs,
    new and old, that there is time for in all epochs together.
    """
    pairs_per_epoch = affordable_pairs / FULL_EPOCHS
    affordable_old_pairs = pairs_per_epoch - new_pairs
    wanted = min(MAX_REPLAY * new_pairs, max(MIN_REPLAY * new_pairs, affordable_old_pairs))
    return min(float(old_pairs), wanted)
