"""What a run, model or artifact is: in words and numbers, or as a drawing."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from mtkit.errors import UserError
from mtkit.report import data
from mtkit.study.info.describe import describe, settings_of


def info(
    path: Path | None = None,
    *,
    verify: bool = False,
    config: bool = False,
    plot: Literal["positions", "schedule", "curves", "lengths"] | None = None,
    output: Path | None = None,
) -> None:
    """Describes a run, model, other artifact or config file on stdout; `config`: its settings.

    `plot` draws instead, in the terminal or as a picture at `output`. Raises UserError where there
    is nothing of the kind, where `verify` finds damage, and for options that do not go together.
    """
    if output is not None and plot is None:
        raise UserError("-o: only with --plot")
    if plot is not None:
        if verify or config:
            raise UserError("--plot: not with --verify or --config")
        from mtkit.study.info.plot import draw

        draw(path, plot, output)
        return
    text = settings_of(path) if config else describe(path, verify=verify)
    data(text.rstrip("\n") + "\n")
