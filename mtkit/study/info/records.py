"""A run in its folder: what it asks for, and what it wrote down while it trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mtkit.config.configfile import load_config
from mtkit.config.runs import default_place
from mtkit.config.settings import Config
from mtkit.errors import UserError
from mtkit.training.run.metrics import MetricsLog

Record = Mapping[str, Any]


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


def records_of(metrics: Path) -> list[Record]:
    """The records of steps; whatever else the file holds is passed over."""
    if not metrics.is_file():  # a pipe would keep its reader waiting
        return []
    return [record for record in MetricsLog(metrics).read() if isinstance(record["step"], int)]


def points_of(
    records: Iterable[Record], kind: str, y: str, x: str = "step"
) -> list[tuple[float, float]]:
    """(x, y) of the records of a kind ("train" or "valid") that have both, as finite numbers."""
    pairs = ((record.get(x), record.get(y)) for record in records if record.get("kind") == kind)
    return sorted((float(a), float(b)) for a, b in pairs if _is_number(a) and _is_number(b))


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)
