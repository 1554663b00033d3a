"""Artifacts, which stages write and read: a folder is complete if it has a `manifest.json`.

An artifact is written to a temporary folder next to it, which is renamed at the end. It has two
hashes: `request` covers kind, format, settings and identities of the inputs, and is the same on any
machine; `identity` also covers the files, and later stages record it as their input.

An artifact may come from an untrusted source: only regular files in its own folder are read, and
JSON of bounded size. A process may be killed at any moment: the next process then finds the old
artifact, the new one, or none, and removes temporary folders.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mtkit.artifacts.storage import path_in_oserror, read_json, sync, temporary_path, write_json
from mtkit.errors import UserError

Kind = Literal["corpus", "tokenizer", "batches", "checkpoint", "model", "test", "export"]
VERSION = "0.1.0"
MANIFEST = "manifest.json"
COMMANDS: Mapping[Kind, str] = {
    "corpus": "mtkit init",
    "tokenizer": "mtkit train-spm",
    "batches": "mtkit batch",
    "checkpoint": "mtkit train",
    "model": "mtkit train",
    "test": "mtkit run",
    "export": "mtkit export",
}
"""The command that creates each kind of artifact."""
FORMAT_VERSIONS = dict.fromkeys(COMMANDS, 1) | {"tokenizer": 2, "batches": 4, "checkpoint": 4}
"""Version of the layout of each kind; other versions cannot be read."""


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


@contextmanager
def create(
    path: Path,
    kind: Kind,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
    report: dict[str, Any] | None = None,
) -> Iterator[Path]:
    """Yield an empty folder, which becomes the artifact at `path` when the block ends.

    If the block raises, an older artifact at `path` stays. The block may add to `report`.
    """
    partial, old = temporary_path(path), path.with_name(f".{path.name}.old")
    _put_back(old, path)
    _delete(partial)
    try:
        partial.mkdir(parents=True)
        with path_in_oserror(path):
            yield partial
            for file in partial.iterdir():  # only the owner can read what safetensors writes
                file.chmod(partial.stat().st_mode & 0o666)  # the folder's mode has the umask
                sync(file)
            manifest = {
                "kind": kind,
                "format": FORMAT_VERSIONS[kind],
                "mtkit": VERSION,
                "settings": settings,
                "inputs": inputs,
                "files": {file.name: _describe_file(file) for file in sorted(partial.iterdir())},
                "report": report or {},
            }
            write_json(partial / MANIFEST, manifest | hashes_of(manifest))
        _delete(old)
        if os.path.lexists(path):
            path.rename(old)
        partial.rename(path)
        sync(path.parent)
        _delete(old)
    except BaseException:
        with suppress(OSError):  # keep the first error; the next run removes the rest
            _put_back(old, path)
            _delete(partial)
        raise


def refuse_existing(output: Path) -> None:
    """Raise UserError if `output` exists."""
    if output.exists():
        raise UserError(f"{output} already exists; choose a new folder")


def remove(path: Path) -> None:
    """Delete an artifact, if it exists: first rename its folder, then delete the files."""
    partial = temporary_path(path)
    _delete(partial)
    if os.path.lexists(path):
        path.rename(partial)
    _delete(partial)


def clear_leftovers(folder: Path) -> None:
    """Remove partial and old artifacts in a folder, which killed processes have left."""
    for old in folder.glob(".*.old"):
        _put_back(old, old.with_name(old.stem.removeprefix(".")))
    for leftover in [*folder.glob(".*.partial"), *folder.glob(".*.old")]:
        _delete(leftover)


def open_artifact(path: Path, kind: Kind, *, verify: bool = False) -> Artifact:
    """Check the file sizes of the artifact at `path` and return it; `verify` checks hashes, too.

    Raises UserError if it is missing or damaged; OtherFormatError if its version is another one.
    """
    manifest, command = _read_manifest(path, kind), COMMANDS[kind]
    if manifest["kind"] != kind:
        raise UserError(f"{path} should hold a {kind}, but its manifest says {manifest['kind']!r}")
    if manifest["format"] != FORMAT_VERSIONS[kind]:
        raise OtherFormatError(
            f"{path} has format {manifest['format']}, but this version of mtkit "
            f"reads format {FORMAT_VERSIONS[kind]}; rebuild it with `{command}`"
        )
    if manifest != manifest | hashes_of(manifest):
        raise UserError(f"{path / MANIFEST} is damaged: its hashes do not match its content")
    sizes = _sizes_of_files(path)
    for name, facts in manifest["files"].items():
        is_sound = sizes.get(name) == facts["bytes"]
        if not is_sound or (verify and hash_file(path / name) != facts["sha256"]):
            again = f"copy it again, or rebuild it with `{command}`"
            raise UserError(f"{path / name} is missing or damaged; {again}")
    return Artifact(path, manifest)


def kind_at(path: Path) -> Kind | None:
    """Return the kind of the artifact at `path`, even if it is damaged; None if there is none."""
    try:
        kind = read_json(path / MANIFEST)["kind"]
    except (OSError, UserError, LookupError, TypeError):
        return None
    return next((known for known in COMMANDS if known == kind), None)


def _describe_file(file: Path) -> dict[str, Any]:
    return {"bytes": file.stat().st_size, "sha256": hash_file(file)}


def _read_manifest(path: Path, kind: Kind) -> dict[str, Any]:
    """Return a manifest after a check of the types of its parts, but not of their values."""
    try:
        manifest = read_json(path / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path} holds no {kind}; make one with `{COMMANDS[kind]}`") from None
    match manifest:
        case {
            "kind": str(),
            "format": int(),
            "mtkit": str(),
            "settings": dict(),
            "inputs": dict(inputs),
            "files": dict(files),
            "report": dict(),
        } if all(isinstance(value, str) for value in inputs.values()) and all(
            isinstance(facts, dict) and {"bytes", "sha256"} <= facts.keys()
            for facts in files.values()
        ):
            return dict(manifest)
    raise UserError(f"{path / MANIFEST} is not a manifest; rebuild with `{COMMANDS[kind]}`")


def _sizes_of_files(folder: Path) -> dict[str, int]:
    """Return the size of each file by its name; UserError for a link, a pipe or a device."""
    entries = list(folder.iterdir())
    for path in entries:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UserError(
                f"{path} is a link, pipe or device; put a copy of the file in its place"
            )
    return {path.name: path.stat().st_size for path in entries if path.is_file()}


def _put_back(old: Path, path: Path) -> None:
    """Undo the first of the two renames by which `create` replaces an artifact."""
    if os.path.lexists(old) and not os.path.lexists(path):
        old.rename(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
