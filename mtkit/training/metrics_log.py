"""`metrics.jsonl`: what a run has logged at each step."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeGuard

from mtkit.artifacts.runs import METRICS_FILE
from mtkit.artifacts.storage import write_text
from mtkit.corpus.files import READ_BYTES, split_lines

SHOWN_SCORES = {
    "loss": ("loss", ".3f"),
    "perplexity": ("perplexity", ".4g"),
    "bleu": ("BLEU", ".2f"),
    "chrf": ("chrF2", ".2f"),
}
"""Name and format, for people, of each field of a validation."""

MAX_RECORDS = 1_000_000
"""Most records that are read at once, which takes up to a gigabyte."""


class MetricsLog:
    """`metrics.jsonl` of a run: a JSON object per line, each with its "step".

    A record is on the disk when `write` returns, so a power loss loses no record.
    """

    def __init__(self, run: Path) -> None:
        self.path = run / METRICS_FILE

    def write(self, record: Mapping[str, Any]) -> None:
        """Append a record; floats that are NaN or infinite become null."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(_line_of(record))
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> list[dict[str, Any]]:
        """Return the records, at most MAX_RECORDS: the log may come from an untrusted source."""
        return list(islice(self._records(), MAX_RECORDS))

    def _records(self) -> Iterator[dict[str, Any]]:
        """Yield all records: lines that are JSON objects with a whole number as "step".

        Other lines are ignored: a killed process may have left half a line.
        """
        if not self.path.is_file():  # a pipe would keep its reader waiting
            return
        with self.path.open("rb") as file:
            blocks = iter(partial(file.read, READ_BYTES), b"")  # until the end of the file
            for line in split_lines(blocks):  # cuts lines after 1 MiB, so they are no JSON
                record = _record(line.decode(errors="replace"))
                if record is not None:
                    yield record

    def truncate(self, step: int) -> None:
        """Remove what a resumed run will write again: records after `step`, and partial lines."""
        if self.path.exists():
            kept = (record for record in self._records() if record["step"] <= step)
            write_text(self.path, "".join(map(_line_of, kept)))


def is_finite_number(value: Any) -> TypeGuard[float]:
    """Return whether a value from JSON is a number that `float` can hold, and not NaN."""
    # By type, because True and False are instances of int.
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _line_of(record: Mapping[str, Any]) -> str:
    """Return a line of JSON; floats of the record that are NaN or infinite become null."""
    finite: dict[str, Any] = {}
    for name, value in record.items():
        is_null = isinstance(value, float) and not math.isfinite(value)
        finite[name] = None if is_null else value
    return json.dumps(finite, ensure_ascii=False, allow_nan=False) + "\n"


def _record(line: str) -> dict[str, Any] | None:
    """Return the record of a line; None if the line is not a JSON object with a step."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    is_record = isinstance(record, dict) and isinstance(record.get("step"), int)
    return record if is_record else None
