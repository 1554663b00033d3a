"""`metrics.jsonl`: what a run logged, step by step."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.config.storage import write_text


class MetricsLog:
    """One JSON object per line, each with its "step", each written whole and at once.

    All are on the disk before the next checkpoint is: a run that goes on after a power loss misses
    none.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, record: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line_of(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """Every record; a line that a crash tore is none."""
        if not self.path.exists():
            return []
        lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        return [record for record in map(_record, lines) if record is not None]

    def truncate(self, step: int) -> None:
        """Drops what a resumed run will write again: records after `step`, and torn lines."""
        if self.path.exists():
            kept = (record for record in self.read() if record["step"] <= step)
            write_text(self.path, "".join(map(_line_of, kept)))


def _line_of(record: Mapping[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and "step" in record else None
