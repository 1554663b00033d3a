"""A stage: an artifact of some kind, made from some inputs with some settings.

with stage.build(config) as draft:       # locked; complete at the end, or as it was before
    (draft.folder / "spm.model").write_bytes(model)
    draft.report["lines"] = 1000
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.explain import FROM, explain, origin_of
from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, create, open_artifact
from mtkit.artifacts.recipe import Recipe
from mtkit.artifacts.runs import CHECKPOINTS, checkpoint_at, checkpoint_steps, locked, save_config
from mtkit.config.base import flattened
from mtkit.errors import UserError
from mtkit.report import say

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config


@dataclass(frozen=True)
class Draft:
    """An artifact that is being written."""

    folder: Path
    """Where its files go."""
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
        """Return the artifact, filled by `fill` unless it is up to date."""
        if artifact := self.current():
            say(f"{self.kind}: up to date")
            return artifact
        with self.build(config) as draft:
            fill(draft)
        return self.open()

    @contextmanager
    def build(self, config: Config) -> Iterator[Draft]:
        """Yield a draft that replaces the artifact when the block ends, and save the config.

        Raises UserError if another process writes to the run, or checkpoints need the artifact.
        """
        self.explain_rebuild()
        with locked(Path(config.run)), self.write() as draft:
            yield draft
            save_config(config)

    @contextmanager
    def write(self) -> Iterator[Draft]:
        """Yield a draft as `build` does, in a run that is locked already, or in no run."""
        report: dict[str, Any] = {FROM: self.origin} if self.sources else {}
        settings = self.recipe.resolved()
        with create(self.path, self.kind, settings, self.inputs, report) as folder:
            yield Draft(folder, report)

    def difference(self, artifact: Artifact) -> str | None:
        """Describe what an artifact was made from that is different now; None if nothing is."""
        inputs, settings = artifact.manifest["inputs"], artifact.manifest["settings"]
        if self.recipe.matches(settings) and inputs == dict(self.inputs):
            return None
        if reason := explain(origin_of(artifact), self.origin):
            return reason
        for name in sorted(inputs.keys() | self.inputs.keys()):
            if inputs.get(name) != self.inputs.get(name):
                return f"another {name}"
        before, now = flattened(settings), self.recipe.by_name()
        names = (name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        name = min(names, default="settings")
        return f"{name}: {before.get(name)}, now {now.get(name)}"

    def explain_rebuild(self) -> None:
        """Say why the artifact, if any, is rebuilt; UserError if checkpoints depend on it."""
        if not (self.path / MANIFEST).is_file():
            return
        try:
            artifact = open_artifact(self.path, self.kind, verify=True)
        except UserError:
            say(f"{self.kind}: rebuilding: it is damaged, or of another version of mtkit")
            return
        reason = self.difference(artifact)
        if reason and (checkpoint := _dependent_checkpoint(artifact)):
            raise checkpoint_mismatch(checkpoint, reason)
        say(f"{self.kind}: rebuilding: {reason}")


def checkpoint_mismatch(checkpoint: Path, difference: str) -> UserError:
    """Return the error for a run that cannot resume because of a difference."""
    run = checkpoint.parents[1]
    advice = "to train anew, choose another run directory"
    if difference.startswith(("training.steps:", "training.epochs:")):
        finish = "" if (run / "model").is_dir() else f"end it with `mtkit finish {run}`, and "
        advice = (
            f"to train from its weights, {finish}set training.init_from={run} in another run "
            "directory"
        )
    return UserError(
        f"{checkpoint}: checkpoint of other settings ({difference}): undo that to resume; "
        f"{advice}, or delete {checkpoint.parent}"
    )


def _dependent_checkpoint(artifact: Artifact) -> Path | None:
    """Return the last checkpoint of the run if it has made a step and has this as an input."""
    folder = artifact.path.parent / CHECKPOINTS
    for step in reversed(checkpoint_steps(folder)):
        checkpoint = checkpoint_at(folder, step)
        with suppress(UserError):
            inputs = open_artifact(checkpoint, "checkpoint").manifest["inputs"]
            return checkpoint if step and artifact.identity in inputs.values() else None
    return None
