"""The end of a run: its best weights become the model."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor

from mtkit.artifacts.manifest import Artifact
from mtkit.artifacts.runs import CHECKPOINTS, WEIGHTS, checkpoint_steps
from mtkit.artifacts.stage import Stage
from mtkit.config.settings import Config
from mtkit.errors import MtkitError, UserError
from mtkit.machine import check_single_process
from mtkit.models.weights import assign_weights, get_weights, save_weights
from mtkit.report import say, warn
from mtkit.training.checkpoints import DamagedCheckpointError
from mtkit.training.process_group import SINGLE_PROCESS
from mtkit.training.setup import TrainingRun, open_inputs, open_run
from mtkit.training.state import TrainState, Validation, rank
from mtkit.training.validation import validate, validation_signatures


def finish(config: Config) -> Artifact:
    """End a run early: write a model with the best weights so far; use only this process.

    The checkpoints stay as they are, so `train` can still resume; it replaces the model at its end.

    Raises:
        UserError: an earlier stage is missing, no checkpoint has been saved yet, or torchrun has
            started several processes.
    """
    check_single_process()
    inputs = open_inputs(config)
    last = checkpoint_steps(Path(config.run) / CHECKPOINTS)[-1:]
    for step in (None, *last):
        if model := inputs.stage("model", step).current():
            say(f"train: {model.path} is up to date")
            return model
    if not last:
        raise UserError(f"{config.run} has no checkpoint yet; train with `mtkit train`")
    with open_run(inputs, SINGLE_PROCESS) as (run, state):
        progress = state.progress
        say(f"train: finishing early, after step {progress.step:,} of {run.total_steps:,}")
        if progress.step not in [validation.step for validation in progress.validations]:
            progress.validations.append(validate(run, state))
        stage = inputs.stage("model", progress.step)
        write_model(run, state, stage)
    return stage.open()


def write_model(run: TrainingRun, state: TrainState, stage: Stage) -> None:
    """Write the model of the run: its best weights, and everything else that decoding needs."""
    best = _best_weights(run, state)
    if not math.isfinite(best.validation.loss):
        raise MtkitError(
            f"training diverged: no model is written, because the validation loss of the "
            f"{best.name} is {best.validation.loss:g}; lower the learning rate and train in "
            "another run directory (--run)"
        )
    if not run.group.is_main:
        return
    with stage.write() as draft:
        draft.report.update(
            {
                "weights": best.name,
                "validation": asdict(best.validation),
                "signatures": validation_signatures(run.inputs),
                "averaged_steps": best.steps,
                "steps": state.progress.step,
                "epochs": state.progress.position.epoch,
                "parameters": sum(weight.numel() for weight in best.weights.values()),
                "precision": state.progress.precision,
                "training_seconds": round(state.seconds, 1),
            }
        )
        run.inputs.save_model_config(draft.folder)
        save_weights(best.weights, draft.folder / WEIGHTS)


@dataclass(frozen=True)
class Candidate:
    """Weights that may become the model."""

    name: str
    weights: dict[str, Tensor]
    validation: Validation
    steps: list[int]
    """Steps of the checkpoints that the weights come from."""


def _best_weights(run: TrainingRun, state: TrainState) -> Candidate:
    """Return the best checkpoint, or the mean of the best few if its validation is better."""
    criterion, count = run.config.training.best_by, run.config.training.average
    best = list(islice(_validated(run, state), count))
    if not best:  # all are damaged
        steps = [state.progress.step]
        return Candidate("last weights", get_weights(state.model), validate(run, state), steps)
    single, steps = best[0], [candidate.validation.step for candidate in best]
    if len(best) == 1:
        return single
    mean = {
        name: torch.stack([candidate.weights[name] for candidate in best]).mean(dim=0)
        for name in single.weights
    }
    del best  # frees their memory during validation
    assign_weights(state.model, mean)
    validation = replace(validate(run, state), step=max(steps))
    average = Candidate(f"mean of the best {len(steps)} checkpoints", mean, validation, steps)
    shown = validation.suitable(criterion)
    values = [getattr(candidate.validation, shown) for candidate in (average, single)]
    say(
        f"valid {shown} of the {average.name} {values[0]:.3f}, of the {single.name} {values[1]:.3f}"
    )
    return min(single, average, key=lambda candidate: candidate.validation.key(criterion))


def _validated(run: TrainingRun, state: TrainState) -> Iterator[Candidate]:
    """Yield the undamaged validated checkpoints, best first."""
    saved, best_by = set(run.checkpoints.steps()), run.config.training.best_by
    name = "last checkpoint" if best_by == "step" else "best checkpoint"
    for validation in rank(state.progress.validations, best_by):
        if (step := validation.step) in saved:
            try:
                weights = run.checkpoints.weights(step)
            except DamagedCheckpointError as damage:
                warn(f"{damage}; this checkpoint is ignored")
            else:
                yield Candidate(name, weights, validation, [step])
