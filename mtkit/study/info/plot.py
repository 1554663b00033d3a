"""`mtkit info --plot`: a run or config as a drawing."""

from __future__ import annotations

from pathlib import Path

from mtkit.report import data
from mtkit.study.info.curves import curves_of, schedule_of
from mtkit.study.info.describe import run_at
from mtkit.study.info.lengths import lengths_of
from mtkit.study.info.positions import positions_of
from mtkit.study.plots.picture import check_picture

VIEWS = {
    "positions": positions_of,
    "schedule": schedule_of,
    "curves": curves_of,
    "lengths": lengths_of,
}


def draw(path: Path | None, what: str, output: Path | None) -> None:
    """Draws into the terminal, or into a picture at `output`.

    `what` is one of VIEWS; `path` is a run, or a config file, whose run is looked at. Raises
    UserError where what is to be drawn is not there, and for an `output` that is no picture.
    """
    if output is not None:
        check_picture(output)
    run, config = run_at(path)
    view = VIEWS[what](run, config)
    if output is None:
        data("".join(f"{line}\n" for line in view.text()))
    else:
        view.draw(output)
