"""What stages hand to each other: a folder with a `manifest.json` is complete, else it is nothing.

A stage writes into a temporary sibling, which is renamed at the end. Two hashes name an artifact:
`request` says what was asked (kind, format, settings, identities of the inputs) and is equal on any
machine; `identity` adds the hashes of the files, and is what later stages record as their input.

An artifact may come from anybody: all that is read of it are the plain files in its own folder, and
JSON that is small, flat and text. A process may die at any moment: whatever it leaves behind, the
next one finds the older artifact, the newer one, or none, and clears away the rest.
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

Kind = Literal["tokenizer", "batches", "checkpoint", "model", "test", "export"]
VERSION = "0.1.0"
"""The version of mtkit, as manifests name it."""
MANIFEST = "manifest.json"
COMMANDS: Mapping[Kind, str] = {
    "tokenizer": "mtkit train-spm",
    "batches": "mtkit batch",
    "checkpoint": "mtkit train",
    "model": "mtkit train",
    "test": "mtkit run",
    "export": "mtkit export",
}
"""How each kind of artifact comes to be."""
FORMATS = dict.fromkeys(COMMANDS, 1) | {"checkpoint": 2}  # 1 knew runs by settings added later, too
"""The versions of their layouts that this mtkit writes, and reads."""


class OtherFormat(UserError):  # noqa: N818 - it says what was found
    """An artifact as another version of mtkit writes it."""


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
        """Figures for people (scores, counts); outside both hashes."""
        return dict(self.manifest["report"])


def sha256_of(value: Any) -> str:
    """Hash of canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hashes_of(manifest: Mapping[str, Any]) -> dict[str, str]:
    """`request` and `identity` of what a manifest says."""
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
    """Yields an empty folder to fill; leaves it complete at `path`, or leaves nothing.

    `report` may be filled until the block ends. An older artifact at `path` is replaced only when
    the new one is complete and on the disk. Raises OSError naming what could not be written.
    """
    partial, old = temporary_path(path), path.with_name(f".{path.name}.old")
    _put_back(old, path)
    _delete(partial)
    try:
        partial.mkdir(parents=True)
        with path_in_oserror(path):
            yield partial
            manifest = {
                "kind": kind,
                "format": FORMATS[kind],
                "mtkit": VERSION,
                "settings": settings,
                "inputs": inputs,
                "files": {file.name: _stored(file) for file in sorted(partial.iterdir())},
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
        with suppress(OSError):  # the first failure tells more; what is left, the next run removes
            _put_back(old, path)
            _delete(partial)
        raise


def refuse_existing(output: Path) -> None:
    """UserError for a folder that is there already."""
    if output.exists():
        raise UserError(f"{output}: is there already: name a new folder with -o")


def remove(path: Path) -> None:
    """Deletes an artifact, if there is one: at once for whoever looks, then from the disk."""
    partial = temporary_path(path)
    _delete(partial)
    if os.path.lexists(path):
        path.rename(partial)
    _delete(partial)


def clear_leftovers(folder: Path) -> None:
    """Removes what killed processes left of the artifacts in `folder`: half made, half deleted."""
    for old in folder.glob(".*.old"):
        _put_back(old, old.with_name(old.stem.removeprefix(".")))
    for leftover in [*folder.glob(".*.partial"), *folder.glob(".*.old")]:
        _delete(leftover)


def open_artifact(path: Path, kind: Kind, *, verify: bool = False) -> Artifact:
    """The complete artifact at `path`; sizes are always checked, hashes of files with `verify`.

    Raises UserError where there is none, or one of another kind, or a damaged one; OtherFormat
    where there is one that this mtkit cannot read.
    """
    manifest, remake = _read_manifest(path, kind), COMMANDS[kind]
    if manifest["kind"] != kind:
        theirs = kind == "model" and manifest["settings"].get("format") == "huggingface"
        hint = ": make one of it with `mtkit export --from huggingface`" if theirs else ""
        raise UserError(f"{path}: holds {_a(manifest['kind'])}, not {_a(kind)}{hint}")
    if manifest["format"] != FORMATS[kind]:
        raise OtherFormat(
            f"{path}: format {manifest['format']}; this mtkit reads {FORMATS[kind]}: "
            f"remake it with `{remake}`"
        )
    if manifest != manifest | hashes_of(manifest):
        raise UserError(f"{path / MANIFEST}: damaged (its hashes are not those of what it says)")
    sizes = _sizes_of_files(path)
    for name, facts in manifest["files"].items():
        if sizes.get(name) != facts["bytes"]:
            raise UserError(f"{path / name}: missing or of another size: remake with `{remake}`")
        if verify and hash_file(path / name) != facts["sha256"]:
            raise UserError(
                f"{path / name}: damaged (its sha256 is not the manifest's): "
                f"copy it again, or remake it with `{remake}`"
            )
    return Artifact(path, manifest)


def kind_at(path: Path) -> Kind | None:
    """What the manifest at `path` says it is, sound or damaged; None where there is none."""
    try:
        kind = read_json(path / MANIFEST)["kind"]
    except (OSError, UserError, LookupError, TypeError):
        return None
    return next((known for known in COMMANDS if known == kind), None)


def _a(kind: str) -> str:
    """The kind with its article."""
    return {"batches": "batches", "export": "an export"}.get(kind, f"a {kind}")


def _stored(file: Path) -> dict[str, Any]:
    """Size and hash of a file, which is on the disk then."""
    sync(file)
    return {"bytes": file.stat().st_size, "sha256": hash_file(file)}


def _read_manifest(path: Path, kind: Kind) -> dict[str, Any]:
    """A manifest whose parts are of their types, whatever they say."""
    try:
        manifest = read_json(path / MANIFEST)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no {kind} here: make one with `{COMMANDS[kind]}`") from None
    match manifest:
        case {
            "kind": str(),
            "format": int(),
            "mtkit": str(),
            "settings": dict(),
            "inputs": dict(inputs),
            "files": dict(files),
            "request": str(),
            "identity": str(),
            "report": dict(),
        } if all(isinstance(value, str) for value in inputs.values()) and all(
            map(_is_size_and_hash, files.values())
        ):
            return dict(manifest)
    raise UserError(f"{path / MANIFEST}: not a manifest: remake it with `{COMMANDS[kind]}`")


def _is_size_and_hash(facts: Any) -> bool:
    match facts:
        case {"bytes": int(), "sha256": str()}:
            return True
    return False


def _sizes_of_files(folder: Path) -> dict[str, int]:
    """Bytes of each file by its name, which is thus a name in this folder and no way out of it.

    Raises UserError where there is a link, a pipe or a device, listed in the manifest or not.
    """
    found = list(folder.iterdir())
    for path in found:
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            raise UserError(
                f"{path}: a link, pipe or device; an artifact has plain files only: "
                "copy what it points to in its place"
            )
    return {path.name: path.stat().st_size for path in found if path.is_file()}


def _put_back(old: Path, path: Path) -> None:
    """Undoes the first of the two renames by which `create` replaces an artifact."""
    if os.path.lexists(old) and not os.path.lexists(path):
        old.rename(path)


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
