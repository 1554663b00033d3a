"""`metrics.jsonl`: what a run logged, step by step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from mtkit.artifacts.storage import write_text


class MetricsLog:
    """One JSON object per line, each with its "step", each written whole and at once.

    All are on the disk before the next checkpoint is: a run that goes on after a power loss misses
    none.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / "metrics.jsonl"

    def write(self, record: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line_of(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """Every record; a line that a crash tore, or that is of no step, is none."""
        if not self.path.is_file():  # a pipe would keep its reader waiting
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        return [record for record in map(_record, lines) if record is not None]

    def truncate(self, step: int) -> None:
        """Drops what a resumed run will write again: records after `step`, and torn lines."""
        if self.path.exists():
            kept = (record for record in self.read() if record["step"] <= step)
            write_text(self.path, "".join(map(_line_of, kept)))


def points_of(
    records: Iterable[Mapping[str, Any]], kind: str, y: str, x: str = "step"
) -> list[tuple[float, float]]:
    """(x, y) of the records of a kind ("train" or "valid") that have both, as finite numbers."""
    pairs = ((record.get(x), record.get(y)) for record in records if record.get("kind") == kind)
    return sorted((float(a), float(b)) for a, b in pairs if _is_number(a) and _is_number(b))


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _line_of(record: Mapping[str, Any]) -> str:
    """NaN and infinities, which are no part of JSON, become null."""
    kept = {k: None if isinstance(v, float) and not _is_number(v) else v for k, v in record.items()}
    return json.dumps(kept, ensure_ascii=False, allow_nan=False) + "\n"


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
