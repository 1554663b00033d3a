"""What `mtkit info` says first, in eight lines: state, data, sizes, scores, and what to do next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, INDEX, config_of
from mtkit.artifacts.stage import origin_of
from mtkit.artifacts.storage import read_json
from mtkit.config.base import validated
from mtkit.config.decoding import ModelConfig
from mtkit.config.model import ModelSettings
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import plural, printable, wrap
from mtkit.training.metrics import SHOWN_SCORES

Parts = Mapping[str, Artifact]
"""The artifacts of a run by kind, or one artifact."""
Records = Sequence[Mapping[str, Any]]
"""The lines of metrics.jsonl."""


def summarise(place: Path, parts: Parts, records: Records, *, verified: bool) -> Iterator[str]:
    """Yield at most eight facts about a run or artifact, each on one line if it is short.

    Manifests may hold anything: a fact that is missing or of another type is left out.
    """
    alone = next((kind for kind, part in parts.items() if part.path == place), None)
    config = None
    if alone is None:
        with suppress(UserError):  # there is none, or it is of another version
            config = config_of(place)
    batches, tokenizer, model = (parts.get(kind) for kind in ("batches", "tokenizer", "model"))
    weights = model or parts.get("checkpoint")
    settings = _model_settings(weights) if weights else config and config.model
    facts = {
        alone or "run": f"{place}{_describe_languages(config)}",
        "state": _describe_state(place, records, model),
        "data": batches and _describe_batches(batches),
        "subwords": tokenizer and _describe_tokenizer(tokenizer),
        "network": settings and _describe_model(settings, model),
        "scores": _describe_scores(parts.get("test"), model, records),
        "files": _describe_files(parts, verified),
        "next": f"{_next_step(place, parts, records)} (--all prints all figures)",
    }
    for name, text in facts.items():
        if text:
            yield from wrap(printable(text), f"{name:11}")


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


def _describe_languages(config: Config | None) -> str:
    target = config and config.data.target_language
    source = config and config.decoding.sentences
    return f", {source or 'source'} to {target}" if target else ""


def _describe_state(run: Path, records: Records, model: Artifact | None) -> str:
    facts = []
    if records:
        progress = describe_progress(run, records, model)
        facts = [f"step {progress['step']}", progress["ends"] or "not finished"]
    match model and model.report:
        case {"steps": int(steps), "epochs": int(), "training_seconds": int() | float() as seconds}:
            facts = facts or [plural(steps, "step")]
            facts.append(f"{timedelta(seconds=round(seconds))} of training")
    return ", ".join(facts)


def _describe_batches(batches: Artifact) -> str | None:
    match batches.report:
        case {"train": {"kept": int(kept), "pairs": int(pairs)}, "valid": {"kept": int(valid)}}:
            origin = (name.partition(": ") for name in origin_of(batches))
            files = [file for key, _, file in origin if key.startswith("data.train") and file]
            more = f" and {len(files) - 2} more" if len(files) > 2 else ""
            dropped = f" ({pairs - kept:,} dropped)" if pairs > kept else ""
            place = f" from {' and '.join(files[:2])}{more}" if files else ""
            return f"{plural(kept, 'pair')}{dropped}{place}; {valid:,} to validate"
    return None


def _describe_tokenizer(tokenizer: Artifact) -> str | None:
    figures = [size for name, size in tokenizer.report.items() if name.startswith("spm")]
    sizes = [f"{size:,}" for size in figures if isinstance(size, int)]
    match tokenizer.manifest["settings"]:
        case {"tokenizer": {"type": str(kind)}} if sizes:
            return f"{' + '.join(sizes)}, {kind}"
    return None


def _model_settings(weights: Artifact) -> ModelSettings | None:
    path = weights.path / "config.json"
    try:
        return validated(ModelConfig, read_json(path), str(path)).model
    except OSError:
        return None


def _describe_model(settings: ModelSettings, model: Artifact | None) -> str:
    pair = settings.as_pair()
    layers = f"{pair.encoder.layers} + {pair.decoder.layers} layers of width {pair.d_model}"
    parameters = model and model.report.get("parameters")
    size = f", {parameters:,} parameters" if isinstance(parameters, int) else ""
    return f"{settings.name}, {layers}{size}"


def _describe_scores(test: Artifact | None, model: Artifact | None, records: Records) -> str | None:
    """Return the scores on the test set, else those of the model or of the last validation."""
    scores = []
    for facts in test.report.values() if test else ():
        match facts:
            case {"name": str(name), "score": int() | float() as score}:
                scores.append(f"{name} {score:.2f}")
    if scores:
        return f"test: {', '.join(scores)}"
    validations = [record for record in records if record.get("kind") == "valid"]
    measured = [*validations, model.report.get("validation") if model else None]
    for one in reversed(measured):
        if isinstance(one, dict):
            shown = (SHOWN_SCORES[name] + (one.get(name),) for name in ("loss", "bleu", "chrf"))
            scores = [f"{it} {x:{form}}" for it, form, x in shown if isinstance(x, int | float)]
            return f"validation: {', '.join(scores)}"
    return None


def _describe_files(parts: Parts, verified: bool) -> str | None:
    manifests = [part.manifest for part in parts.values()]
    sizes = [facts["bytes"] for it in manifests for facts in it["files"].values()]
    if not sizes:
        return None
    versions = ", ".join(dict.fromkeys(manifest["mtkit"] for manifest in manifests))
    files = plural(len(sizes), "file") + (" with the right sha256" if verified else "")
    return f"{files}, {sum(sizes) / 1e6:,.1f} MB, by mtkit {versions}"


def _next_step(place: Path, parts: Parts, records: Records) -> str:
    if "model" in parts or "checkpoint" in parts:
        return f"mtkit translate -m {place} < in.txt"
    return f"mtkit run to resume, or mtkit finish {place}" if records else "mtkit run"
