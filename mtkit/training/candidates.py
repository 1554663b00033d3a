"""Weights that may become the model of a run: the best checkpoint, or the mean of the best few."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import torch
from torch import Tensor

from mtkit.models.weights import assign_weights, get_weights
from mtkit.report import say, warn
from mtkit.training.checkpoints import DamagedCheckpointError
from mtkit.training.setup import TrainingRun
from mtkit.training.state import TrainState, Validation, rank
from mtkit.training.validation import validate


@dataclass(frozen=True)
class Candidate:
    """Weights that may become the model."""

    name: str
    weights: dict[str, Tensor]
    validation: Validation
    steps: list[int]
    """Steps of the checkpoints that the weights come from."""


def choose_trained(run: TrainingRun, state: TrainState) -> Candidate:
    """Return the best checkpoint, or the mean of the best few if its validation is better."""
    training = run.config.training
    checkpoints = list(islice(_validated(run, state), training.average))
    if not checkpoints:  # none is saved and undamaged
        # A copy, because other weights may be tried in the model later.
        weights = {name: weight.clone() for name, weight in get_weights(state.model).items()}
        return Candidate("last weights", weights, validate(run, state), [state.progress.step])
    best = checkpoints[0]
    if len(checkpoints) == 1:
        return best
    steps = [checkpoint.validation.step for checkpoint in checkpoints]
    mean_weights = {
        name: torch.stack([checkpoint.weights[name] for checkpoint in checkpoints]).mean(dim=0)
        for name in best.weights
    }
    del checkpoints  # frees all weights but the best and the mean
    assign_weights(state.model, mean_weights)
    # `validate` records the last step of the run; the newest weights of the mean may be older.
    validation = replace(validate(run, state), step=max(steps))
    mean = Candidate(f"mean of the best {len(steps)} checkpoints", mean_weights, validation, steps)
    metric = validation.suitable(training.best_by)  # chrF if the text is too short for BLEU
    mean_value = getattr(mean.validation, metric)
    best_value = getattr(best.validation, metric)
    say(f"valid {metric} of the {mean.name} {mean_value:.3f}, of the {best.name} {best_value:.3f}")
    # Keys sort the best first; of equal ones, `min` returns the checkpoint.
    return min(best, mean, key=lambda candidate: candidate.validation.key(training.best_by))


def _validated(run: TrainingRun, state: TrainState) -> Iterator[Candidate]:
    """Yield the undamaged validated checkpoints, best first."""
    saved, best_by = set(run.checkpoints.steps()), run.config.training.best_by
    name = "last checkpoint" if best_by == "step" else "best checkpoint"
    for validation in rank(state.progress.validations, best_by):
        step = validation.step
        if step not in saved:
            continue
        try:
            weights = run.checkpoints.weights(step)
        except DamagedCheckpointError as damage:
            warn(f"{damage}; this checkpoint is ignored")
        else:
            yield Candidate(name, weights, validation, [step])
