"""A stage: an artifact of some kind, made from some inputs with some settings.

def fill(draft):
    (draft.folder / "spm.model").write_bytes(model)
    draft.report["lines"] = 1000

artifact = stage.ensure(config, fill)    # complete at the end, or as it was before

Hashes decide whether an artifact is up to date. For people its report holds the value of each
setting, and the size and hash of each file, that it was made from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, create, open_artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_at, checkpoint_steps, locked, save_config
from mtkit.config.base import flattened
from mtkit.errors import UserError
from mtkit.report import say

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config

FROM = "from"
"""Key in the report of a manifest, under which the origin stands."""


@dataclass(frozen=True)
class Draft:
    """An artifact that is being written."""

    folder: Path
    report: dict[str, Any]
    """Figures for people; part of no hash."""


@dataclass(frozen=True)
class Stage:
    """What an artifact is, and what it is made from."""

    kind: Kind
    path: Path
    recipe: Recipe
    inputs: Mapping[str, str]
    """The identity of each input."""
    sources: Mapping[str, Any] = field(default_factory=dict)
    """Settings and files that the inputs were made from, by name."""

    @property
    def origin(self) -> dict[str, Any]:
        """All settings and files that the artifact is made from, by name."""
        return {**self.sources, **self.recipe.by_name()}

    def current(self) -> Artifact | None:
        """Return the artifact if it is up to date and undamaged."""
        try:
            artifact = open_artifact(self.path, self.kind, verify=True)
        except UserError:
            return None
        return artifact if self.difference(artifact) is None else None

    def open(self) -> Artifact:
        """Return the artifact; UserError as `open_artifact`."""
        return open_artifact(self.path, self.kind)

    def ensure(self, config: Config, fill: Callable[[Draft], None]) -> Artifact:
        """Return the artifact; unless it is up to date, `fill` it first, and save the config.

        Raises UserError if another process writes to the run, or checkpoints need the artifact.
        """
        if artifact := self.current():
            say(f"{self.kind}: up to date")
            return artifact
        self.explain_rebuild()
        with locked(Path(config.run)), self.write() as draft:
            fill(draft)
            save_config(config)
        return self.open()

    @contextmanager
    def write(self) -> Iterator[Draft]:
        """Yield a draft that replaces the artifact when the block ends; lock the run before."""
        report: dict[str, Any] = {FROM: self.origin} if self.sources else {}
        settings = self.recipe.resolved()
        with create(self.path, self.kind, settings, self.inputs, report) as folder:
            yield Draft(folder, report)

    def difference(self, artifact: Artifact) -> str | None:
        """Describe what an artifact was made from that is different now; None if nothing is."""
        inputs, settings = artifact.manifest["inputs"], artifact.manifest["settings"]
        if self.recipe.matches(settings) and inputs == dict(self.inputs):
            return None
        if reason := describe_change({**flattened(settings), **origin_of(artifact)}, self.origin):
            return reason
        names = sorted(inputs.keys() | self.inputs.keys())
        changed = (name for name in names if inputs.get(name) != self.inputs.get(name))
        return f"another {next(changed, 'set of settings')}"

    def explain_rebuild(self) -> None:
        """Say why the artifact, if any, is rebuilt; UserError if checkpoints depend on it."""
        if not (self.path / MANIFEST).is_file():
            return
        try:
            artifact = open_artifact(self.path, self.kind, verify=True)
        except UserError:
            say(f"{self.kind}: rebuilding, because it is damaged or from another version of mtkit")
            return
        reason = self.difference(artifact)
        if reason and (checkpoint := _dependent_checkpoint(artifact)):
            raise checkpoint_mismatch(checkpoint, reason)
        say(f"{self.kind}: rebuilding, because {reason}")


def checkpoint_mismatch(checkpoint: Path, difference: str) -> UserError:
    """Return the error for a run that cannot resume because of a difference."""
    run = checkpoint.parents[1]
    advice = "to train anew, choose another run directory"
    if difference.startswith(("training.steps was", "training.epochs was")):
        finish = "" if (run / "model").is_dir() else f"`mtkit finish {run}`, and "
        advice = f"to train from its weights, {finish}set training.init_from={run} in another run"
    return UserError(
        f"{checkpoint} was saved with other settings ({difference}); undo that to resume, "
        f"{advice}, or delete {checkpoint.parent}"
    )


def _dependent_checkpoint(artifact: Artifact) -> Path | None:
    """Return the last checkpoint of the run if it has this as an input."""
    folder = artifact.path.parent / CHECKPOINTS
    for step in reversed(checkpoint_steps(folder)):
        checkpoint = checkpoint_at(folder, step)
        with suppress(UserError):
            inputs = open_artifact(checkpoint, "checkpoint").manifest["inputs"]
            return checkpoint if artifact.identity in inputs.values() else None
    return None


def origin_of(artifact: Artifact) -> Mapping[str, Any]:
    """Return the settings and files that an artifact was made from, by name; empty if unknown."""
    origin = artifact.report.get(FROM)
    return origin if isinstance(origin, dict) else {}


def describe_change(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe the first difference between two origins, or return None if there is none.

    Names that only one of them has count if they are files, which were not read before; but a
    renamed file is unchanged.
    """
    shared = [name for name in now if name in before and before[name] != now[name]]
    shared.sort(key=lambda name: not name.endswith(".kind"))  # the kind explains the others
    if shared:
        return _describe(shared[0], before[shared[0]], now[shared[0]])
    known = {facts.get("sha256") for facts in before.values() if isinstance(facts, dict)}
    for name, facts in now.items():
        is_new = isinstance(facts, dict) and name not in before
        if before and is_new and facts["sha256"] not in known:
            return f"{name} was not read before"
    return None


def _describe(name: str, before: Any, now: Any) -> str:
    if isinstance(before, dict) and isinstance(now, dict):
        if before.get("bytes") != now.get("bytes"):
            return f"{name} had {before.get('bytes')} bytes, now {now.get('bytes')}"
        return f"{name} has other text of the same length"
    return f"{name} was {before}, now {now}"
