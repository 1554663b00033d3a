"""`mtkit compare`: how runs differ in settings, learning curves and scores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import kind_at, open_artifact
from mtkit.artifacts.runs import config_of
from mtkit.config.base import flattened
from mtkit.config.locate import flow
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import data_lines, header, table, warn, wrap
from mtkit.scoring.line_files import HYPOTHESES_FILE, REFERENCE_FILE, load_lines
from mtkit.scoring.metrics import resampling_obstacle
from mtkit.scoring.score import score_systems, score_table
from mtkit.scoring.writing import Writing
from mtkit.study.curves import X_AXES, check_picture, draw_curves, draw_sparklines, learning_curves
from mtkit.training.metrics_log import MetricsLog


@dataclass(frozen=True)
class ComparedRun:
    """The settings, records and test translations (if any) of a run."""

    name: str
    config: Config
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
    opened = [_open(path) for path in runs]
    records = {run.name: run.records for run in opened}
    panels = list(learning_curves(records, ["valid"], X_AXES))
    data_lines(_settings(opened))
    for panel in panels:  # all runs on one scale
        data_lines(["", *draw_sparklines(panel)])
    data_lines(_scores(opened))
    if plot is not None:
        if not panels:
            raise UserError("no run has logged a validation, so there is nothing to plot")
        draw_curves(panels, list(records), plot)


def _open(path: Path) -> ComparedRun:
    run = ComparedRun(str(path), config_of(path), MetricsLog(path).read())
    if kind_at(path / "test") is None:
        warn(f"{path} has no translated test set; set data.test and run `mtkit run`")
        return run
    test, model = open_artifact(path / "test", "test"), path / "model"
    identity = open_artifact(model, "model").identity if kind_at(model) else None
    if identity not in (None, test.manifest["inputs"].get("model")):
        warn(f"{path}: the test set was translated by an earlier model; run `mtkit run`")
        return run
    texts = (load_lines(test.file(name)) for name in (REFERENCE_FILE, HYPOTHESES_FILE))
    return ComparedRun(run.name, run.config, run.records, *texts)


def _settings(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield a row for each setting that differs (except `run`), then settings of only some runs."""
    settings = [flattened(run.config.model_dump(exclude={"run"})) for run in runs]
    title, rows = header(["settings"], [run.name for run in runs]), []
    partial: defaultdict[str, list[str]] = defaultdict(list)
    for key in dict.fromkeys(chain.from_iterable(settings)):
        having = zip(runs, settings, strict=True)
        values = {run.name: flow(of_run[key]) for run, of_run in having if key in of_run}
        if len(set(values.values())) > 1:
            rows.append([key, *(values.get(run.name, "-") for run in runs)])
        elif len(values) < len(runs) and "null" not in values.values():
            partial[", ".join(values)].append(f"{key}: {next(iter(values.values()))}")
    yield from table([*title, *rows])
    if not rows and not partial:
        yield "no differences"
    for names, texts in partial.items():
        yield from ("", *wrap(", ".join(texts), f"only in {names}: "))


def _scores(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the scores of the runs that have the same test set as the first run with a test set."""
    tested = [run for run in runs if run.hypotheses]
    for run in tested[1:]:
        if run.references != tested[0].references:
            warn(f"{run.name} is not compared, because {tested[0].name} has another test set")
            tested.remove(run)
    if not tested:
        return
    first = tested[0]
    obstacle = resampling_obstacle(len(first.references))
    if obstacle and len(tested) > 1:
        warn(f"no significance test is made: {obstacle}")
    test = len(tested) > 1 and not obstacle
    hypotheses = {run.name: run.hypotheses for run in tested}
    writing = Writing.of(first.config.data.target_language, first.references)
    yield ""
    yield from score_table(score_systems(hypotheses, [first.references], writing, test))
