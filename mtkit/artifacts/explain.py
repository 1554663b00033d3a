"""What has changed since an artifact was made, in words.

Hashes decide whether an artifact is up to date. For people its report holds the value of each
setting, and the size and hash of each file, that it was made from.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import MANIFEST, Artifact, hash_file

FROM = "from"
"""Key in the report of a manifest, under which the origin stands."""
MAX_BYTES_TO_HASH = 1 << 26
"""Largest unchanged-looking file that is hashed again; it takes less than a tenth of a second."""


def origin_of(artifact: Artifact) -> Mapping[str, Any]:
    """Return the settings and files that an artifact was made from, by name; empty if unknown."""
    origin = artifact.report.get(FROM)
    return origin if isinstance(origin, dict) else {}


def explain(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe the first difference between two origins, or return None if there is none.

    Names that only one of them has count if they are files, which were not read before.
    """
    shared = [name for name in now if name in before and before[name] != now[name]]
    shared.sort(key=lambda name: not name.endswith(".kind"))  # the kind explains the others
    if shared:
        return _describe(shared[0], before[shared[0]], now[shared[0]])
    added = (name for name in now if before and name not in before and isinstance(now[name], dict))
    return next((f"{name} was not read before" for name in added), None)


def _describe(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        for unit in ("lines", "bytes"):
            if before.get(unit) != now.get(unit):
                return f"{name}: {before.get(unit)} {unit}, now {now.get(unit)}"
        return f"{name} has other text of the same length"
    return f"{name}: {before}, now {now}"


def changed_files(artifact: Artifact, files: Mapping[str, Path]) -> str | None:
    """Describe the first of the files that has changed since the artifact was made from it.

    Files of the same size are hashed if they are small, or younger than the artifact. A renamed
    file is unchanged if any input of the artifact had its text.
    """
    before, made = origin_of(artifact), (artifact.path / MANIFEST).stat().st_mtime
    hashes = [facts.get("sha256") for facts in before.values() if isinstance(facts, dict)]
    for name, file in files.items():
        match before.get(name):
            case None if hashes and not (file.is_file() and hash_file(file) in hashes):
                return f"{name} was not read for it"
            case {"bytes": int(was), "sha256": str(digest)} if file.is_file():
                now = file.stat()
                if was != now.st_size:
                    return f"{name}: {was} bytes, now {now.st_size}"
                is_doubtful = was <= MAX_BYTES_TO_HASH or now.st_mtime > made
                if is_doubtful and hash_file(file) != digest:
                    return f"{name} has other text of the same length"
    return None
