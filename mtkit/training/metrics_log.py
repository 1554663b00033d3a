"""`metrics.jsonl`: what a run has logged at each step."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard

from mtkit.artifacts.runs import METRICS_FILE
from mtkit.artifacts.storage import write_text
from mtkit.corpus.files import READ_BYTES, split_lines

SHOWN_SCORES = {"loss": ("loss", ".3f"), "perplexity": ("perplexity", ".4g")}
SHOWN_SCORES |= {"bleu": ("BLEU", ".2f"), "chrf": ("chrF2", ".2f")}
"""Name and format, for people, of each field of a validation."""


class MetricsLog:
    """A JSON object per line, each with its "step".

    A record is on the disk when `write` returns, so a power loss loses no record.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / METRICS_FILE

    def write(self, record: Mapping[str, Any]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line_of(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """Return all records; partial lines, and lines over 1 MiB, are ignored."""
        if not self.path.is_file():  # a pipe would keep its reader waiting
            return []
        records: list[dict[str, Any]] = []
        with self.path.open("rb") as file:
            blocks = iter(partial(file.read, READ_BYTES), b"")
            for line in split_lines(blocks):
                record = _record(line.decode(errors="replace"))
                if record is not None:
                    records.append(record)
        return records

    def truncate(self, step: int) -> None:
        """Remove what a resumed run will write again: records after `step`, and partial lines."""
        if self.path.exists():
            kept = (record for record in self.read() if record["step"] <= step)
            write_text(self.path, "".join(map(_line_of, kept)))


def points_of(
    records: Iterable[Mapping[str, Any]], kind: str, y: str, x: str = "step"
) -> list[tuple[float, float]]:
    """Return (x, y) of each record of a kind ("train" or "valid") in which both are finite."""
    pairs = ((record.get(x), record.get(y)) for record in records if record.get("kind") == kind)
    return sorted((float(a), float(b)) for a, b in pairs if _is_number(a) and _is_number(b))


def _is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def _line_of(record: Mapping[str, Any]) -> str:
    """Return a line of JSON; NaN and infinities become null."""
    kept = {k: None if isinstance(v, float) and not _is_number(v) else v for k, v in record.items()}
    return json.dumps(kept, ensure_ascii=False, allow_nan=False) + "\n"


def _record(line: str) -> dict[str, Any] | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("step"), int) else None
