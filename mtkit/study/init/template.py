"""The config that `mtkit init` writes: `template.yaml` with its holes filled."""

from __future__ import annotations

from pathlib import Path
from string import Formatter
from typing import Any

from mtkit.config.errors import flow
from mtkit.study.init.presets import DROPOUT_BY_EPOCHS, VALIDATIONS, CorpusFacts, Plan


def render_config(facts: CorpusFacts, plan: Plan, **others: Any) -> str:
    """Return the text of a config; `others`: run, train, valid, test, counts and the like.

    A line of the template is left out if one of its values is None or missing, and a comment if no
    setting follows it.
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
        "facts": facts,
        "plan": plan,
        "preset": preset,
        "joint": flow(facts.is_joint),
        "deduplicate": "true" if facts.deduplicate else None,
        "drop": flow([*facts.drop]) if facts.drop else None,
        "broken_rules": ", ".join(f"{rule} ({pairs:,})" for rule, pairs in facts.drop.items()),
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
        "sentences": facts.sentences,
        "truecase": "true" if facts.truecase else None,
    }
