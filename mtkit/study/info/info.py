"""`mtkit info`: what a run, model or artifact is: sizes, settings, scores, inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml

from mtkit.artifacts.manifest import Artifact, Kind, kind_at, open_artifact
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    SETTINGS,
    checkpoint_at,
    checkpoint_steps,
    config_of,
    default_place,
)
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.report import data_lines, printable, table
from mtkit.study.info.summary import as_text, collect_facts, summarise
from mtkit.study.picture import check_picture, draw_curves
from mtkit.training.metrics import MetricsLog

CONFIGURED = ("config.", "model.")
"""What `info --config` prints."""


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

    `config` prints its settings instead, with comments if `explain`. `plot` draws its learning
    curves instead, in the terminal or as the picture `output`.

    Raises:
        UserError: there is no such thing, or `verify` finds damage.
    """
    if plot:
        if output is not None:
            check_picture(output)
        _plot(_open_run(path)[0], output)
        return
    lines = _settings_yaml(path, explain) if config else _describe(path, full, verify)
    data_lines(map(printable, lines))


def _plot(run: Path, output: Path | None) -> None:
    from mtkit.study.curves import draw_sparklines, learning_curves  # loads numpy

    log = MetricsLog(run)
    panels = list(learning_curves({"": log.read()}))
    if not panels:
        raise UserError(f"{log.path} is empty, as nothing is logged yet; train with `mtkit train`")
    if output is not None:
        draw_curves(panels, [""], output)
    else:
        data_lines(line for panel in panels for line in (*draw_sparklines(panel), ""))


def _open_run(path: Path | None) -> tuple[Path, Config]:
    """Return directory and settings; by default those of `default_place` or ./mtkit.yaml."""
    folder = path or default_place()
    if (folder / SETTINGS).is_file():
        return folder, config_of(folder)
    if path.is_dir() if path else os.environ.get("MTKIT_MODEL"):
        raise UserError(f"{folder} is not a run directory; give one, or a config file")
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
    # With `verify`, a part of a run that has lost its manifest is damage, too.
    folder = path or default_place()
    if folder.is_file():
        folder, _ = _open_run(folder)
    artifact = _open_artifact(folder, verify=verify)
    parts = (
        [artifact]
        if artifact
        else [
            open_artifact(folder / kind, kind, verify=verify)
            for kind in get_args(Kind)
            if ((folder / kind).is_dir() if verify else kind_at(folder / kind))
        ]
    )
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
