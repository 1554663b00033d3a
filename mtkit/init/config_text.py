"""The settings that `mtkit init` chooses, and the commented config that it writes.

Settings are values of Python until `render` writes them as YAML.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mtkit.config.base import Settings
from mtkit.config.locate import flow
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Plan


@dataclass(frozen=True)
class Setting:
    """A setting of a section, and the comment above it; None: the default, so it is left out."""

    name: str
    value: Any
    comment: str = ""


Sections = Mapping[str, Sequence[Setting]]
"""The settings of each section of a config, in the order of the file."""


@dataclass(frozen=True)
class Dropouts:
    """Rates of dropout; None: the default."""

    residual: float
    attention: float | None = None
    activation: float | None = None


DROPOUT_BY_EPOCHS = {
    60: Dropouts(0.2, attention=0.1, activation=0.1),
    24: Dropouts(0.2),
    5: Dropouts(0.1),
    0: Dropouts(0.0),
}
"""Dropout by the fewest epochs it is for, in falling order: the first that a plan reaches holds."""
CHECKPOINT_SECONDS = 600
"""Time between checkpoints: what an interruption loses at most."""


def choose_settings(facts: CorpusFacts, plan: Plan) -> Sections:
    """Return the settings of all sections except `data`."""
    return {
        "tokenizer": _tokenizer_settings(facts, plan),
        "batching": batching_settings(facts, plan.max_tokens, plan.max_length),
        "model": _model_settings(facts, plan),
        "training": _training_settings(facts, plan),
        "decoding": _decoding_settings(facts, plan),
    }


def as_values(sections: Sections) -> dict[str, dict[str, Any]]:
    """Return the settings as nested data, for `Config.model_validate`."""
    return {
        name: {setting.name: setting.value for setting in settings if setting.value is not None}
        for name, settings in sections.items()
    }


def settings_of(section: Settings, comment: str) -> list[Setting]:
    """Return what a section sets besides defaults, and its kind; the comment is above the first."""
    values = section.model_dump(exclude_defaults=True)
    if hasattr(section, "kind"):
        values = {"kind": section.kind} | values
    settings = [Setting(name, value) for name, value in values.items()]
    if settings:
        settings[0] = replace(settings[0], comment=comment)
    return settings


def render(command: str, run: str, sections: Sections) -> str:
    """Return the text of a config; `command`: the command that writes it."""
    lines = [f"# Written by `{command}`.", f"run: {flow(run)}"]
    for name, settings in sections.items():
        lines += ["", f"{name}:", *_render_settings(settings)]
    return "".join(f"{line}\n" for line in lines)


def _render_settings(settings: Sequence[Setting]) -> Iterator[str]:
    for setting in settings:
        if setting.value is not None:
            if setting.comment:
                yield f"  # {setting.comment}"
            value = setting.value
            is_list_of_sections = isinstance(value, list) and isinstance(value[0], Mapping)
            if is_list_of_sections:
                yield f"  {setting.name}:"
                yield from (f"    - {flow(section)}" for section in value)
            else:
                yield f"  {setting.name}: {flow(value)}"


def _tokenizer_settings(facts: CorpusFacts, plan: Plan) -> list[Setting]:
    return [
        Setting(
            "vocab_size",
            plan.vocabulary,
            f"subwords per vocabulary, chosen for {facts.pairs:,} pairs and "
            f"{facts.characters:,} different characters",
        ),
        Setting(
            "joint",
            facts.is_joint,
            "true: both sides share a vocabulary, because they use the same script; "
            "false: each has its own",
        ),
    ]


def batching_settings(facts: CorpusFacts, max_tokens: int, max_length: int) -> list[Setting]:
    """Return the settings of the section `batching`."""
    estimates = describe_rules(facts)
    return [
        Setting("max_tokens", max_tokens, "tokens of a batch, padding included"),
        Setting("max_length", max_length, "longest side of a pair, in subwords"),
        Setting(
            "deduplicate",
            True if facts.has_repeated_pairs else None,
            "some pairs occur more than once",
        ),
        Setting(
            "drop",
            list(facts.broken_rules) or None,
            f"drop pairs that break these rules (estimated pairs): {estimates}; "
            "`mtkit check` shows examples",
        ),
    ]


def describe_rules(facts: CorpusFacts) -> str:
    """Return the rules that training applies, each with the estimated number of pairs.

    A pair that breaks several rules counts for the first of them.
    """
    return ", ".join(f"{rule} ({count:,})" for rule, count in facts.broken_rules.items())


def _model_settings(facts: CorpusFacts, plan: Plan) -> list[Setting]:
    preset = plan.preset
    if preset.published_dropout is None:
        dropouts = next(
            rates
            for fewest_epochs, rates in DROPOUT_BY_EPOCHS.items()
            if plan.epochs >= fewest_epochs
        )
        why_dropout = "more dropout for more epochs, against overfitting"
    else:
        dropouts = Dropouts(preset.published_dropout)
        why_dropout = "as in Vaswani et al. 2017"
    return [
        Setting("kind", "transformer"),
        Setting(
            "layers",
            preset.layers,
            "the largest size for which there are enough pairs and enough time",
        ),
        Setting("d_model", preset.d_model),
        Setting("ffn", preset.ffn),
        Setting("heads", preset.heads),
        Setting(
            "tie",
            # The default, all, needs one vocabulary for both sides.
            None if facts.is_joint else "target",
            "the output layer shares the weights of the target embedding",
        ),
        Setting("dropout", dropouts.residual, why_dropout),
        Setting("attention_dropout", dropouts.attention),
        Setting("activation_dropout", dropouts.activation),
    ]


def _training_settings(facts: CorpusFacts, plan: Plan) -> list[Setting]:
    width = plan.preset.d_model
    if plan.preset.published_dropout is None:
        optimizer: dict[str, Any] = {"kind": "muon", "weight_decay": 0.1}
        peak_at_width_128 = 6e-3 if plan.epochs >= 24 else 8e-3
        peak = peak_at_width_128 * (128 / width) ** 0.5
        warmup = 300
    else:  # as in Vaswani et al. 2017
        optimizer = {"kind": "adam"}
        warmup = 4000
        peak = (warmup * width) ** -0.5
    minutes = max(1, round(plan.training_seconds / 60))
    validate_every = plan.steps // plan.validations.count
    save_every = round(plan.steps * CHECKPOINT_SECONDS / max(plan.training_seconds, 1.0))
    return [
        Setting(
            "steps",
            plan.steps,
            f"{plan.epochs:,.1f} epochs over {facts.pairs:,} pairs, in about {minutes:,} min",
        ),
        Setting(
            "optimizer",
            optimizer,
            "Muon needs about half the steps of Adam; base and big use Adam, "
            "as in Vaswani et al. 2017",
        ),
        Setting(
            "warmup",
            min(warmup, max(1, plan.steps // 8)),
            "the learning rate rises for this many steps, then decays to zero at the last step",
        ),
        Setting("schedule", {"kind": "cosine", "peak": float(f"{peak:.1e}")}),
        Setting(
            "accumulate",
            plan.accumulate if plan.accumulate > 1 else None,
            "batches per step, because more tokens in one batch would not fit in memory",
        ),
        Setting(
            "validate_every",
            validate_every,
            f"steps between validations: there are {plan.validations.count} in the whole run",
        ),
        Setting(
            "save_every",
            max(1, min(validate_every, save_every)),
            "steps between checkpoints: an interrupted run resumes from the last one",
        ),
        Setting(
            "validation_sentences",
            min(plan.validations.sentences, facts.valid),
            "sentences that each validation translates, spread over the validation set; so few "
            "that this takes little time",
        ),
        Setting(
            "best_by",
            "step",
            "use the weights of the last step: "
            "they are the best after the learning rate has decayed",
        ),
        Setting("average", 1),
    ]


def _decoding_settings(facts: CorpusFacts, plan: Plan) -> list[Setting]:
    return [
        Setting(
            "beam",
            5,
            "hypotheses kept during search: 4 to 6 are best, 1 is about three times as fast",
        ),
        Setting(
            "max_length", plan.max_output, "longest translation, in subwords; longer input is split"
        ),
        Setting(
            "sentences",
            facts.sentences,
            "the sources are single sentences, "
            "so a line with several is translated sentence by sentence",
        ),
        Setting(
            "abbreviations",
            facts.abbreviations or None,
            "words of the source whose full stop does not end a sentence",
        ),
        Setting(
            "truecase",
            True if facts.truecase else None,
            "few sources are in capitals or in lower case only, so such lines are truecased first",
        ),
        Setting(
            "dotless_i",
            facts.dotless_i,
            "the side on which I is the capital of ı, and İ is the capital of i",
        ),
    ]
