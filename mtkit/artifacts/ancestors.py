"""The models from which a model descends by `training.init_from`, recorded in its report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mtkit.artifacts.manifest import Artifact

KEY = "given"


def record_ancestors(place: str, origin: Artifact) -> dict[str, Any]:
    """Return the entry of a report that names the ancestors of a model, the oldest first.

    `origin`: the model from whose weights training starts, and `place`: its path or name as the
    user gave it.
    """
    ancestors = [*ancestors_of(origin), {"model": place, "identity": origin.identity}]
    return {KEY: {str(number): ancestor for number, ancestor in enumerate(ancestors, 1)}}


def ancestors_of(model: Artifact) -> list[dict[str, str]]:
    """Return path or name ("model") and "identity" of each ancestor, the oldest first."""
    entries = model.report.get(KEY)
    ancestors: list[dict[str, str]] = []
    for entry in entries.values() if isinstance(entries, Mapping) else []:
        match entry:  # the report may come from an untrusted source
            case {"model": str(name), "identity": str(identity)}:
                ancestors.append({"model": name, "identity": identity})
    return ancestors


def describe_ancestors(model: Artifact) -> str | None:
    """Return the ancestors of a model in words, such as "a → runs/b → this"; None without any."""
    names = [ancestor["model"] for ancestor in ancestors_of(model)]
    return " → ".join([*names, "this"]) if names else None
