"""`mtkit info`: what a run, model or artifact is: sizes, settings, scores, inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

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
from mtkit.artifacts.stage import FROM
from mtkit.config.base import flattened
from mtkit.config.reference import explain_settings
from mtkit.config.settings import Config
from mtkit.config.yaml import load_config
from mtkit.errors import UserError
from mtkit.report import data_lines, printable, table
from mtkit.study.info.summary import describe_progress, read_index, summarise
from mtkit.study.plots.picture import check_picture
from mtkit.training.metrics import SHOWN_SCORES, MetricsLog


def info(
    path: Path | None = None,
    *,
    full: bool = False,
    verify: bool = False,
    config: bool = False,
    explain: bool = False,
    plot: Literal["positions", "schedule", "curves", "lengths"] | None = None,
    output: Path | None = None,
) -> None:
    """Describe a run, model, other artifact or config file on stdout, in short or in `full`.

    `config` prints its settings instead, with comments if `explain`. `plot` draws it instead, in
    the terminal or as the picture `output`.

    Raises:
        UserError: there is no such thing, or `verify` finds damage.
    """
    if plot is not None:
        if output is not None:
            check_picture(output)
        from mtkit.study.info.plot import PLOTS  # loads torch

        PLOTS[plot](*_open_run(path), output)
        return
    lines = _settings_yaml(path, explain) if config else _describe(path, full, verify)
    data_lines(map(printable, lines))


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
    if artifact is not None and full:
        yield from _describe_artifact(artifact, artifact.manifest["settings"], verify)
        return
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
    if not full:
        by_kind = {part.manifest["kind"]: part for part in parts}
        yield from summarise(folder, by_kind, records, verified=verify)
        return
    yield from (f"run  {folder}", "")
    for part in parts:
        yield from _describe_artifact(part, {}, verify)
    if records:
        model = next((part for part in parts if part.manifest["kind"] == "model"), None)
        yield from _block(f"training  {log.path}", describe_progress(folder, records, model))
    if checkpoints := list(_checkpoint_table(folder, records)):
        yield f"checkpoints  {folder / CHECKPOINTS}"
        yield from (f"  {line}" for line in checkpoints)


def _open_artifact(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def _describe_artifact(
    artifact: Artifact, settings: Mapping[str, Any], verified: bool
) -> Iterator[str]:
    manifest = artifact.manifest
    hashes = {"identity": artifact.identity}
    hashes |= {f"made from {name}": hash_ for name, hash_ in manifest["inputs"].items()}
    facts = {
        **{name: hash_[:12] for name, hash_ in hashes.items()},
        "made by": f"mtkit {manifest['mtkit']}, format {manifest['format']}",
        **{name: value for name, value in artifact.report.items() if name != FROM},
        **settings,
        **{f"file {name}": f"{of['bytes']:,} bytes" for name, of in manifest["files"].items()},
        "verified": "every file has the sha256 of its manifest" if verified else None,
    }
    yield from _block(f"{manifest['kind']}  {artifact.path}", facts)


def _block(title: str, facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield a title and nested facts by dotted names, without those that are None."""
    rows = [(name, _text(value)) for name, value in flattened(facts).items() if value is not None]
    yield title
    yield from (f"  {line}" for line in table(rows, left=2))
    yield ""


def _text(value: Any) -> str:
    match value:
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case float():
            return f"{value:,.5g}"
        case list():
            return ", ".join(map(_text, value))
    return str(value)


def _checkpoint_table(run: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    index = read_index(run)
    valid = {record["step"]: record for record in records if record.get("kind") == "valid"}
    rows = []
    for step in checkpoint_steps(run / CHECKPOINTS):
        of_step = valid.get(step, {})
        cells = [
            f"{of_step[key]:{digits}}" if isinstance(of_step.get(key), float) else "-"
            for key, (_, digits) in SHOWN_SCORES.items()
        ]
        marks = [mark for mark in ("best", "last") if index.get(mark) == step]
        rows.append([", ".join(marks), f"{step:,}", *cells])
    if rows:
        yield from table([["", "step", *(name for name, _ in SHOWN_SCORES.values())], *rows])
