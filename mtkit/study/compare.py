"""`mtkit compare`: what differs between runs, in settings, in learning and in scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, product
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import kind_at, open_artifact
from mtkit.artifacts.runs import config_of
from mtkit.config.base import flattened
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import data_lines, table, warn
from mtkit.scoring.files import HYPOTHESES, REFERENCE, lines_of
from mtkit.scoring.metrics import SignificanceTest, resampling_obstacle
from mtkit.scoring.score import score_systems, score_table
from mtkit.study.plots.picture import check_picture, figure, legend, save
from mtkit.study.plots.terminal import Points, number, sparkline
from mtkit.training.metrics import MetricsLog, points_of

CURVES = {"validation loss": "loss", "validation BLEU": "bleu", "validation chrF2": "chrf"}
AXES = {"update": ("step", 1.0), "minute": ("seconds", 1 / 60)}
"""What a curve goes over: a field of the records, and what it is multiplied by."""


@dataclass(frozen=True)
class Run:
    """What a run asked for, logged and scored."""

    name: str
    config: Config
    records: list[dict[str, Any]]
    references: Sequence[str] = ()
    """The lines of its test set; none where it has translated none."""
    hypotheses: Sequence[str] = ()


def compare(
    runs: Sequence[Path], *, paired: SignificanceTest | None = "bootstrap", plot: Path | None = None
) -> None:
    """Writes what differs between `runs`; scores of the others are tested against the first's.

    `plot` also draws the learning curves into a picture. Raises UserError for what is no run, or
    fewer than two.
    """
    if plot is not None:
        check_picture(plot)
    if len(set(runs)) < max(2, len(runs)):
        raise UserError("compare: name at least two runs, each once")
    opened = [_open(path) for path in runs]
    data_lines([*_settings(opened), *_learning(opened), *_scores(opened, paired)])
    if plot is not None:
        _draw(opened, plot)


def _open(path: Path) -> Run:
    config, records = config_of(path), MetricsLog(path).read()
    if kind_at(path / "test") is None:
        hint = "`mtkit run` does it, where data.test is"
        warn(f"{path}: no test set is translated there: {hint}")
        return Run(str(path), config, records)
    test = open_artifact(path / "test", "test")
    model = path / "model"
    translated_by = test.manifest["inputs"].get("model")
    if kind_at(model) and translated_by != open_artifact(model, "model").identity:
        warn(f"{path}: its test set was translated by an earlier model: `mtkit run` does it anew")
        return Run(str(path), config, records)
    texts = (lines_of(test.path / name) for name in (REFERENCE, HYPOTHESES))
    return Run(str(path), config, records, *texts)


def _settings(runs: Sequence[Run]) -> Iterator[str]:
    """A row for each setting that is not the same everywhere, but for the run's own folder."""
    settings = [flattened(run.config.model_dump(exclude={"run"})) for run in runs]
    keys = dict.fromkeys(key for of_run in settings for key in of_run)
    found = [[key, *(of_run.get(key, "-") for of_run in settings)] for key in keys]
    rows = [["null" if value is None else str(value) for value in row] for row in found]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    yield from table([["settings", *(run.name for run in runs)], *differing])
    if not differing:
        yield "all the same"


def _learning(runs: Sequence[Run]) -> Iterator[str]:
    """A row of blocks for each run, all on one scale, over updates and over time."""
    for title, axis, curves in _curves(runs):
        x, y = zip(*chain.from_iterable(curves.values()), strict=True)
        until, low, high = max(x), min(y), max(y)
        yield ""
        yield f"{title}, {number(low)} to {number(high)}, by {axis}, 0 to {number(until)}"
        rows = (
            [name, sparkline(points, until, low, high), number(points[-1][1])]
            for name, points in curves.items()
        )
        yield from table(rows, left=2)


def _curves(runs: Sequence[Run]) -> Iterator[tuple[str, str, dict[str, Points]]]:
    """What is learnt and over what, with the points by run; of the runs that have any."""
    for (title, field), (axis, (x, unit)) in product(CURVES.items(), AXES.items()):
        curves: dict[str, Points] = {
            run.name: [(at * unit, y) for at, y in points]
            for run in runs
            if (points := points_of(run.records, "valid", field, x))
        }
        if curves:
            yield title, axis, curves


def _scores(runs: Sequence[Run], paired: SignificanceTest | None) -> Iterator[str]:
    """Scores of the runs that have translated the same test set as the first of them."""
    tested = [run for run in runs if run.hypotheses]
    for run in tested[1:]:
        if run.references != tested[0].references:
            warn(f"{run.name}: another test set than that of {tested[0].name}: not compared")
            tested.remove(run)
    if not tested:
        return
    first, *others = tested
    hypotheses = {run.name: run.hypotheses for run in tested}
    language = first.config.data.target_language
    test = paired if others else None
    if test and (obstacle := resampling_obstacle(len(first.references))):
        warn(f"no significance test: {obstacle}")
        test = None
    yield ""
    yield from score_table(score_systems(hypotheses, [first.references], language, test))


def _draw(runs: Sequence[Run], path: Path) -> None:
    """A panel for each curve that any run has, over updates on the left and time on the right."""
    found = list(_curves(runs))
    if not found:
        raise UserError("--plot: no run has a validation in its metrics.jsonl yet")
    rows = -(-len(found) // 2)
    drawn, panels = figure(width=10, height=3 * rows + 0.5, rows=rows, columns=2)
    for panel, (title, axis, curves) in zip(panels, found, strict=False):
        for run in runs:  # those without points too: a run has one colour everywhere
            points = curves.get(run.name, ())
            panel.plot([x for x, _ in points], [y for _, y in points], ".-", label=run.name)
        panel.set(xlabel=axis, ylabel=title)
    legend(drawn, panels[0])
    save(drawn, path)
