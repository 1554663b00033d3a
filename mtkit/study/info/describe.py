"""What lies in a folder, for people: sizes, settings, scores, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import yaml

from mtkit.artifacts import Artifact, Kind, kind_at, open_artifact
from mtkit.config.complaints import flattened
from mtkit.config.configfile import dump_config, load_config
from mtkit.config.recipes import resolved
from mtkit.config.runs import default_place
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.report import printable, table
from mtkit.study.info.records import records_of

HASH_SHOWN = 12
"""Number of digits of a hash that people see."""


def describe(path: Path | None, *, verify: bool) -> str:
    """A run, model or other artifact in words and numbers; `verify`: with every file hashed again.

    Raises UserError where there is nothing of the kind, or damage is found.
    """
    return "\n".join(map(printable, _describe(path, verify)))


def settings_of(path: Path | None) -> str:
    """Every resolved setting: of a run, of a model as it was asked for, or of a config file."""
    artifact = _artifact_at(path or default_place())
    if artifact is None:
        text = dump_config(run_at(path)[1])
    else:
        text = yaml.safe_dump(_settings_in(artifact), sort_keys=False)
    return "\n".join(map(printable, text.split("\n")))


def run_at(path: Path | None) -> tuple[Path, Config]:
    """The folder of a run, which `path` or a config file at `path` names, and its settings.

    Without a path it is the last run, or that of the default config. UserError for no run.
    """
    folder = path or default_place()
    if (folder / "config.yaml").is_file():
        return folder, load_config(folder / "config.yaml")
    if path is not None and path.is_dir():
        raise UserError(f"{path}: no run, model or artifact here: name one, or a config file")
    config = load_config(path)
    return Path(config.run), config


def _describe(path: Path | None, verify: bool) -> Iterator[str]:
    folder = path or default_place()
    artifact = _artifact_at(folder, verify=verify)
    if artifact is not None:
        yield from _facts(artifact, with_settings=True, verified=verify)
        return
    parts = [_artifact_at(folder / kind, verify=verify) for kind in get_args(Kind)]
    progress = list(_progress(folder / "metrics.jsonl"))
    if not any(parts) and not progress:
        raise UserError(f"{folder}: no run, model or artifact here: make one with `mtkit run`")
    yield f"run  {folder}"
    yield ""
    for part in filter(None, parts):
        yield from _facts(part, with_settings=False, verified=verify)
    yield from progress


def _artifact_at(folder: Path, *, verify: bool = False) -> Artifact | None:
    kind = kind_at(folder)
    return None if kind is None else open_artifact(folder, kind, verify=verify)


def _settings_in(artifact: Artifact) -> Mapping[str, Any]:
    return resolved(artifact.manifest["kind"], artifact.manifest["settings"])


def _facts(artifact: Artifact, *, with_settings: bool, verified: bool) -> Iterator[str]:
    manifest = artifact.manifest
    rows = {"identity": artifact.identity[:HASH_SHOWN]}
    rows |= {f"made from {name}": hash_[:HASH_SHOWN] for name, hash_ in manifest["inputs"].items()}
    rows["made by"] = f"mtkit {manifest['mtkit']}, format {manifest['format']}"
    rows |= _rows(artifact.report)
    if with_settings:
        rows |= _rows(_settings_in(artifact))
    for name, facts in manifest["files"].items():
        rows[f"file {name}"] = f"{facts['bytes']:,} bytes"
    if verified:
        rows["verified"] = "every file is as its sha256 says"
    yield from _block(f"{manifest['kind']}  {artifact.path}", rows)


def _progress(metrics: Path) -> Iterator[str]:
    """How far training is, and its last validation."""
    records = records_of(metrics)
    if not records:
        return
    rows = {"last step": _shown(records[-1]["step"])}
    validations = [record for record in records if record.get("kind") == "valid"]
    if validations:
        rows |= _rows({"last validation": {**validations[-1], "kind": None}})
    yield from _block(f"training  {metrics}", rows)


def _block(title: str, rows: Mapping[str, str]) -> Iterator[str]:
    yield title
    yield from (f"  {line}" for line in table(rows.items(), left=2))
    yield ""


def _rows(values: Mapping[str, Any]) -> dict[str, str]:
    """Nested data as dotted names and values to show, what is None left out."""
    return {n: _shown(value) for n, value in flattened(values).items() if value is not None}


def _shown(value: Any) -> str:
    match value:
        case bool() | str():
            return str(value)
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.5g}"
        case list():
            return ", ".join(_shown(item) for item in value)
    return str(value)
