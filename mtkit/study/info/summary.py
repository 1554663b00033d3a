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
from mtkit.artifacts.storage import read_json
from mtkit.config.base import flattened
from mtkit.errors import UserError
from mtkit.report import plural, printable, wrap

Parts = Mapping[str, Artifact]
"""The artifacts of a run by kind, or one artifact."""
Records = Sequence[Mapping[str, Any]]
"""The lines of metrics.jsonl."""
FIELD = re.compile(r"{([\w.]+)}")
PAIRS_KEPT = "{batches.train.kept} of {batches.train.pairs} pairs"
LAYERS = (
    "{model.encoder.layers} {model.encoder.kind} + {model.decoder.layers} {model.decoder.kind} "
    "layers, width {model.d_model}"
)
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
        "test: BLEU {test.bleu.score}, chrF2 {test.chrf.score}",
        "test: chrF2 {test.chrf.score}",
        "validation: loss {valid.loss}, BLEU {valid.bleu}, chrF2 {valid.chrf}",
        "validation: loss {valid.loss}",
    ],
    "files": ["{files}, by mtkit {version}"],
    "next": ["{next} (all figures: --all)"],
}
"""For each fact its sentences; the first of which everything is known is shown."""


def summarise(place: Path, parts: Parts, records: Records, *, verified: bool) -> Iterator[str]:
    """Yield at most eight facts about a run or artifact, each on one line if it is short."""
    known = flattened(_facts(place, parts, records, verified))
    for fact, sentences in SUMMARY.items():
        for sentence in sentences:
            if all(known.get(name) is not None for name in FIELD.findall(sentence)):
                text = FIELD.sub(lambda field: _text(known[field[1]]), sentence)
                yield from wrap(printable(text), f"{fact:10}")
                break


def _facts(place: Path, parts: Parts, records: Records, verified: bool) -> dict[str, Any]:
    """Return all that sentences may name; manifests hold anything, and so do these."""
    facts: dict[str, Any] = {
        kind: {**it.manifest["settings"], **it.report} for kind, it in parts.items()
    }
    facts["weights"] = weights = facts.pop("model", facts.get("checkpoint", {}))
    validations = [record for record in records if record.get("kind") == "valid"]
    facts["valid"] = weights.get("validation", validations[-1] if validations else None)
    with suppress(UserError):  # no run
        config = config_of(place)
        facts |= {"config": config.model_dump(), "model": config.model.as_pair().model_dump()}
    if records:
        facts |= describe_progress(place, records, parts.get("model"))
    sizes = [facts["bytes"] for it in parts.values() for facts in it.manifest["files"].values()]
    kind = " with the right sha256" if verified else ""
    translate = f"mtkit translate -m {place} < in.txt"
    resume = f"mtkit run to resume, or mtkit finish {place}" if records else "mtkit run"
    return facts | {
        "place": str(place),
        "files": f"{plural(len(sizes), 'file')}{kind}, {sum(sizes) / 1e6:,.1f} MB",
        "version": ", ".join(sorted({it.manifest["mtkit"] for it in parts.values()})),
        "next": translate if weights else resume,
    }


def _text(value: Any) -> str:
    if isinstance(value, int | float):
        return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
    return str(value)


def describe_progress(run: Path, records: Records, model: Artifact | None) -> dict[str, Any]:
    """Return the step, the epoch, and when training ends or how it ended."""
    last, index = records[-1], read_index(run)
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


def read_index(run: Path) -> dict[str, int]:
    """Return the steps in the index of checkpoints; none if it cannot be read."""
    try:
        index = read_json(run / CHECKPOINTS / INDEX)
    except (OSError, UserError):
        return {}
    steps = index.items() if isinstance(index, dict) else ()
    return {name: step for name, step in steps if type(step) is int}
