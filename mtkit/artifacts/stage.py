"""A stage: it creates an artifact from inputs and settings, unless the artifact is up to date.

    def fill(draft):
        (draft.folder / "spm.model").write_bytes(model)
        draft.report["lines"] = 1000

    artifact = stage.ensure(config, fill)    # complete at the end, or as it was before

An artifact is up to date if its manifest has the same settings and the same hashes of the inputs.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mtkit.artifacts.manifest import MANIFEST, Artifact, Kind, open_artifact
from mtkit.artifacts.recipe import Change, Recipe
from mtkit.artifacts.replacement import create
from mtkit.artifacts.runs import (
    CHECKPOINTS,
    checkpoint_at,
    checkpoint_steps,
    locked,
    save_config,
    unused_run,
)
from mtkit.errors import UserError
from mtkit.machine import check_single_process
from mtkit.report import say

if TYPE_CHECKING:  # translation reads no settings of training
    from mtkit.config.settings import Config


def changed_run_error(checkpoint: Path, change: Change) -> UserError:
    """Return the error of a run that cannot resume, because a setting or an input has changed."""
    run = checkpoint.parent.parent
    other_run = shlex.join(["--run", str(unused_run(run))])
    from_weights = shlex.join(["--set", f"training.init_from={run}"])
    return UserError(
        f"{checkpoint} was saved with other settings ({change.describe()}); undo this to resume; "
        f"or add `{other_run}` to train a new run, and `{from_weights}` to start from its weights"
    )


@dataclass(frozen=True)
class Draft:
    """An artifact that is being written."""

    folder: Path
    report: dict[str, Any]
    """Figures for people (scores, counts), which no hash covers."""


@dataclass(frozen=True)
class Stage:
    """The kind and path of an artifact, and its settings and inputs."""

    kind: Kind
    path: Path
    recipe: Recipe
    inputs: Mapping[str, str]
    """The hash of each input, by the name of its setting or its kind."""

    def current(self) -> Artifact | None:
        """Return the artifact; None if it is missing, damaged or not up to date."""
        try:
            artifact = open_artifact(self.path, self.kind, verify=True)
        except UserError:
            return None
        return None if self.difference(artifact) else artifact

    def open(self) -> Artifact:
        """Return the artifact; errors are as in `open_artifact`."""
        return open_artifact(self.path, self.kind)

    def ensure(self, config: Config, fill: Callable[[Draft], None]) -> Artifact:
        """Return the artifact; if it is not up to date, `fill` it anew, and save the config.

        Raises UserError if another process writes to the run, checkpoints need the old artifact, or
        torchrun has started several processes.
        """
        check_single_process()
        artifact = self.current()
        if artifact is not None:
            say(f"{self.kind}: up to date")
            return artifact
        self.explain_rebuild()
        with locked(Path(config.run)), self.write() as draft:
            fill(draft)
            save_config(config)
        return self.open()

    @contextmanager
    def write(self) -> Iterator[Draft]:
        """Yield a draft that replaces the artifact when the block ends.

        The caller must hold a lock on the folder of the artifact. Raises UserError as `create`.
        """
        # The block adds to this dict through the draft. `create` writes it into the manifest.
        report: dict[str, Any] = {}
        creation = create(
            self.path, self.kind, settings=self.recipe.resolved(), inputs=self.inputs, report=report
        )
        with creation as folder:
            yield Draft(folder, report)

    def difference(self, artifact: Artifact) -> Change | None:
        """Return the first setting or input that has changed since the artifact was made.

        Return None if nothing has changed. Settings come first.
        """
        changed_setting = self.recipe.difference(artifact.manifest["settings"])
        if changed_setting:
            return changed_setting
        recorded = artifact.manifest["inputs"]
        for name in sorted(recorded.keys() | self.inputs.keys()):
            before = recorded.get(name)
            now = self.inputs.get(name)
            if before != now:
                return Change((name,), before, now, is_input=True)
        return None

    def explain_rebuild(self) -> None:
        """Say why an existing artifact is rebuilt; raise UserError if checkpoints depend on it."""
        if not (self.path / MANIFEST).is_file():
            return
        try:
            artifact = open_artifact(self.path, self.kind, verify=True)
        except UserError:
            say(f"{self.kind}: rebuilding, because it is damaged or from another version of mtkit")
            return
        change = self.difference(artifact)
        if change is None:  # another process has just built it
            return
        checkpoint = _dependent_checkpoint(artifact)
        if checkpoint is not None:
            raise changed_run_error(checkpoint, change)
        say(f"{self.kind}: rebuilding, because {change.describe()}")


def _dependent_checkpoint(artifact: Artifact) -> Path | None:
    """Return the last undamaged checkpoint of the run if `artifact` is one of its inputs."""
    folder = artifact.path.parent / CHECKPOINTS
    for step in reversed(checkpoint_steps(folder)):
        checkpoint = checkpoint_at(folder, step)
        with suppress(UserError):
            inputs = open_artifact(checkpoint, "checkpoint").manifest["inputs"]
            return checkpoint if artifact.identity in inputs.values() else None
    return None
