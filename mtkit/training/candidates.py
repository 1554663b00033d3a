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
    # The mean is as old as the newest of its checkpoints.
    validation = replace(validate(run, state), step=max(steps))
    average = Candidate(f"mean of the best {len(steps)} checkpoints", mean, validation, steps)
    metric = validation.suitable(criterion)  # chrF if the text is too short for BLEU
    values = [getattr(candidate.validation, metric) for candidate in (average, single)]
    say(
        f"valid {metric} of the {average.name} {values[0]:.3f}, of the {single.name} "
        f"{values[1]:.3f}"
    )
    return min(single, average, key=lambda candidate: candidate.validation.key(criterion))


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
