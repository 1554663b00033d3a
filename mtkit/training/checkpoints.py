"""The checkpoints of one run: a folder each, whole or not there, verified before they are used."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from pydantic import TypeAdapter
from safetensors import SafetensorError
from torch import Tensor

from mtkit.artifacts.manifest import Artifact, OtherFormatError, open_artifact, remove
from mtkit.artifacts.runs import INDEX, WEIGHTS, checkpoint_at, checkpoint_steps
from mtkit.artifacts.stage import Stage, checkpoint_mismatch
from mtkit.artifacts.storage import read_json, write_json
from mtkit.config.settings import Criterion
from mtkit.errors import UserError, is_out_of_memory
from mtkit.models.weights import get_weights, load_weights, save_weights
from mtkit.report import warn
from mtkit.training.state import Progress, TrainState, rank

PROGRESS = TypeAdapter(Progress)
MALFORMED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    SafetensorError,
    TypeError,
    UserError,
    ValueError,
)
"""Errors in which reading a checkpoint with the right hashes ends, if somebody else made it."""


@dataclass(frozen=True)
class Checkpoints:
    """The folder of checkpoints of one run, all of one request."""

    stage: Stage
    """What all of them have in common; its path is their folder."""
    save_model_config: Callable[[Path], None] = lambda folder: None
    """Writes what decoding needs besides weights, so that a checkpoint can be translated with."""
    processes: int = 1
    """Number of processes that train."""

    @property
    def folder(self) -> Path:
        return self.stage.path

    def path(self, step: int) -> Path:
        return checkpoint_at(self.folder, step)

    def steps(self) -> list[int]:
        """Steps of the complete checkpoints, oldest first."""
        return checkpoint_steps(self.folder)

    def save(self, state: TrainState) -> None:
        """Writes the state as it is, complete or not at all."""
        with replace(self.stage, path=self.path(state.step)).write() as draft:
            folder = draft.folder
            draft.report.update(seconds=state.seconds, processes=self.processes)
            self.save_model_config(folder)
            save_weights(get_weights(state.model), folder / WEIGHTS)
            save_weights(_moments(state.optimizer), folder / "optimizer.safetensors")
            numbers = PROGRESS.dump_python(state) | {"scaler": state.scaler.state_dict()}
            write_json(folder / "state.json", numbers)

    def prune(
        self, state: TrainState, metric: Criterion, newest: int, best: int, steps: int
    ) -> None:
        """Keeps the newest and the best, and names the last and the best in a small JSON.

        There it also says how many `steps` the run is to have. Before the first validation none is
        the best.
        While updates are skipped none is removed: the run may have to go back to it.
        A checkpoint of a later step than that of `state` was passed over as damaged: it counts for
        nothing, and is replaced in time.
        """
        there = [step for step in self.steps() if step <= state.step]
        ranked = [v.step for v in rank(state.validations, metric) if v.step in there]
        names = {"last": there[-1], "best": ranked[0] if ranked else None, "steps": steps}
        write_json(self.folder / INDEX, names)
        if state.skipped_in_a_row:
            return
        for step in set(there[:-newest]) - set(ranked[:best]):
            remove(self.path(step))

    def forget(self, step: int) -> None:
        """Removes those of later steps, which a run that went back made before."""
        for later in self.steps():
            if later > step:
                remove(self.path(later))

    def load_last(self, state: TrainState, *, steady: bool = False) -> Artifact | None:
        """Fills `state` from the newest checkpoint that is sound; None where there is none.

        A damaged one is named and passed over; where it is to be `steady`, so is one of an update
        that was skipped, whose weights may be what made the next ones skipped too. Raises UserError
        if all are damaged, or if one was made with other settings or from other data.
        """
        steps = self.steps()
        for step in reversed(steps):
            try:
                found = self.open(step)
                self._load(found, state)
            except DamagedCheckpoint as damage:
                warn(f"{damage}: going on from an earlier checkpoint")
                continue
            except Untouched:
                return None
            if not (steady and state.skipped_in_a_row):
                return found
        if steps and not steady:
            raise UserError(f"{self.folder}: every checkpoint is damaged: delete it to start anew")
        return None

    def open(self, step: int) -> Artifact:
        """The checkpoint of `step`, its hashes verified.

        Raises DamagedCheckpoint, or UserError where it is one of other settings (Untouched, without
        an update), or of another version of mtkit.
        """
        path = self.path(step)
        try:
            found = open_artifact(path, "checkpoint", verify=True)
        except OtherFormatError as error:
            raise UserError(
                f"{path}: a checkpoint of another version of mtkit, which alone can go on exactly: "
                f"end the run with that one, or delete {self.folder} to train anew"
            ) from error
        except UserError as error:
            raise DamagedCheckpoint(str(error)) from error
        if difference := self.stage.difference(found):
            if not step:
                raise Untouched(f"{path}: of other settings")
            raise checkpoint_mismatch(path, difference)
        return found

    def weights(self, step: int) -> dict[str, Tensor]:
        return safetensors.torch.load_file(self.open(step).path / WEIGHTS)

    def _load(self, checkpoint: Artifact, state: TrainState) -> None:
        path = checkpoint.path
        try:
            load_weights(state.model, path / WEIGHTS)
            _restore(state.optimizer, path / "optimizer.safetensors")
            _restore_numbers(state, read_json(path / "state.json"))
            if path.name != self.path(state.step).name:
                raise ValueError(f"step: {state.step}")
            state.seconds = float(checkpoint.report["seconds"])
        except MALFORMED as error:
            if is_out_of_memory(error):
                raise
            raise DamagedCheckpoint(f"{path}: not as mtkit writes it ({error})") from error


def recorded_processes(folder: Path) -> int | None:
    """Return how many processes wrote the newest checkpoint in `folder`; None if there is none."""
    for step in reversed(checkpoint_steps(folder)):
        with suppress(UserError):
            report = open_artifact(checkpoint_at(folder, step), "checkpoint").report
            processes = report.get("processes")
            return processes if isinstance(processes, int) else 1
    return None


class Untouched(UserError):  # noqa: N818 - named for what it is
    """A checkpoint of other settings from before the first update: with it nothing is lost."""


class DamagedCheckpoint(UserError):  # noqa: N818 - named for what it is
    """A checkpoint whose files are not those that were written."""


def _moments(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's tensors under "parameter index.name"."""
    states = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value).cpu().contiguous()
        for index, moments in states.items()
        for name, value in moments.items()
        if value is not None
    }


def _restore(optimizer: torch.optim.Optimizer, path: Path) -> None:
    """Fills in the tensors of `_moments`."""
    states: dict[int, dict[str, Tensor]] = {}
    groups = optimizer.state_dict()["param_groups"]
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    for key, value in safetensors.torch.load_file(path).items():
        index, name = key.split(".", 1)
        if value.shape not in ((), parameters[int(index)].shape):  # else its kernel reads beyond it
            raise ValueError(f"{key} has shape {tuple(value.shape)}")
        states.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({"state": states, "param_groups": groups})


def _restore_numbers(state: TrainState, numbers: dict[str, Any]) -> None:
    """Fills in what is in state.json; ValueError for a name or a type that `save` does not write.

    pydantic passes over unknown names, fills in missing ones and converts types: what it makes of
    the numbers must be the same when written again.
    """
    scaler, fresh = numbers.pop("scaler"), state.scaler.state_dict()
    progress = PROGRESS.validate_python(numbers)
    written = json.dumps(PROGRESS.dump_python(progress), sort_keys=True)
    if written != json.dumps(numbers, sort_keys=True):
        raise ValueError("state.json: a wrong name or type")
    if {k: type(v) for k, v in scaler.items()} != {k: type(v) for k, v in fresh.items()}:
        raise ValueError(f"scaler: {scaler!r:.40}")
    state.scaler.load_state_dict(scaler)
    vars(state).update(vars(progress))
