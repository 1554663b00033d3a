"""`mtkit info`: what a run, model or artifact is, in words and numbers.

Sizes, settings, scores, and what it was made from; a drawing of it is made elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from mtkit.artifacts.explain import FROM
from mtkit.artifacts.manifest import Artifact, Kind, kind_at, open_artifact
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    SETTINGS,
    checkpoint_at,
    checkpoint_steps,
    config_of,
    default_place,
)
from mtkit.config.base import flattened
from mtkit.config.settings import Config
from mtkit.config.yaml import dump_config, load_config
from mtkit.errors import UserError
from mtkit.report import data, data_lines, printable, table
from mtkit.study.info.progress import checkpoint_table, progress_of
from mtkit.study.plots.picture import check_picture
from mtkit.training.metrics import MetricsLog

Plot = Literal["positions", "schedule", "curves", "lengths"]
HASH_SHOWN = 12
"""Number of digits of a hash that people see."""


def info(
    path: Path | None = None,
    *,
    verify: bool = False,
    config: bool = False,
    plot: Plot | None = None,
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
        _draw(path, plot, output)
    else:
        if verify and config:
            raise UserError("--verify: not with --config")
        lines = settings_of(path).split("\n") if config else describe(path, verify=verify)
        data("\n".join(map(printable, lines)).rstrip("\n") + "\n")


def _draw(path: Path | None, what: Plot, output: Path | None) -> None:
    if output is not None:
        check_picture(output)
    from mtkit.study.info.plot import VIEWS  # loads torch

    view = VIEWS[what](*run_at(path))
    if output is None:
        data_lines(view.text())
    else:
        view.draw(output)


def run_at(path: Path | None) -> tuple[Path, Config]:
    """The folder of a run, which `path` or a config file at `path` names, and its settings.

    Without a path it is the run at $MTKIT_MODEL; where that is unset, the last run, or that of the
    default config. UserError for no run.
    """
    folder = path or default_place()
    if (folder / SETTINGS).is_file():
        return folder, config_of(folder)
    if path.is_dir() if path else os.environ.get("MTKIT_MODEL"):
        raise UserError(f"{folder}: no run here: name one, or a config file")
    config = load_config(path)
    return Path(config.run), config


def settings_of(path: Path | None) -> str:
    """Every resolved setting: of a run, of a model as it was asked for, or of a config file."""
    artifact = _artifact_at(path or default_place())
    if artifact is None:
        return dump_config(run_at(path)[1])
    return yaml.safe_dump(artifact.manifest["settings"], sort_keys=False)


def describe(path: Path | None, *, verify: bool) -> Iterator[str]:
    """A run, also by its config, or a model or other artifact, in words and numbers.

    `verify`: with every file hashed again.

    Raises UserError where there is nothing of the kind, or damage is found; with `verify`, a
    folder of a run that has lost its manifest is damage, too.
    """
    folder = path or default_place()
    if folder.is_file():
        folder, _ = run_at(folder)
    artifact = _artifact_at(folder, verify=verify)
    if artifact is not None:
        yield from _facts(artifact, artifact.manifest["settings"], verified=verify)
        return
    places: dict[Path, Kind] = {folder / kind: kind for kind in get_args(Kind)}
    parts = [
        open_artifact(place, kind, verify=verify)
        for place, kind in places.items()
        if (place.is_dir() if verify else kind_at(place))
    ]
    for step in checkpoint_steps(folder / CHECKPOINTS) if verify else ():
        open_artifact(checkpoint_at(folder / CHECKPOINTS, step), "checkpoint", verify=True)
    log = MetricsLog(folder)
    records = log.read()
    if not parts and not records:
        raise UserError(f"{folder}: no run, model or artifact here: make one with `mtkit run`")
    yield f"run  {folder}"
    yield ""
    for part in parts:
        yield from _facts(part, {}, verified=verify)
    if records:
        model = next((part for part in parts if part.manifest["kind"] == "model"), None)
        progress = progress_of(folder, records, model)
        yield from _block(f"training  {log.path}", progress)
    if checkpoints := list(checkpoint_table(folder, records)):
        yield from _titled(f"checkpoints  {folder / CHECKPOINTS}", checkpoints)


def _artifact_at(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def _facts(artifact: Artifact, settings: Mapping[str, Any], *, verified: bool) -> Iterator[str]:
    manifest = artifact.manifest
    made_from = {f"made from {name}": hash_ for name, hash_ in manifest["inputs"].items()}
    hashes = {"identity": artifact.identity, **made_from}
    facts = {
        **{name: hash_[:HASH_SHOWN] for name, hash_ in hashes.items()},
        "made by": f"mtkit {manifest['mtkit']}, format {manifest['format']}",
        **flattened({name: of for name, of in artifact.report.items() if name != FROM}),
        **flattened(settings),
        **{f"file {name}": f"{of['bytes']:,} bytes" for name, of in manifest["files"].items()},
        "verified": "every file is as its sha256 says" if verified else None,
    }
    yield from _block(f"{manifest['kind']}  {artifact.path}", facts)


def _block(title: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Nested data by dotted names, what is None left out, below a title."""
    rows = [(name, _shown(value)) for name, value in flattened(facts).items() if value is not None]
    yield from _titled(title, table(rows, left=2))


def _titled(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield from (title, *(f"  {line}" for line in lines), "")


def _shown(value: Any) -> str:
    match value:
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case float():
            return f"{value:,.5g}"
        case list():
            return ", ".join(_shown(item) for item in value)
    return str(value)
