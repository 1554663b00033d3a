"""Artifacts, which stages write and read: a folder is complete if it has a `manifest.json`.

An artifact has two hashes. `request` covers kind, format, settings and identities of the inputs,
and is the same on any machine. `identity` also covers the files, and later stages record it as
their input.

An artifact may come from an untrusted source. Only regular files that its manifest lists are read,
and JSON of bounded size.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISREG
from typing import Any, Literal

from mtkit.artifacts.storage import read_json
from mtkit.errors import UserError

Kind = Literal[
    "corpus", "rows", "tokenizer", "range", "batches", "checkpoint", "model", "test", "export"
]
VERSION = "0.2.0"
MANIFEST = "manifest.json"
COMMANDS: Mapping[Kind, str] = {
    "corpus": "mtkit init",
    "rows": "mtkit train-spm",
    "tokenizer": "mtkit train-spm",
    "range": "mtkit batch",
    "batches": "mtkit batch",
    "checkpoint": "mtkit train",
    "model": "mtkit train",
    "test": "mtkit run",
    "export": "mtkit export",
}
"""The command that creates each kind of artifact."""
FORMAT_VERSIONS = dict.fromkeys(COMMANDS, 1) | {"tokenizer": 2, "batches": 4, "checkpoint": 5}
"""Version of the layout of each kind of artifact; other versions cannot be read."""


class OtherFormatError(UserError):
    """An artifact of another version of mtkit."""


@dataclass(frozen=True)
class Artifact:
    """A complete folder and its manifest."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def identity(self) -> str:
        return str(self.manifest["identity"])

    @property
    def files(self) -> Mapping[str, Any]:
        """The listed files by name, each with its "bytes" and "sha256"."""
        return dict(self.manifest["files"])

    @property
    def paths(self) -> Mapping[str, Path]:
        """The paths of the listed files, by name."""
        return {name: self.path / name for name in self.files}

    def file(self, name: str) -> Path:
        """Return the path of a file; raise UserError if the manifest does not list it."""
        if name not in self.files:
            command = COMMANDS[self.manifest["kind"]]
            raise UserError(f"{self.path / MANIFEST} lists no {name}; rebuild it with `{command}`")
        return self.path / name

    @property
    def report(self) -> Mapping[str, Any]:
        """Figures for people (scores, counts), which are part of neither hash."""
        return dict(self.manifest["report"])


def sha256_of(value: Any) -> str:
    """Return the hash of a value as canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """Return the `request` and `identity` of a manifest."""
    request = sha256_of({name: manifest[name] for name in ("kind", "format", "settings", "inputs")})
    identity = sha256_of({"request": request, "files": manifest["files"]})
    return {"request": request, "identity": identity}


def open_artifact(path: Path, kind: Kind, *, verify: bool = False) -> Artifact:
    """Check the file sizes of the artifact at `path` and return it; `verify` checks hashes, too.

    Raises:
        OtherFormatError: another version of mtkit made it.
        UserError: it is missing or damaged.
    """
    command = COMMANDS[kind]
    try:
        manifest = _read_manifest(path)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} holds no {kind}; make one with `{command}`") from None
    except _NoManifestError as error:
        raise UserError(f"{error}; rebuild with `{command}`") from None
    if manifest["kind"] != kind:
        raise UserError(f"{path} should hold a {kind}, but its manifest says {manifest['kind']!r}")
    if manifest["format"] != FORMAT_VERSIONS[kind]:
        raise OtherFormatError(
            f"{path} has format {manifest['format']}, but this version of mtkit "
            f"reads format {FORMAT_VERSIONS[kind]}; rebuild it with `{command}`"
        )
    if not _has_right_hashes(manifest):
        raise UserError(f"{path / MANIFEST} is damaged: its hashes do not match its content")
    if not manifest["files"]:
        raise UserError(f"{path / MANIFEST} lists no files; rebuild it with `{command}`")
    for name, facts in manifest["files"].items():
        is_sound = _size_of(path, name) == facts["bytes"]
        if is_sound and verify:
            is_sound = hash_file(path / name) == facts["sha256"]
        if not is_sound:
            raise UserError(
                f"{path / name} is missing or damaged; copy it again, or rebuild it with "
                f"`{command}`"
            )
    return Artifact(path, manifest)


def listed_files(folder: Path) -> frozenset[str] | None:
    """Return the names of the files that mtkit wrote to a folder, the manifest among them.

    Return None if the folder has no manifest or a damaged manifest, or is a link.

    Raises:
        OSError: the manifest cannot be read now, which does not mean that it is damaged.
    """
    if folder.is_symlink():
        return None
    try:
        manifest = _read_manifest(folder)
    except (FileNotFoundError, NotADirectoryError, UserError):
        return None
    if not _has_right_hashes(manifest):
        return None
    return frozenset(manifest["files"]) | {MANIFEST}


def kind_at(path: Path) -> Kind | None:
    """Return the kind of the artifact at `path`, even if the artifact is damaged.

    Return None if there is no artifact.
    """
    try:
        recorded = read_json(path / MANIFEST)["kind"]
    except (OSError, UserError, LookupError, TypeError):
        return None
    for kind in COMMANDS:
        if recorded == kind:
            return kind
    return None


class _NoManifestError(UserError):
    """A file that is named like a manifest, but does not hold one."""


def _read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest after a check of the types of its parts, but not of their values."""
    manifest = read_json(path / MANIFEST)
    match manifest:
        case {
            "kind": str(),
            "format": int(),
            "mtkit": str(),
            "settings": dict(),
            "inputs": dict(inputs),
            "files": dict(files),
            "report": dict(),
        }:
            are_hashes = all(isinstance(value, str) for value in inputs.values())
            if are_hashes and all(map(_has_size_and_hash, files.values())):
                return dict(manifest)
    raise _NoManifestError(f"{path / MANIFEST} is not a manifest")


def _has_size_and_hash(entry: Any) -> bool:
    """Return whether the entry of a file in a manifest has its size and hash."""
    return isinstance(entry, dict) and {"bytes", "sha256"} <= entry.keys()


def _has_right_hashes(manifest: Mapping[str, Any]) -> bool:
    """Return whether the hashes that a manifest records are those of its content."""
    # As sets: all items of the right side are on the left.
    return manifest.items() >= hashes_of(manifest).items()


def _size_of(folder: Path, name: str) -> int | None:
    """Return the size of a file in the folder itself; None if there is no such file.

    Raises:
        UserError: it is not a plain file; a link could lead out of the folder.
    """
    if name != os.path.basename(name):  # a path could lead out of the folder, too
        return None
    try:
        status = os.lstat(folder / name)
    except (FileNotFoundError, ValueError):  # ValueError: the name contains a null character
        return None
    if not S_ISREG(status.st_mode):
        raise UserError(
            f"{folder / name} is a link, pipe, device or folder; put a copy of the file in its "
            "place"
        )
    return status.st_size
