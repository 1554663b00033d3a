"""Find models of other programs, and import them once.

Such a model is in a folder as Hugging Face's transformers writes it, or has a name on the Hugging
Face hub. It is imported into the user's cache, under the hash of its files or its commit on the
hub. Weights are safetensors; pickles are neither downloaded nor loaded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mtkit.artifacts.locks import lock_path
from mtkit.artifacts.manifest import (
    FORMAT_VERSIONS,
    MANIFEST,
    VERSION,
    Artifact,
    hash_file,
    kind_at,
    open_artifact,
    sha256_of,
)
from mtkit.errors import UserError
from mtkit.extras.pretrained import marian
from mtkit.extras.pretrained.hub import Download, UnreachableHubError, ask_hub, find_download
from mtkit.extras.pretrained.imports import find_import, models_folder, record_import
from mtkit.extras.pretrained.release import DECODER_FILE, find_release_files, is_release
from mtkit.report import say

CTRANSLATE2_WEIGHTS = "model.bin"
"""File of every model for CTranslate2."""
_HUB_NAME = re.compile(r"((?!runs/)[\w.-]+/[\w.-]+)(?:@([\w./-]+))?")
"""OWNER/NAME, or OWNER/NAME@REVISION; runs/NAME is a run."""


def import_place(place: str) -> Path | None:
    """Return the imported model of another program; None if the place names no such model.

    `place`: a folder of transformers, or OWNER/NAME of a model on the Hugging Face hub, with
    @REVISION if it is not the main one. A path that exists is no name.

    Raises:
        UserError: the model is damaged or not supported, or the hub does not give it.
    """
    path = Path(place)
    if (path / CTRANSLATE2_WEIGHTS).is_file() and not (path / marian.WEIGHTS_FILE).is_file():
        raise UserError(
            f"{place} is a model for CTranslate2, which cannot be converted back; give the model "
            "that it was converted from"
        )
    if _is_foreign_folder(path):
        return _import_folder(path, place)
    hub_name = None if path.exists() else _HUB_NAME.fullmatch(place)
    # A missing run in an existing folder, such as runs/old, is not a name on the hub.
    if hub_name is None or path.parent.is_dir():
        return None
    name, revision = hub_name.groups()
    return _import_from_hub(name, revision, place)


def _is_foreign_folder(path: Path) -> bool:
    """Return whether a folder is a model of transformers, or claims to be one."""
    # Artifacts of mtkit have a manifest; of these, only exports can be in a format of theirs.
    if (path / MANIFEST).is_file() and kind_at(path) != "export":
        return False
    is_run = (path / "model" / MANIFEST).is_file()
    names = (marian.CONFIG_FILE, marian.WEIGHTS_FILE, marian.PICKLE_FILE, DECODER_FILE)
    return not is_run and any((path / name).is_file() for name in names)


def _import_folder(folder: Path, place: str) -> Path:
    find_files = find_release_files if is_release(folder) else marian.find_files
    hashes = {file.name: hash_file(file) for file in find_files(folder)}
    return _import_once(folder, place, key={"files": hashes}, origin={"place": place})


def _import_from_hub(name: str, revision: str | None, place: str) -> Path:
    """Return the imported model of the hub; download and import it if it is not in the cache."""
    try:
        found = ask_hub(name, revision)
    except UnreachableHubError as unreachable:
        imported = find_import(place)
        if imported is not None and _open_undamaged(imported) is not None:
            say(f"{place}: using the model that was imported, because {unreachable}")
            return imported
        found = find_download(name, revision, unreachable)
    key = {"hub": name, "commit": found.commit}
    return _import_once(found, place, key=key, origin=found.origin)


def _import_once(
    source: Path | Download, place: str, *, key: Mapping[str, Any], origin: Mapping[str, str]
) -> Path:
    """Return the imported model from the cache; import it if it is not there.

    `key`: what distinguishes the model from all others. `origin`: what its report says of it.
    """
    # Another version may import the same files in another way.
    versioned = {"mtkit": VERSION, "format": FORMAT_VERSIONS["model"], **key}
    path = models_folder() / sha256_of(versioned)
    if _open_undamaged(path) is None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with lock_path(path.with_name(f".{path.name}.lock"), wait=True):
            if _open_undamaged(path) is None:  # another process may have imported it meanwhile
                # Imported here, because an imported model opens without torch.
                from mtkit.extras.pretrained.huggingface import import_model

                folder = source if isinstance(source, Path) else source.fetch()
                say(f"importing the model {place}, once")
                import_model(folder, path, origin)
    record_import(place, path)
    return path


def _open_undamaged(path: Path) -> Artifact | None:
    """Return an imported model; None if there is none, or if it is damaged."""
    try:
        return open_artifact(path, "model", verify=True)
    except UserError:
        return None
