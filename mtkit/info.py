"""`mtkit info`: describe a run, model or artifact: state, settings, scores, and what to do next."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, get_args

import yaml

from mtkit.artifacts.manifest import Artifact, Kind, OtherFormatError, kind_at, open_artifact
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    SETTINGS,
    checkpoint_at,
    checkpoint_steps,
    config_of,
    default_place,
)
from mtkit.config.base import flattened
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.report import data_lines, plural, printable, table, warn, wrap
from mtkit.study.curves import (
    Panel,
    check_picture,
    draw_curves,
    draw_sparklines,
    learning_curves,
    plan_rates,
    read_index,
)
from mtkit.training.metrics_log import MetricsLog

CONFIGURED = ("config.", "model.")
"""Facts that `info --all` leaves out, because `info --config` prints them."""
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
"""Possible sentences for each fact; the first one whose values are all known is shown."""


def info(
    path: Path | None = None,
    *,
    full: bool = False,
    verify: bool = False,
    config: bool = False,
    explain: bool = False,
    plot: bool = False,
    output: Path | None = None,
) -> None:
    """Describe a run, model, other artifact or config file on stdout, in short or in `full`.

    `config`: print the settings instead, with comments if `explain`. `plot`: draw the learning
    curves, or the planned learning rate before training, in the terminal or as the picture
    `output`.

    Raises:
        UserError: `path` is nothing of this kind, or `verify` finds damage.
    """
    if plot:
        if output is not None:
            check_picture(output)
        _plot(*_open_run(path), output)
        return
    lines = _settings_yaml(path, explain) if config else _describe(path, full, verify)
    data_lines(map(printable, lines))


def _plot(run: Path, config: Config, output: Path | None) -> None:
    """Plot the curves of a run, or the planned learning rate if the run has logged nothing."""
    panels = list(learning_curves({"": MetricsLog(run).read()}))
    if not panels:
        rates = plan_rates(config, read_index(run))
        panels = [Panel("planned learning rate", "step", {"": rates})]
    if output is not None:
        draw_curves(panels, [""], output)
    else:
        data_lines(line for panel in panels for line in (*draw_sparklines(panel), ""))


def _open_run(path: Path | None) -> tuple[Path, Config]:
    """Return directory and settings of a run; default: `default_place` or ./mtkit.yaml."""
    folder = path or default_place()
    if (folder / SETTINGS).is_file():
        return folder, config_of(folder)
    if path.is_dir() if path else os.environ.get("MTKIT_MODEL"):
        raise UserError(f"{folder} is not a run directory; give a run directory or a config file")
    config = load_config(path)
    return Path(config.run), config


def _settings_yaml(path: Path | None, with_comments: bool) -> Iterator[str]:
    artifact = _open_artifact(path or default_place())
    settings: Mapping[str, Any] = (
        _open_run(path)[1].model_dump(mode="json")
        if artifact is None
        else artifact.manifest["settings"]
    )
    if with_comments:
        yield from explain_settings(settings)
    else:
        yield from yaml.safe_dump(settings, sort_keys=False, allow_unicode=True).splitlines()


def _describe(path: Path | None, full: bool, verify: bool) -> Iterator[str]:
    # With `verify`, a part of a run without a manifest counts as damaged, too.
    folder = path or default_place()
    if folder.is_file():
        folder, _ = _open_run(folder)
    artifact = _open_artifact(folder, verify=verify)
    parts = [artifact] if artifact else []
    for kind in () if artifact else get_args(Kind):
        if (folder / kind).is_dir() if verify else kind_at(folder / kind):
            try:
                parts.append(open_artifact(folder / kind, kind, verify=verify))
            except OtherFormatError as error:
                warn(str(error))
    for step in checkpoint_steps(folder / CHECKPOINTS) if verify else ():
        open_artifact(checkpoint_at(folder / CHECKPOINTS, step), "checkpoint", verify=True)
    log = MetricsLog(folder)
    records = [] if artifact else log.read()
    if not parts and not records:
        raise UserError(f"{folder} holds no run, model or artifact; create one with `mtkit run`")
    facts = collect_facts(folder, parts, records, verified=verify)
    if not full:
        yield from summarise(facts)
        return
    shown = {name: value for name, value in facts.items() if not name.startswith(CONFIGURED)}
    yield from table([(name, as_text(value)) for name, value in shown.items()], left=2)


def _open_artifact(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def collect_facts(
    place: Path, parts: Sequence[Artifact], records: Records, *, verified: bool
) -> dict[str, Any]:
    """Return all facts about a run or artifact, by dotted names.

    `parts`: the artifacts of a run, or one artifact. `records`: the lines of metrics.jsonl. Facts
    may have any type, because they are not checked in manifests.
    """
    facts: dict[str, Any] = {it.manifest["kind"]: _facts_of(it) for it in parts}
    weights = facts.pop("model", None) or facts.pop("checkpoint", {})
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
    run = f"mtkit run -c {place / SETTINGS}" if "config" in facts else "mtkit run"
    resume = f"{run} to resume, or mtkit finish {place}"
    facts |= {
        "place": str(place),
        "files": f"{plural(len(sizes), 'file')}{kind}, {sum(sizes) / 1e6:,.1f} MB",
        "version": ", ".join(sorted({part.manifest["mtkit"] for part in parts})),
        "next": translate if weights else resume if records else run,
    }
    return {name: value for name, value in flattened(facts).items() if value is not None}


def summarise(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the lines of at most eight facts; a short fact takes one line."""
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
    made_from = {name: identity[:12] for name, identity in manifest["inputs"].items()}
    made = {"identity": artifact.identity[:12], "made from": made_from, "bytes": _sizes(artifact)}
    return {**manifest["settings"], **artifact.report, **made}


def _describe_progress(run: Path, records: Records, model: Artifact | None) -> dict[str, Any]:
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
