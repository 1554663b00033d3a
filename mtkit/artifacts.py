"""What stages hand to each other: a folder with a `manifest.json` is complete, else it is nothing.

A stage writes into a temporary sibling, which is renamed at the end. Two hashes name an artifact:
`request` says what was asked (kind, format, settings, identities of the inputs) and is equal on any
machine; `identity` adds the hashes of the files, and is what later stages record as their input.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mtkit import __version__
from mtkit.errors import UserError

Kind = Literal["tokenizer", "batches", "checkpoint", "model", "test"]
FORMAT = 1
MANIFEST = "manifest.json"
LATEST = Path("runs/latest")
"""A link that training makes: the last run of this directory."""
COMMANDS: Mapping[Kind, str] = {
    "tokenizer": "mtkit train-spm",
    "batches": "mtkit batch",
    "checkpoint": "mtkit train",
    "model": "mtkit train",
    "test": "mtkit run",
}


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
        report: Mapping[str, Any] = self.manifest["report"]
        return report


def sha256_of(value: Any) -> str:
    """Hash of canonical JSON."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def request_of(kind: Kind, settings: Mapping[str, Any], inputs: Mapping[str, str]) -> str:
    """What is asked for, equal on any machine."""
    return sha256_of(
        {"kind": kind, "format": FORMAT, "settings": dict(settings), "inputs": dict(inputs)}
    )


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
    the new one is complete.
    """
    partial = path.with_name(f".{path.name}.partial")
    _remove(partial)
    partial.mkdir(parents=True)
    try:
        yield partial
        _write_manifest(partial, kind, settings, inputs, report or {})
        old = path.with_name(f".{path.name}.old")
        _remove(old)
        if path.exists():
            path.rename(old)
        partial.rename(path)
        _remove(old)
    except BaseException as error:
        _remove(partial)
        if isinstance(error, OSError) and error.filename is None:  # a full disk, in a write
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise


def open_artifact(path: Path, kind: Kind, *, verify: bool = False) -> Artifact:
    """The complete artifact at `path`; sizes are always checked, hashes with `verify`.

    Raises UserError where there is none, or one of another kind or format, or a damaged one.
    """
    manifest = _read_manifest(path, kind)
    if manifest["kind"] != kind:
        raise UserError(f"{path}: holds a {manifest['kind']}, not a {kind}")
    if manifest["format"] != FORMAT:
        raise UserError(
            f"{path}: format {manifest['format']}; this mtkit reads {FORMAT}: "
            f"remake it with `{COMMANDS[kind]}`"
        )
    for name, facts in manifest["files"].items():
        file = path / name
        if Path(name).name != name or not file.is_file() or file.stat().st_size != facts["bytes"]:
            raise UserError(f"{file}: missing or of another size: remake with `{COMMANDS[kind]}`")
        if verify and hash_file(file) != facts["sha256"]:
            raise UserError(f"{file}: damaged (its sha256 is not the manifest's)")
    request = request_of(kind, manifest["settings"], manifest["inputs"])
    identity = sha256_of({"request": request, "files": manifest["files"]})
    if verify and (request, identity) != (manifest["request"], manifest["identity"]):
        raise UserError(f"{path / MANIFEST}: damaged (its hashes are not those of what it says)")
    return Artifact(path, manifest)


def default_place() -> Path:
    """Where a command looks that is told no place: $MTKIT_MODEL, else the last run trained here."""
    return Path(os.environ.get("MTKIT_MODEL") or LATEST)


def find_model(path: str | Path | None) -> Artifact:
    """The model in a run or a model folder; None is the default place. UserError without one."""
    place = Path(path) if path else default_place()
    for folder in (place / "model", place):
        if (folder / MANIFEST).is_file():
            return open_artifact(folder, "model")
    raise UserError(f"{place}: no model there: train one with `mtkit train`, or name one with -m")


def kind_at(path: Path) -> Kind | None:
    """What the manifest at `path` says it is, sound or damaged; None where there is none."""
    try:
        kind: Kind = json.loads((path / MANIFEST).read_text(encoding="utf-8"))["kind"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return kind if kind in COMMANDS else None


def find_current(
    path: Path, kind: Kind, settings: Mapping[str, Any], inputs: Mapping[str, str]
) -> Artifact | None:
    """The artifact at `path` if it answers this very request, else None."""
    try:
        artifact = open_artifact(path, kind)
    except UserError:
        return None
    wanted = request_of(kind, settings, inputs)
    return artifact if artifact.manifest["request"] == wanted else None


def _write_manifest(
    folder: Path,
    kind: Kind,
    settings: Mapping[str, Any],
    inputs: Mapping[str, str],
    report: Mapping[str, Any],
) -> None:
    files = {
        file.name: {"bytes": file.stat().st_size, "sha256": hash_file(file)}
        for file in sorted(folder.iterdir())
    }
    request = request_of(kind, settings, inputs)
    manifest = {
        "kind": kind,
        "format": FORMAT,
        "mtkit": __version__,
        "settings": settings,
        "inputs": inputs,
        "files": files,
        "request": request,
        "identity": sha256_of({"request": request, "files": files}),
        "report": report,
    }
    write_json(folder / MANIFEST, manifest)


def _read_manifest(path: Path, kind: Kind) -> dict[str, Any]:
    try:
        manifest: dict[str, Any] = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        wanted = {"kind": str, "format": int, "settings": dict, "inputs": dict, "files": dict}
        wanted |= {"request": str, "identity": str, "report": dict}
        for key, type_ in wanted.items():
            if not isinstance(manifest[key], type_):
                raise TypeError(key)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{path}: no {kind} here: make one with `{COMMANDS[kind]}`") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path / MANIFEST}: not a manifest ({error})") from None
    return manifest


def write_json(path: Path, value: Any) -> None:
    """Writes atomically: readers see the old file or the new one, never half of one."""
    temporary = path.with_name(f".{path.name}.partial")
    with temporary.open("w", encoding="utf-8") as file:
        json.dump(value, file, indent=2, ensure_ascii=False, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
