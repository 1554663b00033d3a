"""How far the training of a run is, when it ends, and what its checkpoints are worth."""

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

SCORES = ("loss", "perplexity", "bleu", "chrf")


def progress_of(
    run: Path, records: Sequence[Mapping[str, Any]], model: Artifact | None
) -> dict[str, Any]:
    """What is known of a training by its records, in words; `model` is the run's, if it has one."""
    last, index = records[-1], _index(run)
    step = max(last["step"], _whole(index.get("last")))
    steps = _whole(index.get("steps"))
    return {
        "step": f"{step:,} of {steps:,}" if steps else step,
        "epoch": last.get("epoch"),
        "ends": _ending(step, model) or _time_left(last, step, steps),
    }


def _ending(step: int, model: Artifact | None) -> str | None:
    """How a training has ended, whose last step was this."""
    if model is None or _whole(model.report.get("steps")) < step:
        return None
    early = model.manifest["settings"].get("ended") is not None
    return "ended early, by `mtkit finish`" if early else "finished"


def _time_left(last: Mapping[str, Any], step: int, steps: int) -> str | None:
    """None where nothing tells."""
    match last.get("seconds"):
        case int() | float() as seconds if last["step"] > 0 and step < steps:
            left = timedelta(seconds=round(seconds / last["step"] * (steps - step)))
            return f"{left} left, by the speed so far"
    return None


def _whole(value: Any) -> int:
    """The number, if it is one."""
    return value if type(value) is int else 0


def checkpoint_table(run: Path, records: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A row for each checkpoint, with what it was validated to be worth; nothing for no rows."""
    steps, index = checkpoint_steps(run / CHECKPOINTS), _index(run)
    found = {record["step"]: record for record in records if record.get("kind") == "valid"}
    rows = []
    for step in steps:
        scores = [found.get(step, {}).get(name) for name in SCORES]
        marks = [mark for mark in ("best", "last") if index.get(mark) == step]
        cells = (f"{score:.3f}" if isinstance(score, float) else "-" for score in scores)
        rows.append([", ".join(marks), f"{step:,}", *cells])
    if rows:
        yield from table([["", "step", *SCORES], *rows])


def _index(run: Path) -> Mapping[str, Any]:
    """What the small JSON beside the checkpoints says; nothing where there is none."""
    try:
        index = read_json(run / CHECKPOINTS / INDEX)
    except (OSError, UserError):
        return {}
    return index if isinstance(index, dict) else {}
