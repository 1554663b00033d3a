"""What `mtkit init` chooses: a table of models, a plan for a corpus and a time, and a config.

Choices for small corpora were measured on Multi30k and Tatoeba (configs/RESULTS.md). Choices for
millions of pairs are from Vaswani et al. 2017.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from string import Formatter
from typing import Any

from mtkit.config.locate import flow


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

        Millions of operations in products (six per parameter), plus work limited by memory speed.
        """
        per_layer = 12 * self.d_model**2 + 4 * self.d_model * self.ffn
        products = 6e-6 * (self.layers * per_layer + self.d_model * vocabulary)
        return products + 0.1 * self.layers * self.d_model

    def __str__(self) -> str:
        return f"{self.layers} + {self.layers} layers of width {self.d_model}"


PRESETS = (
    Preset(0, 0.0, 2, 128, 256, 4),
    Preset(3_000, 5e6, 4, 128, 256, 4),
    Preset(100_000, 4e7, 4, 256, 1024, 4),
    Preset(500_000, 2e8, 6, 512, 2048, 8, 0.1),  # base
    Preset(4_000_000, 1e9, 6, 1024, 4096, 16, 0.3),  # big
)
NOMINAL_VOCABULARY = 8_000
VOCABULARY_BY_PAIRS = {2_000_000: 32_000, 500_000: 16_000, 15_000: 8_000, 5_000: 4_000, 0: 2_000}
"""For each least number of pairs: the subwords of a vocabulary that both sides share."""
DROPOUT_BY_EPOCHS = {
    60: (0.2, 0.1, 0.1),
    24: (0.2, 0.0, 0.0),
    5: (0.1, 0.0, 0.0),
    0: (0.0, 0.0, 0.0),
}
"""For each least number of epochs: dropout, attention dropout and activation dropout."""
VALIDATIONS = 10
MAX_SUBWORDS = 1024
"""Most subwords of a side; longer pairs would take too much memory."""
OTHER_SECONDS = 12.0
"""Part of the time of a run that does not depend on the corpus, such as loading libraries."""
LOSS_COST, GREEDY_COST, BEAM_COST = 0.4, 1.2, 2.0
"""Time per pair relative to training: validation loss, greedy translation, beam search."""


@dataclass(frozen=True)
class CorpusFacts:
    """Facts about a corpus, for the plan and the config."""

    pairs: int
    """Number of training pairs without repeated and faulty ones."""
    valid: int
    test: int
    is_joint: bool
    characters: int
    settings: Mapping[str, Any]
    """Other values for the config, by placeholder of the template."""
    max_vocabulary: int | None = None
    """The largest vocabulary that can be trained on the text, if known."""


@dataclass(frozen=True)
class Trial:
    """How fast a preset trains here, and how many subwords the pairs have."""

    preset: Preset
    vocabulary: int
    tokens_per_second: float
    """Speed of training in target tokens."""
    pair_seconds: float = 1e-4
    """Time per pair to train the tokenizer, to filter and to encode."""
    warm_up_seconds: float = 0.0
    """Time until training reaches its full speed."""
    target_tokens: float = 16.0
    padded_tokens: float = 20.0
    """Mean number of target tokens of a pair, and of tokens of a batch per pair."""
    long_tokens: int = 64
    """99 % of the pairs have at most this many tokens."""
    is_gpu: bool = False
    restores_case: bool = True

    @property
    def training_seconds(self) -> float:
        """Time to train on one pair."""
        return self.target_tokens / self.tokens_per_second

    def scaled_to(self, preset: Preset, vocabulary: int) -> Trial:
        """Return the trial with the speed of another model, estimated from its cost."""
        cost = self.preset.cost(self.vocabulary) / preset.cost(vocabulary)
        speed = self.tokens_per_second * cost
        return replace(self, preset=preset, vocabulary=vocabulary, tokens_per_second=speed)


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
    validation_sentences: int
    training_seconds: float
    seconds: float


def choose_plan(
    facts: CorpusFacts, trial: Trial, minutes: float, preset: Preset | None = None
) -> Plan:
    """Return the best plan for `minutes`: of `preset`, by default of the largest useful preset."""
    budget = 60 * minutes
    tokens = {
        it: budget * trial.scaled_to(it, NOMINAL_VOCABULARY).tokens_per_second for it in PRESETS
    }
    useful = [it for it in PRESETS if facts.pairs >= it.min_pairs and tokens[it] >= it.min_tokens]
    preset = preset or useful[-1]
    seen = min(facts.pairs, round(tokens[preset] / trial.target_tokens))
    trial = trial.scaled_to(preset, choose_vocabulary(facts, seen))
    other_seconds, sentences = _plan_other_parts(facts, trial, budget)
    left = max(0.0, budget - other_seconds)
    # More epochs were never tested: 100 on Multi30k, 17 in Vaswani et al. 2017.
    max_epochs = min(100.0, max(17.0, 100 * (29_000 / facts.pairs) ** 0.35))
    epochs = min(left / trial.training_seconds / facts.pairs, round(max_epochs))
    epoch_tokens = facts.pairs * trial.padded_tokens
    max_length = min(MAX_SUBWORDS, max(256, trial.long_tokens))
    batch, accumulate = choose_batch(trial, epochs * epoch_tokens, epoch_tokens)
    batch = max(batch, 2 * max_length)
    steps = round(epochs * epoch_tokens / (batch * accumulate)) // VALIDATIONS * VALIDATIONS
    steps = max(10 * VALIDATIONS, steps)
    epochs = steps * batch * accumulate / epoch_tokens
    training_seconds = epochs * facts.pairs * trial.training_seconds
    return Plan(
        preset,
        trial.vocabulary,
        max_length,
        max_output=min(max_length, max(64, 3 * trial.long_tokens)),
        max_tokens=batch,
        accumulate=accumulate,
        steps=steps,
        epochs=epochs,
        validation_sentences=sentences,
        training_seconds=training_seconds,
        seconds=other_seconds + training_seconds,
    )


def _plan_other_parts(facts: CorpusFacts, trial: Trial, budget: float) -> tuple[float, int]:
    """Return the seconds of everything except training, and the sentences per validation.

    All validations together take 4 % of the time, so their number of sentences depends on it.
    """
    others = OTHER_SECONDS + trial.warm_up_seconds + facts.pairs * trial.pair_seconds
    others += facts.test * BEAM_COST * trial.training_seconds
    losses = VALIDATIONS * LOSS_COST * facts.valid * trial.training_seconds
    translation = VALIDATIONS * GREEDY_COST * trial.training_seconds
    affordable = int((0.04 * max(0.0, budget - others) - losses) / translation)
    sentences = min(facts.valid, 1000, max(50, affordable))
    return others + losses + sentences * translation, sentences


def choose_vocabulary(facts: CorpusFacts, pairs: int) -> int:
    """Return the number of subwords of each vocabulary, for `pairs` pairs in training."""
    size = next(subwords for least, subwords in VOCABULARY_BY_PAIRS.items() if pairs >= least)
    if not facts.is_joint:
        size = size * 5 // 8
    for_characters = 260 + facts.characters + facts.characters // 2  # 256 bytes, 4 special symbols
    size = max(size, -(-for_characters // 100) * 100)
    return min(size, facts.max_vocabulary or size)


def choose_batch(trial: Trial, tokens: float, epoch_tokens: float) -> tuple[int, int]:
    """Return the tokens per batch and the batches per step; arguments are padded tokens.

    For a small model, batches are small enough that training has 1,000 steps, and an epoch 40. A
    model of Vaswani et al. has 25,000 tokens per step, in batches that fit in memory.
    """
    if trial.preset.published_dropout is not None:
        return (25_000, 1) if trial.is_gpu else (4096, 6)
    most = min(4096, max(1024, min(tokens / 1000, epoch_tokens / 40)))
    return 1 << int(math.log2(most)), 1


def render_config(facts: CorpusFacts, plan: Plan, **others: Any) -> str:
    """Return the text of a config; `others`: run, train, valid, test, counts and so on.

    A line of the template is left out if one of its values is None or missing. A comment is left
    out if no setting follows it.
    """
    values = _values(facts, plan) | others
    template = Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    kept: list[str] = []
    follows_setting = False
    for line in reversed(template.splitlines()):
        holes = [name.split(".")[0] for _, name, _, _ in Formatter().parse(line) if name]
        is_comment = line.lstrip().startswith("#")
        if all(values.get(name) is not None for name in holes) and (
            follows_setting or not is_comment
        ):
            kept.append(line.format_map(values))
            follows_setting = bool(line) and not is_comment
    return "\n".join(reversed(kept)) + "\n"


def _values(facts: CorpusFacts, plan: Plan) -> dict[str, Any]:
    preset = plan.preset
    dropouts = next(values for epochs, values in DROPOUT_BY_EPOCHS.items() if plan.epochs >= epochs)
    warmup, optimizer = 300, {"kind": "muon", "weight_decay": 0.1}
    peak = (6e-3 if plan.epochs >= 24 else 8e-3) * (128 / preset.d_model) ** 0.5
    if preset.published_dropout is not None:
        dropouts = preset.published_dropout, 0.0, 0.0
        warmup, optimizer = 4000, {"kind": "adam"}
        peak = (4000 * preset.d_model) ** -0.5
    validate_every = plan.steps // VALIDATIONS
    save_every = round(plan.steps * 600 / max(plan.training_seconds, 1.0))  # ten minutes
    return {
        **facts.settings,
        "facts": facts,
        "plan": plan,
        "preset": preset,
        "joint": flow(facts.is_joint),
        "tie": None if facts.is_joint else "target",
        "dropout": dropouts[0],
        "attention_dropout": dropouts[1] or None,
        "activation_dropout": dropouts[2] or None,
        "minutes": max(1, round(plan.training_seconds / 60)),
        "optimizer": flow(optimizer),
        "warmup": min(warmup, max(1, plan.steps // 8)),
        "schedule": flow({"kind": "cosine", "peak": float(f"{peak:.1e}")}),
        "accumulate": plan.accumulate if plan.accumulate > 1 else None,
        "validate_every": validate_every,
        "save_every": max(1, min(validate_every, save_every)),
    }
