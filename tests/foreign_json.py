"""JSON whose hashes are right, but which somebody else wrote."""

from __future__ import annotations

import copy
import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import MANIFEST, hash_file, hashes_of

MARKUP = "</script>\n\n```\n<img src=x onerror=alert(1)>`\u2028 \x1b[31m"
"""A text that means something to pages, cards and terminals."""
HOSTILE: list[Any] = [MARKUP, -1, 1e308, math.nan, math.inf, 10**400, "9" * 400]
HOSTILE += [None, True, [], {}, ["a"], {"a": []}, {"bleu": MARKUP}, [[]] * 3]

Place = tuple[Any, ...]
"""The keys and numbers that lead to a value inside some JSON."""


def places_in(record: Any, above: Place = ()) -> Iterator[Place]:
    """Yield the place of each value inside some JSON."""
    if isinstance(record, dict | list):
        for key, value in record.items() if isinstance(record, dict) else enumerate(record):
            yield (*above, key)
            yield from places_in(value, (*above, key))


def replaced(record: Any, place: Place, value: Any) -> Any:
    """Return a copy of some JSON with another value at a place."""
    changed = copy.deepcopy(record)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


def forge(model: Path, copied: Path, name: str, record: Any) -> Path:
    """Copy a model with other JSON in a file, or as its report; all its hashes are right."""
    shutil.rmtree(copied, ignore_errors=True)
    shutil.copytree(model, copied)
    manifest = json.loads((copied / MANIFEST).read_text())
    if name == MANIFEST:
        manifest["report"] = record
    else:
        file = copied / name
        file.write_text(json.dumps(record), encoding="utf-8")
        manifest["files"][name] = {"bytes": file.stat().st_size, "sha256": hash_file(file)}
    manifest |= hashes_of(manifest)
    (copied / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return copied
