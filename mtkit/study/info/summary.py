"""What `mtkit info` says first, in eight lines: state, data, sizes, scores, and what to do next."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, INDEX, config_of
from mtkit.artifacts.stage import FROM
from mtkit.artifacts.storage import read_json
from mtkit.config.base import flattened
from mtkit.errors import UserError
from mtkit.report import plural, printable, wrap

Records = Sequence[Mapping[str, Any]]
FIELD = re.compile(r"{([\w.]+)}")
PAIRS_KEPT = "{batches.train.kept} of {batches.train.pairs} pairs"
LAYERS = (
    "{model.encoder.layers} {model.encoder.kind} + {model.decoder.layers} {model.decoder.kind} "
    "layers, width {model.d_model}"
)
LOSS = "validation: loss {weights.validation.loss}"
SUMMARY = {
    "path": ["{place}, into {config.data.target_language}", "{place}"],
    "state": ["step {step}, {ends}", "step {step}", "trained for {weights.steps} steps"],
    "data": [PAIRS_KEPT + " of {config.data.train.source}, {config.data.train.target}", PAIRS_KEPT],
    "subwords": ["{tokenizer.spm.model}, {tokenizer.tokenizer.type}"],
    "model": [
        LAYERS + ", {weights.parameters} parameters",
        LAYERS,
        "{weights.model.kind} of width {weights.model.d_model}",
    ],
    "scores": [
        "test: {test.bleu.name} {test.bleu.score}, chrF2 {test.chrf.score}",
        "test: chrF2 {test.chrf.score}",
        LOSS + ", BLEU {weights.validation.bleu}, chrF2 {weights.validation.chrf}",
        LOSS + ", chrF2 {weights.validation.chrf}",
        LOSS,
    ],
    "files": ["{files}, by mtkit {version}"],
    "next": ["{next} (all figures: --all)"],
}
"""For each fact its sentences; the first of which everything is known is shown."""


def collect_facts(
    place: Path, parts: Sequence[Artifact], records: Records, *, verified: bool
) -> dict[str, Any]:
    """Return all that is known of a run or artifact, by dotted names.

    `parts` are the artifacts of a run, or one artifact. Manifests may hold anything, and so may the
    facts. `records` are the lines of metrics.jsonl.
    """
    facts: dict[str, Any] = {it.manifest["kind"]: _facts_of(it) for it in parts}
    weights = facts.pop("model", facts.get("checkpoint", {}))
    validations = [record for record in records if record.get("kind") == "valid"]
    facts["weights"] = {"validation": validations[-1] if validations else None, **weights}
    with suppress(UserError):  # no run
        config = config_of(place)
        facts |= {"config": config.model_dump(), "model": config.model.as_pair().model_dump()}
    if records:
        model = next((part for part in parts if part.manifest["kind"] == "model"), None)
        facts |= _describe_progress(place, records, model)
    sizes = [size for part in parts for size in _sizes(part).values()]
    kind = " with the right sha256" if verified else ""
    translate = f"mtkit translate -m {place} < in.txt"
    resume = f"mtkit run to resume, or mtkit finish {place}" if records else "mtkit run"
    facts |= {
        "place": str(place),
        "files": f"{plural(len(sizes), 'file')}{kind}, {sum(sizes) / 1e6:,.1f} MB",
        "version": ", ".join(sorted({part.manifest["mtkit"] for part in parts})),
        "next": translate if weights else resume,
    }
    return {name: value for name, value in flattened(facts).items() if value is not None}


def summarise(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield at most eight facts, each on one line if it is short."""
    for title, sentences in SUMMARY.items():
        for sentence in sentences:
            if all(name in facts for name in FIELD.findall(sentence)):
                text = FIELD.sub(lambda field: as_text(facts[field[1]]), sentence)
                yield from wrap(printable(text), f"{title:10}")
                break


def as_text(value: Any) -> str:
    """Return a fact for people: 1,000, 20.86, 3.5e-05 or true."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sizes(artifact: Artifact) -> dict[str, int]:
    return {name: file["bytes"] for name, file in artifact.manifest["files"].items()}


def _facts_of(artifact: Artifact) -> dict[str, Any]:
    manifest = artifact.manifest
    report = {name: value for name, value in artifact.report.items() if name != FROM}
    made_from = {name: identity[:12] for name, identity in manifest["inputs"].items()}
    made = {"identity": artifact.identity[:12], "made from": made_from, "bytes": _sizes(artifact)}
    return {**manifest["settings"], **report, **made}


def _describe_progress(run: Path, records: Records, model: Artifact | None) -> dict[str, Any]:
    last, index = records[-1], _read_index(run)
    step, steps = max(last["step"], index.get("last", 0)), index.get("steps", 0)
    ends, seconds = None, last.get("seconds")
    trained = None if model is None else model.report.get("steps")
    if model is not None and isinstance(trained, int) and trained >= step:
        early = model.manifest["settings"].get("ended") is not None
        ends = "ended early, by `mtkit finish`" if early else "finished"
    elif isinstance(seconds, int | float) and last["step"] > 0 and step < steps:
        left = timedelta(seconds=round(seconds / last["step"] * (steps - step)))
        ends = f"{left} left, at the speed so far"
    reached = f"{step:,} of {steps:,}" if steps else f"{step:,}"
    return {"step": reached, "epoch": last.get("epoch"), "ends": ends}


def _read_index(run: Path) -> dict[str, int]:
    """Return the steps in the index of checkpoints; none if it cannot be read."""
    try:
        index = read_json(run / CHECKPOINTS / INDEX)
    except (OSError, UserError):
        return {}
    steps = index.items() if isinstance(index, dict) else ()
    return {name: step for name, step in steps if type(step) is int}
