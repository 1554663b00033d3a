"""Learning curves of runs, as rows of characters (sparklines) and as pictures.

numpy and matplotlib are imported only where they are used,
and matplotlib without pyplot, which would keep figures in a global state.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings, filterwarnings

from mtkit.artifacts.output import check_output, open_output
from mtkit.artifacts.runs import read_known_steps
from mtkit.config.schedules import ScheduleInputs
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.info import open_run_settings
from mtkit.report import MAX_CELLS, cell_width, data_lines, say, table
from mtkit.training.metrics_log import MetricsLog, is_finite_number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Number = int | float
Points = Sequence[tuple[Number, Number]]
"""Points (x, y) in ascending order of x."""


@dataclass(frozen=True)
class Panel:
    """Curves by name, with one title and one x axis."""

    title: str
    axis: str
    curves: Mapping[str, Points]


@dataclass(frozen=True)
class Quantity:
    """What a curve shows, and where it is in the records of metrics.jsonl."""

    title: str
    kind: str
    field: str


QUANTITIES = (
    Quantity("training loss", kind="train", field="loss"),
    Quantity("validation loss", kind="valid", field="loss"),
    Quantity("validation BLEU", kind="valid", field="bleu"),
    Quantity("validation chrF2", kind="valid", field="chrf"),
    Quantity("learning rate", kind="train", field="learning_rate"),
    Quantity("tokens per second", kind="train", field="tokens_per_second"),
)
X_AXES = {"step": ("step", 1.0), "minute": ("seconds", 1 / 60)}
"""For each x axis, the field of the records and a factor."""
PLOT_WIDTH = 60
"""Largest width of a curve, in cells."""
MIN_PLOT_WIDTH = 20
GAP_CELLS = 4
"""Cells around a curve: `table` puts two spaces between columns."""
MIN_DENSE_POINTS = 50
"""From this number of points on, a picture does not mark the points of a curve."""
BLOCKS = "▁▂▃▄▅▆▇█"
PLANNED_POINTS = 200
"""Number of points of a planned curve; more than a sparkline has cells."""
PICTURE_SUFFIXES = (".png", ".svg")
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
"""Colours that colour-blind people can distinguish (Okabe and Ito 2008)."""
STYLE: dict[Any, Any] = {
    "axes.grid": True,
    "axes.prop_cycle": f"cycler(color={COLOURS})",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "grid.alpha": 0.3,
}
NUMBERS = "{x:,.6g}"
"""Numbers along an axis, with separators of thousands."""


def plot_run(path: Path | None, output: Path | None) -> None:
    """Plot the curves of a run, or the planned learning rate if the run has logged nothing.

    `path`: a run directory or a config file; None: the default run. `output`: a picture to write;
    None: draw in the terminal.

    Raises:
        UserError: there is no such run, or `output` is no .png or .svg file.
    """
    if output is not None:
        check_picture(output)
    run, config = open_run_settings(path)
    panels = list(learning_curves({"": MetricsLog(run).read()}))
    if not panels:
        rates = plan_rates(config, read_known_steps(run))
        panels = [Panel("planned learning rate", "step", {"": rates})]
    if output is not None:
        draw_curves(panels, [""], output)
    else:
        data_lines(line for panel in panels for line in (*draw_sparklines(panel), ""))


def learning_curves(
    runs: Mapping[str, Sequence[Mapping[str, Any]]],
    kinds: Iterable[str] = ("train", "valid"),
    axes: Iterable[str] = ("step",),
) -> Iterator[Panel]:
    """Yield a panel for each quantity and x axis, with the curves of runs that logged it.

    `runs`: the records of metrics.jsonl by the name of the run; `kinds`: kinds of records to show.
    """
    for quantity in QUANTITIES:
        if quantity.kind not in kinds:
            continue
        for axis in axes:
            field, factor = X_AXES[axis]
            curves = {}
            for name, records in runs.items():
                points = points_of(records, quantity.kind, quantity.field, field)
                if points:
                    curves[name] = [(x * factor, y) for x, y in points]
            if curves:
                yield Panel(quantity.title, axis, curves)


def points_of(
    records: Iterable[Mapping[str, Any]], kind: str, y: str, x: str = "step"
) -> list[tuple[float, float]]:
    """Return (x, y) of each record of a kind ("train" or "valid") in which both are finite."""
    points: list[tuple[float, float]] = []
    for record in records:
        if record.get("kind") != kind:
            continue
        x_value = record.get(x)
        y_value = record.get(y)
        if is_finite_number(x_value) and is_finite_number(y_value):
            points.append((float(x_value), float(y_value)))
    return sorted(points)


def plan_rates(
    config: Config, index: Mapping[str, int], validations: Sequence[tuple[int, float]] = ()
) -> Points:
    """Return the learning rate at steps of the whole run, which need not have begun.

    `index`: the index of checkpoints, which knows the length of a run that is given in epochs;
    `validations`: step and loss of every validation so far. If the length is unknown and the
    schedule does not depend on it, the points end at ten times the warmup.

    Raises:
        UserError: the length is unknown, and the schedule depends on it.
    """
    training = config.training
    schedule, warmup = training.schedule, training.warmup
    total = training.steps or index.get("steps")
    if total is None and schedule.depends_on_length:
        raise UserError(
            f"the schedule {schedule.kind} depends on the number of steps, which training.epochs "
            "determines at the first step; set training.steps"
        )
    total = total or 10 * warmup
    inputs = ScheduleInputs(warmup, total, config.model.d_model, validations)
    steps = {min(warmup, total)}  # the peak of most schedules
    for place in range(PLANNED_POINTS):
        steps.add(1 + (total - 1) * place // (PLANNED_POINTS - 1))
    return [(step, schedule.rate(step, inputs)) for step in sorted(steps)]


def draw_sparklines(panel: Panel) -> Iterator[str]:
    """Yield a title with the scale, then name, sparkline and last value of each curve."""
    points: list[tuple[Number, Number]] = []
    last_values: dict[str, str] = {}
    for name, curve in panel.curves.items():
        points += curve
        last_values[name] = format_number(curve[-1][1])
    until = max(x for x, _ in points)
    low = min(y for _, y in points)
    high = max(y for _, y in points)
    scale = f"{format_number(low)} to {format_number(high)}"
    yield f"{panel.title}, {scale}, by {panel.axis}, 0 to {format_number(until)}"
    name_cells = max(map(cell_width, last_values))
    value_cells = max(map(len, last_values.values()))
    free_cells = MAX_CELLS - name_cells - value_cells - GAP_CELLS
    width = max(MIN_PLOT_WIDTH, min(PLOT_WIDTH, free_cells))
    rows = []
    for name, curve in panel.curves.items():
        sparkline = draw_sparkline(curve, until, low, high, width)
        rows.append([name, sparkline, last_values[name]])
    yield from table(rows, left=2)


def draw_sparkline(
    points: Points, until: Number, low: Number, high: Number, width: int = PLOT_WIDTH
) -> str:
    """Return a curve as one row of block characters, for x from 0 to `until`."""
    import numpy as np

    x, y = np.array(points, np.float64).T
    cells_per_unit = width / (until or 1)
    cells = (x * cells_per_unit).astype(int).clip(max=width - 1)
    first = int(cells[0])
    last = int(cells[-1])
    # A cell shows the value at its middle.
    middles = (np.arange(first, last + 1) + 0.5) / cells_per_unit
    blocks_per_unit = (len(BLOCKS) - 1) / ((high - low) or 1)
    heights = blocks_per_unit * (np.interp(middles, x, y) - low)
    drawn = [BLOCKS[round(height)] for height in heights]
    return " " * first + "".join(drawn)


def format_number(value: Number) -> str:
    """Return a number with few digits."""
    is_whole = value == round(value) or abs(value) >= 1000
    return f"{value:,.0f}" if is_whole and abs(value) < 1e9 else f"{value:.4g}"


def check_picture(path: Path) -> None:
    """Check, before any work, that a picture can be saved.

    Raises:
        UserError: the suffix is not supported, the file cannot be written, or matplotlib is not
            installed.
    """
    if path.suffix.lower() not in PICTURE_SUFFIXES:
        raise UserError(
            f"{path} is not the name of a picture; choose one that ends in "
            + " or ".join(PICTURE_SUFFIXES)
        )
    check_output(path)
    if not os.access(path.parent, os.W_OK):
        raise UserError(f"{path} cannot be written; choose another name")
    if find_spec("matplotlib") is None:
        raise UserError(f"{path}: pictures need matplotlib; run `pip install 'mtkit[plots]'`")


def draw_curves(panels: Sequence[Panel], names: Sequence[str], path: Path) -> None:
    """Draw the panels and save the picture; each panel has curves for some of `names`."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    columns = min(2, len(panels))
    rows = math.ceil(len(panels) / columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(4 + 3 * columns, 1 + 2.5 * rows), layout="constrained")
        plots = list(figure.subplots(rows, columns, squeeze=False).flat)
    for plot, panel in zip(plots, panels, strict=False):
        _draw_panel(plot, panel, names)
    for unused in plots[len(panels) :]:
        unused.remove()
    if len(names) > 1:
        # The first panel has an entry for every name, drawn or not.
        handles, labels = plots[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper left")
    picture = BytesIO()
    with catch_warnings():
        filterwarnings("ignore", r"Glyph \d+")  # missing glyphs of run names are drawn as boxes
        figure.savefig(picture, format=path.suffix.lower().removeprefix("."), dpi=144)
    with open_output(path) as (file, _):
        file.write(picture.getvalue())
    say(f"wrote {path}")


def _draw_panel(plot: Axes, panel: Panel, names: Sequence[str]) -> None:
    for name in names:
        # A run without points is drawn, too, so that every run has the same colour in all panels.
        points = panel.curves.get(name, ())
        style = ".-" if len(points) < MIN_DENSE_POINTS else "-"
        plot.plot([x for x, _ in points], [y for _, y in points], style, label=name)
    plot.set_xlim(left=0)
    plot.set_title(panel.title, fontsize="medium")
    plot.set_xlabel(panel.axis)
    plot.xaxis.set_major_formatter(NUMBERS)
    plot.yaxis.set_major_formatter(NUMBERS)
    plot.locator_params(axis="x", integer=panel.axis == "step")
