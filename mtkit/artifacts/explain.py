"""What an artifact was made from, in the words of a config, and in what that has changed since.

Hashes decide whether an artifact is current; this is what people are told when it is not. It lies
in the report of a manifest, on which no hash depends: each setting, and the size of each file.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, hash_file, open_artifact
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_at, checkpoint_steps
from mtkit.config.base import Settings, flattened
from mtkit.errors import UserError
from mtkit.report import say

Told = Mapping[str, Any]
FROM = "from"
"""Its name in the report of a manifest."""
SOON_HASHED = 1 << 26
"""Number of bytes: hashed in less than a tenth of a second."""
ELSEWHERE = {
    "seed": "seed",
    "weights": "weight of each corpus in data.train",
    "max_tokens": "batching.max_tokens",
    "target_language": "data.target_language",
    "ended": "the update that `mtkit finish` ended it at",
}
"""Settings of recipes that do not stand in the section of their stage."""


def told(recipe: Settings, section: str = "") -> dict[str, Any]:
    """The settings of a recipe by their names in a config."""
    within = f"{section}." if section else ""
    return {
        ELSEWHERE.get(name, f"{within}{name}"): value
        for name, value in flattened(recipe.model_dump()).items()
    }


def origin_of(artifact: Artifact) -> Told:
    """What an artifact says that it was made from; nothing, if an earlier mtkit made it."""
    found = artifact.report.get(FROM)
    return found if isinstance(found, dict) else {}


def change(before: Told, now: Told) -> str | None:
    """The first thing that is not as it was, in words; None where all is."""
    shared = [key for key in now if key in before and before[key] != now[key]]
    for key in shared:
        match before[key], now[key]:
            case {"lines": int(was)}, {"lines": int(is_now)} if was != is_now:
                return f"{key} has {_more(is_now - was, 'line')}, {is_now:,} now"
            case {"bytes": int(was)}, {"bytes": int(is_now)} if was != is_now:
                return f"{key} has {_more(is_now - was, 'byte')}, {is_now:,} now"
            case {"bytes": int()}, {"bytes": int()}:
                return f"{key} has other text of the same length"
            case {"model": str()}, {"model": str()}:
                return f"{key} is another model now"
            case was, is_now:
                return f"{key}: {was}, now {is_now}"
    others = (key for key in now if before and key not in before and isinstance(now[key], dict))
    return next((f"{key} was not read before" for key in others), None)


def check_remake(path: Path, kind: Kind, now: Told) -> None:
    """Says why the artifact at `path`, if there is one, is made anew.

    UserError where the checkpoints of its run were made from it: without it they are of no use.
    """
    if not (path / MANIFEST).is_file():
        return
    reason = None
    with suppress(UserError):
        artifact = open_artifact(path, kind)
        reason = change(origin_of(artifact), now)
        open_artifact(path, kind, verify=True)
        reason = reason or "what it was made from has changed"
    if reason is None:
        say(f"{kind}: made anew: it is damaged, or of another version of mtkit")
        return
    if (needed := _made_from(artifact)) is not None:
        raise other_settings(needed, reason)
    say(f"{kind}: made anew: {reason}")


def _made_from(artifact: Artifact) -> Path | None:
    """The last checkpoint of a run, if it was made from this part of it, and is worth an update."""
    folder = artifact.path.parent / CHECKPOINTS
    for step in reversed(checkpoint_steps(folder)):
        checkpoint = checkpoint_at(folder, step)
        with suppress(UserError):
            inputs = open_artifact(checkpoint, "checkpoint").manifest["inputs"]
            return checkpoint if step and artifact.identity in inputs.values() else None
    return None


def other_settings(checkpoint: Path, difference: str) -> UserError:
    """What to say where training cannot go on from a checkpoint, for that difference."""
    is_longer = difference.startswith(("training.steps:", "training.epochs:"))
    run, new = checkpoint.parents[1], "anew, name another folder with --run NEW"
    if is_longer:
        first = "" if (run / "model").is_dir() else f"end it with `mtkit finish {run}`, and "
        new = f"from its weights, {first}name another folder with --run NEW --set "
        new += f"training.init_from={run}"
    return UserError(
        f"{checkpoint}: a checkpoint of other settings ({difference}): undo that to go on; to "
        f"train {new}, or delete {checkpoint.parent}"
    )


def change_in(artifact: Artifact, now: Told) -> str | None:
    """As `change`, of those things alone that both tell of."""
    before = origin_of(artifact)
    return change({key: before[key] for key in now if key in before}, now)


def changed_files(artifact: Artifact, files: Mapping[str, Path]) -> str | None:
    """The first of the files that is not as it was when the artifact was made of it, in words.

    Of equal sizes hashes are compared where that is soon done, or the file is the younger. A file
    of another name is as it was if any had its text.
    """
    before, made = origin_of(artifact), (artifact.path / MANIFEST).stat().st_mtime
    texts = [facts.get("sha256") for facts in before.values() if isinstance(facts, dict)]
    for name, file in files.items():
        match before.get(name):
            case None if texts and not (file.is_file() and hash_file(file) in texts):
                return f"{name} was not read for it"
            case {"bytes": int(was), "sha256": str(digest)} if file.is_file():
                now = file.stat()
                if was != now.st_size:
                    return f"{name} has {_more(now.st_size - was, 'byte')} since"
                is_doubtful = now.st_size <= SOON_HASHED or now.st_mtime > made
                if is_doubtful and hash_file(file) != digest:
                    return f"{name} has other text of the same length"
    return None


def _more(difference: int, unit: str) -> str:
    plural = "s" if abs(difference) > 1 else ""
    return f"{abs(difference):,} {unit}{plural} {'more' if difference > 0 else 'fewer'}"
