"""The config that `mtkit init` writes: `template.yaml` with its holes filled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from string import Formatter
from typing import Any

from mtkit.config.errors import flow
from mtkit.report import printable
from mtkit.study.init.plan import CorpusFacts, Plan


def render_config(
    facts: CorpusFacts,
    plan: Plan,
    corpora: Mapping[str, Mapping[str, Any]],
    run: str,
    target_language: str | None = None,
    counts: Mapping[str, int] | None = None,
    command: str = "mtkit init",
) -> str:
    """Return the text of a config.

    `corpora`: what the config says of each; `counts`: their pairs. A line of the template is left
    out if one of its values is None, and a comment if no setting follows it.
    """
    values = _values(facts, plan) | {part: flow(corpus) for part, corpus in corpora.items()}
    values |= {"run": flow(run), "target_language": target_language, "command": printable(command)}
    values |= {"counts": counts or dict.fromkeys(("train", "valid", "test"), 0)}
    values.setdefault("test", None)
    template = Path(__file__).with_name("template.yaml").read_text(encoding="utf-8")
    formatter = Formatter()
    kept: list[str] = []
    follows_setting = False
    for line in reversed(template.splitlines()):
        holes = [name for _, name, _, _ in formatter.parse(line) if name]
        is_comment = line.lstrip().startswith("#")
        is_full = all(formatter.get_field(name, (), values)[0] is not None for name in holes)
        if is_full and (follows_setting or not is_comment):
            kept.append(line.format_map(values))
            follows_setting = bool(line) and not is_comment
    return "\n".join(reversed(kept)) + "\n"


def _values(facts: CorpusFacts, plan: Plan) -> dict[str, Any]:
    """Return the values of settings that are not always written, or not as the plan has them."""
    preset, is_published = plan.preset, plan.preset.is_published
    _, attention_dropout, activation_dropout = plan.dropouts
    optimizer = {"kind": "adam"} if is_published else {"kind": "muon", "weight_decay": 0.1}
    reason = f"the largest model that can learn enough from the pairs in {plan.epochs_text} epochs"
    if is_published:
        reason = f"the {'base' if preset.d_model == 512 else 'big'} model of Vaswani et al. 2017"
    return {
        "facts": facts,
        "plan": plan,
        "preset": preset,
        "joint": flow(facts.is_joint),
        "deduplicate": "true" if facts.deduplicate else None,
        "broken_rules": ", ".join(f"{rule} ({pairs:,})" for rule, pairs in facts.drop.items()),
        "drop": flow([*facts.drop]) if facts.drop else None,
        "reason": reason,
        "tie": None if facts.is_joint else "target",
        "attention_dropout": attention_dropout or None,
        "activation_dropout": activation_dropout or None,
        "training_minutes": max(1, round(plan.seconds["training"] / 60)),
        "optimizer": flow(optimizer),
        "schedule": flow({"kind": "cosine", "peak": plan.peak}),
        "accumulate": plan.accumulate if plan.accumulate > 1 else None,
        "validation_sentences": plan.validation_sentences
        if plan.validation_sentences < 1000
        else None,
        "truecase": "true" if facts.truecase else None,
    }
