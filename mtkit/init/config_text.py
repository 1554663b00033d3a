"""The settings that `mtkit init` chooses, and the commented config that it writes.

Settings are values of Python until `render` writes them as YAML. A comment says what a setting is,
as its field does, and why it has this value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from mtkit.config.locate import flow
from mtkit.config.reference import section_at
from mtkit.init.facts import CorpusFacts
from mtkit.init.presets import Plan
from mtkit.report import MAX_CELLS


@dataclass(frozen=True)
class Chosen:
    """The value of a setting, and why it has this value."""

    value: Any
    why: str


Sections = Mapping[str, Mapping[str, Any]]
"""The settings of each section of a config, in the order of the file.

Some values are `Chosen`. None stands for the default, so it is left out.
"""


DROPOUT_BY_EPOCHS = {
    60: {"dropout": 0.2, "attention_dropout": 0.1, "activation_dropout": 0.1},
    24: {"dropout": 0.2},
    5: {"dropout": 0.1},
    0: {"dropout": 0.0},
}
"""Dropout by the fewest epochs it is for, in falling order: the first that a plan reaches holds."""
WHY_COSINE = "it decays to zero at the last step"
WHY_LAST_STEP = "the weights are best after the learning rate has decayed"
CHECKPOINT_SECONDS = 600
"""Time between checkpoints: what an interruption loses at most."""


def choose_settings(facts: CorpusFacts, plan: Plan) -> Sections:
    """Return the settings of all sections except `data`."""
    why = f"chosen for {facts.pairs:,} pairs and {facts.characters:,} different characters"
    return {
        "tokenizer": {"vocab_size": Chosen(plan.vocabulary, why), "joint": facts.is_joint},
        "batching": batching_settings(facts, plan.max_tokens, plan.max_length),
        "model": _model_settings(facts, plan),
        "training": _training_settings(facts, plan),
        "decoding": _decoding_settings(facts, plan),
    }


def as_values(sections: Sections) -> dict[str, dict[str, Any]]:
    """Return the settings as nested data, for `Config.model_validate`."""
    values: dict[str, dict[str, Any]] = {}
    for section, settings in sections.items():
        values[section] = {}
        for name, setting in settings.items():
            value = setting.value if isinstance(setting, Chosen) else setting
            if value is not None:
                values[section][name] = value
    return values


def render(command: str, run: str, sections: Sections) -> str:
    """Return the text of a config; `command`: the command that writes it."""
    lines = [f"# Written by `{command}`.", f"run: {flow(run)}"]
    for section, values in as_values(sections).items():
        lines += ["", f"{section}:", *_render_section(section, values, sections[section])]
    return "".join(f"{line}\n" for line in lines)


def _render_section(
    section: str, values: Mapping[str, Any], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Yield the lines of a section, with the meaning of each setting and why it has its value."""
    kind = section_at((section,), values)
    assert kind is not None  # `init` writes known settings
    for name, value in values.items():
        comment = kind.model_fields[name].description or ""
        setting = settings[name]
        if isinstance(setting, Chosen):
            comment = f"{comment}; {setting.why}" if comment else setting.why
        for line in wrap(comment, MAX_CELLS - len("  # ")):
            yield f"  # {line}"
        is_list_of_sections = isinstance(value, list) and isinstance(value[0], Mapping)
        if is_list_of_sections:
            yield f"  {name}:"
            yield from (f"    - {flow(part)}" for part in value)
        else:
            yield f"  {name}: {flow(value)}"


def batching_settings(facts: CorpusFacts, max_tokens: int, max_length: int) -> dict[str, Any]:
    """Return the settings of the section `batching`."""
    # A pair that breaks several rules counts for the first of them.
    estimates = ", ".join(f"{rule} {count:,}" for rule, count in facts.broken_rules.items())
    return {
        "max_tokens": max_tokens,
        "max_length": max_length,
        "deduplicate": facts.has_repeated_pairs or None,
        "drop": Chosen(list(facts.broken_rules) or None, f"estimated pairs: {estimates}"),
    }


def _model_settings(facts: CorpusFacts, plan: Plan) -> dict[str, Any]:
    preset = plan.preset
    if preset.published_dropout is None:
        fewest_epochs = next(epochs for epochs in DROPOUT_BY_EPOCHS if plan.epochs >= epochs)
        rates = DROPOUT_BY_EPOCHS[fewest_epochs]
        why_dropout = "more for more epochs, against overfitting"
    else:
        rates = {"dropout": preset.published_dropout}
        why_dropout = "as in Vaswani et al. 2017"
    why_layers = "the largest model for which there are enough pairs and enough time"
    return {
        "kind": "transformer",
        "layers": Chosen(preset.layers, why_layers),
        "d_model": preset.d_model,
        "ffn": preset.ffn,
        "heads": preset.heads,
        # The default, all, needs one vocabulary for both sides.
        "tie": None if facts.is_joint else "target",
        **rates,
        "dropout": Chosen(rates["dropout"], why_dropout),
    }


def _training_settings(facts: CorpusFacts, plan: Plan) -> dict[str, Any]:
    width = plan.preset.d_model
    if plan.preset.published_dropout is None:
        optimizer: dict[str, Any] = {"kind": "muon", "weight_decay": 0.1}
        why_optimizer = "Muon needs about half the steps of Adam"
        peak_at_width_128 = 6e-3 if plan.epochs >= 24 else 8e-3
        peak = peak_at_width_128 * (128 / width) ** 0.5
        warmup = 300
    else:
        optimizer = {"kind": "adam"}
        why_optimizer = "as in Vaswani et al. 2017"
        warmup = 4000
        peak = (warmup * width) ** -0.5
    validate_every = plan.steps // plan.validations.count
    save_every = round(plan.steps * CHECKPOINT_SECONDS / max(plan.training_seconds, 1.0))
    return {
        "steps": Chosen(plan.steps, describe_length(plan.epochs, facts, plan.training_seconds)),
        "optimizer": Chosen(optimizer, why_optimizer),
        "warmup": min(warmup, max(1, plan.steps // 8)),
        "schedule": Chosen({"kind": "cosine", "peak": float(f"{peak:.1e}")}, WHY_COSINE),
        "accumulate": plan.accumulate if plan.accumulate > 1 else None,
        "validate_every": validate_every,
        "save_every": max(1, min(validate_every, save_every)),
        "validation_sentences": min(plan.validations.sentences, facts.valid),
        "best_by": Chosen("step", WHY_LAST_STEP),
        "average": 1,
    }


def describe_length(epochs: float, facts: CorpusFacts, seconds: float) -> str:
    """Return how long a training is, in words."""
    minutes = max(1, round(seconds / 60))
    return f"{epochs:,.1f} epochs over {facts.pairs:,} pairs, in about {minutes:,} min"


def _decoding_settings(facts: CorpusFacts, plan: Plan) -> dict[str, Any]:
    return {
        "beam": Chosen(5, "4 to 6 are best, and 1 is about three times as fast"),
        "max_length": plan.max_output,
        "sentences": facts.sentences,
        "abbreviations": facts.abbreviations or None,
        "truecase": facts.truecase or None,
        "dotless_i": facts.dotless_i,
    }
