"""The cache of imported models, and the record of what was imported from each place."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from mtkit.artifacts.cache import cache_folder
from mtkit.artifacts.storage import read_json, write_json
from mtkit.errors import UserError


def record_import(place: str, model: Path) -> None:
    """Record that `model` in the cache is the model of another program at `place`."""
    record = _record_of(place)
    record.parent.mkdir(parents=True, exist_ok=True)
    write_json(record, {"place": place, "model": model.name})


def models_folder() -> Path:
    """Return where imported models are kept, each in a folder that its files name."""
    return cache_folder() / "models"


def find_import(place: str) -> Path | None:
    """Return the folder that `record_import` has recorded for a place; None if there is none."""
    with suppress(OSError, UserError):
        match read_json(_record_of(place)):
            case {"model": str(name)}:
                return models_folder() / name
    return None


def _record_of(place: str) -> Path:
    """Return the file that records what was imported; a folder is known by its full path."""
    known_as = os.path.realpath(place) if os.path.lexists(place) else place
    digest = sha256(known_as.encode(errors="surrogateescape")).hexdigest()
    return cache_folder() / "given" / f"{digest}.json"
