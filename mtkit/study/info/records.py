"""What a run wrote down while it trained."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mtkit.report import MetricsLog

Record = Mapping[str, Any]


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
