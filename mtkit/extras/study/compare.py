"""`mtkit compare`: how runs differ in settings, learning curves and scores."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import kind_at, open_artifact
from mtkit.artifacts.runs import config_of
from mtkit.config.base import flattened
from mtkit.config.locate import flow
from mtkit.errors import UserError
from mtkit.extras.study.curves import (
    X_AXES,
    check_picture,
    draw_curves,
    draw_sparklines,
    learning_curves,
)
from mtkit.report import data_lines, header, table, warn, wrap
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, load_lines
from mtkit.scoring.metrics import resampling_obstacle
from mtkit.scoring.score import score_systems, score_table
from mtkit.scoring.writing import Writing
from mtkit.training.metrics_log import MetricsLog


@dataclass(frozen=True)
class ComparedRun:
    """The settings, records and test translations (if any) of a run."""

    name: str
    target_language: str | None
    settings: Mapping[str, str]
    """All settings but `run`, and the numbers and hashes of pairs, by name."""
    records: list[dict[str, Any]]
    references: Sequence[str] = ()
    hypotheses: Sequence[str] = ()


def compare(runs: Sequence[Path], plot: Path | None = None) -> None:
    """Write how the runs differ; test scores against the scores of the first run.

    `plot`: file for a picture of the learning curves.

    Raises:
        UserError: a path is not a run, or there are fewer than two runs.
    """
    if plot is not None:
        check_picture(plot)
    if len(set(runs)) < max(2, len(runs)):
        raise UserError("compare: give at least two different runs")
    opened = [_open(run) for run in runs]
    records = {run.name: run.records for run in opened}
    panels = list(learning_curves(records, ["valid"], X_AXES))
    data_lines(_compare_settings(opened))
    for panel in panels:  # all runs on one scale
        data_lines(["", *draw_sparklines(panel)])
    data_lines(_compare_scores(opened))
    if plot is not None:
        if not panels:
            raise UserError("no run has logged a validation, so there is nothing to plot")
        draw_curves(panels, list(records), plot)


def _open(path: Path) -> ComparedRun:
    config = config_of(path)
    settings = flattened(config.model_dump(exclude={"run"}))
    texts = {key: flow(value) for key, value in settings.items()}
    run = ComparedRun(
        name=str(path),
        target_language=config.data.target_language,
        settings=texts | _describe_corpus(path),
        records=MetricsLog(path).read(),
    )
    return _with_test(run)


def _with_test(run: ComparedRun) -> ComparedRun:
    """Return a run with its test set, unless that is missing or of an earlier model."""
    path = Path(run.name)
    if kind_at(path / "test") is None:
        warn(f"{path} has no translated test set; set data.test and run `mtkit run`")
        return run
    test = open_artifact(path / "test", "test")
    has_model = kind_at(path / "model") is not None
    if has_model:
        model = open_artifact(path / "model", "model")
        if test.manifest["inputs"].get("model") != model.identity:
            warn(f"{path}: the test set was translated by an earlier model; run `mtkit run`")
            return run
    return replace(
        run,
        references=load_lines(test.file(REFERENCE_FILE)),
        hypotheses=load_lines(test.file(HYPOTHESES_FILE)),
    )


def _describe_corpus(run: Path) -> dict[str, str]:
    """Return the numbers of pairs in the batches of a run, and a short hash of their text."""
    if kind_at(run / "batches") is None:
        return {}
    manifest = open_artifact(run / "batches", "batches").manifest
    facts: dict[str, str] = {}
    for part, title in (("train", "training"), ("valid", "validation")):
        match manifest["report"].get(part):
            case {"kept": int(kept), "pairs": int(pairs)}:
                facts[f"{title} pairs"] = f"{kept:,} of {pairs:,}"
        hashes = [
            identity
            for name, identity in sorted(manifest["inputs"].items())
            if name.startswith(f"data.{part}")
        ]
        text = hashlib.sha256(" ".join(hashes).encode()).hexdigest()
        facts[f"{title} text (sha256)"] = text[:8]
    return facts


def _compare_settings(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield a row for each setting that differs, then the settings of only some runs."""
    rows = header(["settings"], [run.name for run in runs])
    partial: defaultdict[str, list[str]] = defaultdict(list)
    """Settings that only some runs have, with one value, by the names of these runs."""
    keys = dict.fromkeys(key for run in runs for key in run.settings)
    for key in keys:
        owners = [run for run in runs if key in run.settings]
        values = {run.settings[key] for run in owners}
        if len(values) > 1:
            cells = [run.settings.get(key, "-") for run in runs]
            rows.append([key, *cells])
            continue
        (value,) = values
        if len(owners) < len(runs) and value != "null":
            names = ", ".join(run.name for run in owners)
            partial[names].append(f"{key}: {value}")
    yield from table(rows)
    for names, texts in partial.items():
        yield ""
        yield from wrap(", ".join(texts), f"only in {names}: ")


def _compare_scores(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the scores of the runs that have the same test set as the first run with a test set."""
    tested = [run for run in runs if run.hypotheses]
    if not tested:
        return
    first = tested[0]
    compared = []
    for run in tested:
        if run.references == first.references:
            compared.append(run)
        else:
            warn(
                f"{run.name} is not compared, because {first.name} has another test set; translate "
                "one test set with both, then run `mtkit score -r REFERENCE A B --paired`"
            )
    obstacle = resampling_obstacle(len(first.references))
    has_several = len(compared) > 1
    if obstacle and has_several:
        warn(f"no significance test is made: {obstacle}")
    systems = score_systems(
        {run.name: run.hypotheses for run in compared},
        [first.references],
        Writing.of(first.target_language, first.references),
        test=has_several and not obstacle,
    )
    yield ""
    yield from score_table(systems)
