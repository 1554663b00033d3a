"""`mtkit compare`: what differs between runs, in settings, in learning and in scores."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mtkit.artifacts import kind_at, open_artifact
from mtkit.config.complaints import flattened
from mtkit.config.configfile import load_config
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import data, table, warn
from mtkit.scoring.files import HYPOTHESES, REFERENCE, read_lines
from mtkit.scoring.score import score_systems
from mtkit.scoring.significance import Test
from mtkit.scoring.tables import score_table
from mtkit.study.info.records import Record, points_of, records_of
from mtkit.study.plots.picture import check_picture, figure, legend, save
from mtkit.study.plots.terminal import number, sparkline

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = {"validation loss": "loss", "validation BLEU": "bleu", "validation chrF2": "chrf"}
AXES = {"update": ("step", 1.0), "minute": ("seconds", 1 / 60)}
"""What a curve goes over: a field of the records, and what it is multiplied by."""
UNSET = "-"

Curves = Mapping[str, Sequence[tuple[float, float]]]
"""Points by the name of the run, for those that have any."""


@dataclass(frozen=True)
class Tested:
    """The test set of a run, translated."""

    references: list[str]
    hypotheses: list[str]
    language: str | None


@dataclass(frozen=True)
class Run:
    name: str
    config: Config
    records: list[Record]
    tested: Tested | None


def compare(
    runs: Sequence[Path], *, paired: Test | None = "bootstrap", plot: Path | None = None
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
    lines = [*_settings(opened), *_learning(opened), *_scores(opened, paired)]
    data("".join(f"{line}\n" for line in lines))
    if plot is not None:
        save(_figure(opened), plot)


def _open(path: Path) -> Run:
    if not (path / "config.yaml").is_file():
        raise UserError(f"{path}: no run here")
    config, tested = load_config(path / "config.yaml"), None
    if kind_at(path / "test") is not None:
        artifact = open_artifact(path / "test", "test")
        tested = Tested(
            read_lines(artifact.path / REFERENCE),
            read_lines(artifact.path / HYPOTHESES),
            config.data.target_language,
        )
    return Run(str(path), config, records_of(path / "metrics.jsonl"), tested)


def _settings(runs: Sequence[Run]) -> Iterator[str]:
    """A row for each setting that is not the same everywhere, but for the run's own folder."""
    settings = [flattened(run.config.model_dump(exclude={"run"})) for run in runs]
    keys = dict.fromkeys(key for of_run in settings for key in of_run)
    rows = [[key, *(_shown(of_run.get(key, UNSET)) for of_run in settings)] for key in keys]
    differing = [row for row in rows if len(set(row[1:])) > 1]
    yield from table([["settings", *(run.name for run in runs)], *differing])
    if not differing:
        yield "all the same"


def _shown(value: object) -> str:
    return "null" if value is None else str(value)


def _learning(runs: Sequence[Run]) -> Iterator[str]:
    """A row of blocks for each run, all on one scale, over updates and over time."""
    width = max(len(run.name) for run in runs)
    for title, field in CURVES.items():
        for axis in AXES:
            curves = _curves(runs, field, axis)
            if not curves:
                continue
            until = max(points[-1][0] for points in curves.values())
            heights = [height for points in curves.values() for _, height in points]
            low, high = min(heights), max(heights)
            yield ""
            yield f"{title}, {number(low)} to {number(high)}, by {axis}, 0 to {number(until)}"
            for name, points in curves.items():
                drawn = sparkline(points, until, low, high)
                yield f"{name:<{width}}  {drawn}  {number(points[-1][1])}"


def _curves(runs: Sequence[Run], field: str, axis: str) -> Curves:
    x, unit = AXES[axis]
    found = {run.name: points_of(run.records, "valid", field, x) for run in runs}
    return {
        name: [(at * unit, height) for at, height in points]
        for name, points in found.items()
        if points
    }


def _scores(runs: Sequence[Run], paired: Test | None) -> Iterator[str]:
    """Of the runs that have translated the same test set as the first of them."""
    tested = {run.name: run.tested for run in runs if run.tested is not None}
    for name in (run.name for run in runs if run.tested is None):
        warn(f"{name}: no test set is translated there: `mtkit run` does it, where data.test is")
    if not tested:
        return
    first = next(iter(tested.values()))
    for name in [name for name, of_run in tested.items() if of_run.references != first.references]:
        warn(f"{name}: another test set than that of {next(iter(tested))}: not compared")
        del tested[name]
    hypotheses = {name: of_run.hypotheses for name, of_run in tested.items()}
    test = paired if len(hypotheses) > 1 else None
    yield ""
    yield from score_table(score_systems(hypotheses, first.references, first.language, test))


def _figure(runs: Sequence[Run]) -> Figure:
    """A row for each curve that any run has, over updates and over time."""
    there = {title: field for title, field in CURVES.items() if _curves(runs, field, "update")}
    if not there:
        raise UserError("--plot: no run has a validation in its metrics.jsonl yet")
    drawn, panels = figure(width=10, height=3 * len(there) + 0.5, rows=len(there), columns=2)
    places = [(title, field, axis) for title, field in there.items() for axis in AXES]
    for panel, (title, field, axis) in zip(panels, places, strict=True):
        curves = _curves(runs, field, axis)
        for run in runs:  # those without points too: a run has one colour everywhere
            points = curves.get(run.name, ())
            panel.plot([x for x, _ in points], [y for _, y in points], ".-", label=run.name)
        panel.set_ylabel(title)
        panel.set_xlabel(axis)
    legend(drawn, panels[0])
    return drawn
