"""How far training is, when it ends, and the scores of its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, INDEX, checkpoint_steps
from mtkit.artifacts.storage import read_json
from mtkit.errors import UserError
from mtkit.report import table

SHOWN_SCORES = ("loss", "perplexity", "bleu", "chrf")


def describe_progress(
    run: Path, records: Sequence[Mapping[str, Any]], model: Artifact | None
) -> dict[str, Any]:
    """Return step, epoch and end of training by its records; `model` is the run's, if any."""
    last, index = records[-1], _read_index(run)
    step, steps = max(last["step"], _integer(index.get("last"))), _integer(index.get("steps"))
    ends, seconds = None, last.get("seconds")
    if model is not None and _integer(model.report.get("steps")) >= step:
        early = model.manifest["settings"].get("ended") is not None
        ends = "ended early, by `mtkit finish`" if early else "finished"
    elif isinstance(seconds, int | float) and last["step"] > 0 and step < steps:
        left = timedelta(seconds=round(seconds / last["step"] * (steps - step)))
        ends = f"{left} left, at the speed so far"
    reached = f"{step:,} of {steps:,}" if steps else step
    return {"step": reached, "epoch": last.get("epoch"), "ends": ends}


def checkpoint_table(run: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield a row for each checkpoint with the scores of its validation; nothing without any."""
    index = _read_index(run)
    valid = {record["step"]: record for record in records if record.get("kind") == "valid"}
    rows = []
    for step in checkpoint_steps(run / CHECKPOINTS):
        scores = [valid.get(step, {}).get(name) for name in SHOWN_SCORES]
        marks = [mark for mark in ("best", "last") if index.get(mark) == step]
        cells = (f"{score:.3f}" if isinstance(score, float) else "-" for score in scores)
        rows.append([", ".join(marks), f"{step:,}", *cells])
    if rows:
        yield from table([["", "step", *SHOWN_SCORES], *rows])


def _integer(value: Any) -> int:
    return value if type(value) is int else 0


def _read_index(run: Path) -> Mapping[str, Any]:
    """Return the JSON beside the checkpoints; nothing if it is missing or damaged."""
    try:
        index = read_json(run / CHECKPOINTS / INDEX)
    except (OSError, UserError):
        return {}
    return index if isinstance(index, dict) else {}
