"""The checkpoints of a run: each is a folder, complete or absent, and verified before use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import safetensors.torch
import torch
from pydantic import TypeAdapter
from torch import Tensor

from mtkit.artifacts.manifest import Artifact, OtherFormatError, open_artifact
from mtkit.artifacts.replacement import remove
from mtkit.artifacts.runs import INDEX, WEIGHTS, checkpoint_at, checkpoint_steps
from mtkit.artifacts.stage import Stage, changed_run_error
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.settings import TrainingSettings
from mtkit.errors import UserError
from mtkit.models.weights import get_weights, load_weights, save_weights
from mtkit.report import warn
from mtkit.training.state import TrainingProgress, TrainState, rank

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
STEP_COUNT = "step"
"""What torch's optimizers call the number of steps of a parameter, the only moment of shape ()."""
PROGRESS = TypeAdapter(TrainingProgress)


class DamagedCheckpointError(UserError):
    """A checkpoint whose files have changed since they were written."""


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run."""

    stage: Stage
    """What all checkpoints have in common; its path is the folder that contains them."""
    save_model_config: Callable[[Path], None]
    """Writes all that decoding needs except weights, so that a checkpoint can translate."""
    processes: int
    """Number of processes that train."""

    @property
    def folder(self) -> Path:
        """The folder of all checkpoints."""
        return self.stage.path

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of `step`, whether it exists or not."""
        return checkpoint_at(self.folder, step)

    def steps(self) -> list[int]:
        """Return the steps of the complete checkpoints, oldest first."""
        return checkpoint_steps(self.folder)

    def save(self, state: TrainState) -> None:
        """Write a checkpoint atomically."""
        path = self.path(state.progress.step)
        with replace(self.stage, path=path).write() as draft:
            folder = draft.folder
            draft.report.update(seconds=state.seconds, processes=self.processes)
            self.save_model_config(folder)
            save_weights(get_weights(state.model), folder / WEIGHTS)
            save_weights(_moments(state.optimizer), folder / OPTIMIZER)
            write_json(folder / STATE, PROGRESS.dump_python(state.progress))

    def prune(self, progress: TrainingProgress, training: TrainingSettings, steps: int) -> None:
        """Keep only the newest and the best checkpoints; write an index: last, best and `steps`.

        `steps`: planned length of the run. While steps are skipped, no checkpoint is removed,
        because the run may have to roll back. A checkpoint of a later step than `progress` is
        damaged: it is ignored here, and will be replaced.
        """
        saved = [step for step in self.steps() if step <= progress.step]
        ranked: list[int] = []  # validated checkpoints, best first
        for validation in rank(progress.validations, training.best_by):
            if validation.step in saved:
                ranked.append(validation.step)
        best = ranked[0] if ranked else None
        write_json(self.folder / INDEX, {"last": saved[-1], "best": best, "steps": steps})
        if progress.skipped_in_a_row:
            return
        # The end of the run averages the best checkpoints.
        kept = {*saved[-training.keep :], *ranked[: training.average]}
        for step in saved:
            if step not in kept:
                remove(self.path(step))

    def remove_after(self, step: int) -> None:
        """Remove the checkpoints after `step`, to which the run was rolled back."""
        for later in self.steps():
            if later > step:
                remove(self.path(later))

    def load_last(self, state: TrainState, *, healthy: bool = False) -> Artifact | None:
        """Load the newest undamaged checkpoint into `state`; return None if the run has none.

        `healthy`: ignore checkpoints that were saved while steps were skipped, because their
        weights may be the cause. If no other checkpoint is undamaged, return None, too, although
        `state` has changed.

        Raises:
            UserError: all are damaged (unless `healthy`), or one was made with other settings or
                from other data.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                checkpoint = self.open(step)
            except DamagedCheckpointError as damage:
                warn(f"{damage}; resuming from an earlier checkpoint")
                continue
            self._load(checkpoint, state)
            is_healthy = not state.progress.skipped_in_a_row
            if is_healthy or not healthy:
                return checkpoint
        if steps and not healthy:
            raise UserError(
                f"{self.folder}: every checkpoint is damaged; delete it to train from scratch"
            )
        return None

    def open(self, step: int) -> Artifact:
        """Return the checkpoint of `step`, verified.

        Raises:
            DamagedCheckpointError: its files have changed since they were written.
            UserError: it was made with other settings, other data or another version of mtkit.
        """
        path = self.path(step)
        try:
            checkpoint = open_artifact(path, "checkpoint", verify=True)
        except OtherFormatError as error:
            raise UserError(
                f"{path} was saved by another version of mtkit; finish the run with that version, "
                f"or delete {self.folder} to train from scratch"
            ) from error
        except UserError as error:
            raise DamagedCheckpointError(str(error)) from error
        change = self.stage.difference(checkpoint)
        if change is not None:
            raise changed_run_error(path, change)
        return checkpoint

    def weights(self, step: int) -> dict[str, Tensor]:
        """Verify the checkpoint of `step`, and return its weights."""
        return safetensors.torch.load_file(self.open(step).file(WEIGHTS))

    def _load(self, checkpoint: Artifact, state: TrainState) -> None:
        """Fill the state from a verified checkpoint."""
        load_weights(state.model, checkpoint.file(WEIGHTS))
        _load_moments(state.optimizer, checkpoint.file(OPTIMIZER))
        state.progress = PROGRESS.validate_python(read_json(checkpoint.file(STATE)))
        state.seconds = checkpoint.report["seconds"]
        # The device has copies of the numbers in `progress`, and the launcher has recorded where
        # the weights were.
        state.write_figures()
        state.restart_launcher()


def recorded_processes(folder: Path) -> int | None:
    """Return how many processes train the run whose newest checkpoint is in `folder`.

    Return None if there is no checkpoint, or if the newest is damaged.
    """
    steps = checkpoint_steps(folder)
    if not steps:
        return None
    try:
        checkpoint = open_artifact(checkpoint_at(folder, steps[-1]), "checkpoint")
    except UserError:  # damaged
        return None
    return int(checkpoint.report["processes"])


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's tensors by "INDEX.NAME"; INDEX is the number of the parameter."""
    tensors: dict[str, Tensor] = {}
    for index, moments in optimizer.state_dict()["state"].items():
        for name, value in moments.items():
            if value is not None:
                tensors[f"{index}.{name}"] = torch.as_tensor(value).cpu().contiguous()
    return tensors


def _load_moments(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Load what `_moments` returned.

    Raises:
        UserError: a tensor belongs to no parameter, or has another shape than its parameter.
    """
    states: dict[int, dict[str, Tensor]] = {}
    groups = optimizer.state_dict()["param_groups"]
    parameters: dict[str, Tensor] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameters[str(len(parameters))] = parameter
    for key, value in safetensors.torch.load_file(path).items():
        number, _, name = key.partition(".")
        if number not in parameters:
            raise UserError(f"{path}: {key} belongs to no parameter of the model")
        # With another shape, kernels would read past the end of a tensor.
        expected = torch.Size() if name == STEP_COUNT else parameters[number].shape
        if value.shape != expected:
            raise UserError(f"{path}: {key} has the unexpected shape {tuple(value.shape)}")
        states.setdefault(int(number), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": groups})
