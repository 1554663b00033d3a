"""Models in CTranslate2's form, made once and kept in the user's cache directory.

A folder there belongs to one model, by its identity, and to one type of numbers. It is an artifact
like those of a run: complete or absent, and hashed again before the library, which is written in
C++ and trusts its files, reads it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import ctranslate2

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.stage import Stage
from mtkit.decoding.ctranslate2 import positions
from mtkit.models.folder import OpenedModel
from mtkit.report import say

Measure = Callable[[Path], Mapping[str, Any]]
"""Figures of a model in its folder, which is not yet complete."""


def cached(opened: OpenedModel, compute_type: str, measure: Measure | None = None) -> Artifact:
    """The model in that type, from the cache; made, which takes seconds, where it is not there.

    With `measure`, one is made whose report it is, unless there is one that was measured. A damaged
    model, or one of another version of CTranslate2, is made anew. Raises OSError where the cache
    cannot be written, UserError for weights that are not this model's.
    """
    stage = _stage(opened, compute_type, _path(opened, compute_type))
    path, found = stage.path, stage.current()
    if found and (found.report or measure is None):
        return found
    from filelock import FileLock

    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.with_name(f".{path.name}.lock")):
        found = stage.current()  # another process may have made it meanwhile
        if found and measure is None:
            return found
        if path.exists() and not found:
            say(f"{path}: damaged, or of another version: made anew")
        else:
            say(f"converting the model for CTranslate2 ({compute_type}), once: {path}")
        return convert_to(path, opened, compute_type, measure)


def type_of(converted: Artifact) -> str:
    """The numbers of a converted model."""
    return str(converted.manifest["settings"]["compute_type"])


def convert_to(
    path: Path, opened: OpenedModel, compute_type: str, measure: Measure | None = None
) -> Artifact:
    """Writes the model in that type to `path`, with what `measure` finds of it as its report."""
    from mtkit.decoding.conversion import convert

    stage = _stage(opened, compute_type, path)
    with stage.write() as draft:
        convert(opened, draft.folder, positions(opened.config), compute_type)
        if measure is not None:
            draft.report.update(measure(draft.folder))
    return stage.open()


def _path(opened: OpenedModel, compute_type: str) -> Path:
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user that the system does not know, as in a container
        why = "no home directory, and no XDG_CACHE_HOME either"
        raise FileNotFoundError(errno.ENOENT, why, "~/.cache") from None
    name = f"ctranslate2-{compute_type}-{positions(opened.config)}"
    return cache / "mtkit" / opened.artifact.identity / name


def _stage(opened: OpenedModel, compute_type: str, path: Path) -> Stage:
    settings = {
        "format": "ctranslate2",
        "version": ctranslate2.__version__,
        "compute_type": compute_type,
        "positions": positions(opened.config),
    }
    return Stage("export", path, Recipe(settings), {"model": opened.artifact.identity})
